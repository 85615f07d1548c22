/* prestart.h - PreStartContainer: called at every start of a container, restarts included, with its ids.
 * After a reboot there is no Allocate: what is missing is made here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct agent;
struct kubelet_call;

void prestart_handle(struct agent *agent, struct kubelet_call *call, const uint8_t *message, size_t len);
