/* prestart.h - PreStartContainer: called at every start of a container, restarts included, with its ids.
 * After a reboot there is no Allocate, so what is missing is made here. The last check that the GPU has room
 * is here, too (room.h). A call waits some seconds for an orphan's end; then it is refused, and the kubelet
 * tries again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct kubelet;
struct kubelet_call;

void prestart_handle(struct kubelet *kubelet, struct kubelet_call *call, const uint8_t *message, size_t len);
void prestart_closed(struct kubelet *kubelet, struct kubelet_call *call);

/* prestart_look_again() - what calls wait for may have happened. userdata: the kubelet. */
void prestart_look_again(void *userdata);
