/* podresources.h - the kubelet's own list of pods and their devices. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/wire.h"

struct loop;
struct podresources;
struct podresources_call;
struct turn;

/* One answer. Strings live as long as the listing. */
struct listed_pod {
	const char *namespace_, *name;
	bool lists_devices; /* ids of gpu-mem or of whole GPUs on one of its containers */
};

struct listing {
	struct wire_arena arena;
	struct listed_pod *pods;
	size_t n_pods;
};

void listing_release(struct listing *listing);

#define LISTED_KEY_SIZE 600 /* namespace, '/', name */

/* listed_key() - the pod's name in `struct turn`, in buf. */
const char *listed_key(const struct listed_pod *pod, char *buf);

/* listing_follow_turn() - turn_follow() with the pods of this answer. */
void listing_follow_turn(const struct listing *listing, struct turn *turn);

/* On failure listing is NULL, and text says why. Otherwise the callee owns it, and must release and free()
 * it. */
typedef void (*podresources_fn)(void *userdata, struct listing *listing, const char *text);

int podresources_new(struct loop *loop, const char *socket, struct podresources **ret_resources);
void podresources_free(struct podresources *resources);

/* podresources_list() - fn is called once, never from within this function. After an answer of
 * ResourceExhausted (the kubelet allows 100 calls a second, 10 at once), it asks again after 10 ms, three
 * times. */
int podresources_list(struct podresources *resources, podresources_fn fn, void *userdata,
	struct podresources_call **ret_call);
void podresources_cancel(struct podresources_call *call); /* accepts NULL */
