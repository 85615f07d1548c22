#include "agent/kubelet/podresources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/podresources.pb-c.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/names.h"
#include "net/grpc-client.h"
#include "net/loop.h"
#include "node/turn.h"

#define ANSWER_MAX ((size_t)16 << 20)
#define ARENA_MAX ((size_t)64 << 20)
#define PODS_MAX 4096
#define TIMEOUT_MS 1000
#define TRIES 4
#define AGAIN_NS (10 * NS_PER_MS)

struct podresources {
	struct loop *loop;
	struct grpc_client *client;
};

struct podresources_call {
	struct podresources *resources;
	struct grpc_client_call *call;
	struct loop_timer *timer;
	int tries;
	podresources_fn fn;
	void *userdata;
};

void listing_release(struct listing *listing)
{
	wire_arena_release(&listing->arena);
	free(listing->pods);
	listing->pods = NULL;
}

const char *listed_key(const struct listed_pod *pod, char *buf)
{
	snprintf(buf, LISTED_KEY_SIZE, "%s/%s", pod->namespace_, pod->name);
	return buf;
}

void listing_follow_turn(const struct listing *listing, struct turn *turn)
{
	_cleanup_free_ char(*keys)[LISTED_KEY_SIZE] = calloc(listing->n_pods + 1, sizeof(*keys));
	_cleanup_free_ const char **names = calloc(listing->n_pods + 1, sizeof(*names));

	for (size_t i = 0; keys && names && i < listing->n_pods; i++)
		names[i] = listed_key(&listing->pods[i], keys[i]);
	if (keys && names)
		turn_follow(turn, names, listing->n_pods);
	else
		turn_begin(turn);
}

int podresources_new(struct loop *loop, const char *socket, struct podresources **ret_resources)
{
	struct podresources *resources = calloc(1, sizeof(*resources));
	int r;

	if (!resources)
		return -ENOMEM;
	resources->loop = loop;
	r = grpc_client_new(loop, socket, ANSWER_MAX, &resources->client);
	if (r < 0) {
		free(resources);
		return r;
	}
	*ret_resources = resources;
	return 0;
}

void podresources_free(struct podresources *resources)
{
	if (!resources)
		return;
	grpc_client_free(resources->client);
	free(resources);
}

static void call_free(struct podresources_call *call)
{
	loop_timer_remove(call->timer);
	free(call);
}

void podresources_cancel(struct podresources_call *call)
{
	if (!call)
		return;
	grpc_client_cancel(call->call);
	call_free(call);
}

static bool has_devices(const V1__PodResources *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++)
		for (size_t k = 0; k < pod->containers[i]->n_devices; k++) {
			const V1__ContainerDevices *devices = pod->containers[i]->devices[k];

			if (devices->n_device_ids &&
				(strcmp(devices->resource_name, RESOURCE_GPU_MEM) == 0 ||
					strcmp(devices->resource_name, RESOURCE_GPU) == 0))
				return true;
		}
	return false;
}

static struct listing *listing_parse(const uint8_t *message, size_t len)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	const V1__ListPodResourcesResponse *response;

	if (!listing)
		return NULL;
	wire_arena_init(&listing->arena, ARENA_MAX);
	response = wire_unpack(&listing->arena, &v1__list_pod_resources_response__descriptor, message, len);
	if (response && response->n_pod_resources <= PODS_MAX)
		listing->pods = calloc(response->n_pod_resources + 1, sizeof(*listing->pods));
	if (!listing->pods) {
		listing_release(listing);
		free(listing);
		return NULL;
	}
	for (size_t i = 0; i < response->n_pod_resources; i++) {
		const V1__PodResources *pod = response->pod_resources[i];

		listing->pods[listing->n_pods++] = (struct listed_pod){
			.namespace_ = pod->namespace_, .name = pod->name, .lists_devices = has_devices(pod)};
	}
	return listing;
}

static void call_end(struct podresources_call *call, struct listing *listing, const char *text)
{
	podresources_fn fn = call->fn;
	void *userdata = call->userdata;

	call_free(call);
	fn(userdata, listing, text);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct podresources_call *call = userdata;
	struct listing *listing;
	char text[512];

	call->call = NULL;
	if ((reply->result == -ECONNRESET || reply->result == -EPIPE ||
		    (reply->result == 0 && reply->status == GRPC_RESOURCE_EXHAUSTED)) &&
		call->tries < TRIES) {
		loop_timer_set(call->timer, AGAIN_NS);
		return;
	}
	if (reply->result < 0 || reply->status != GRPC_OK) {
		call_end(call, NULL, grpc_reply_text(reply, text, sizeof(text)));
		return;
	}
	listing = listing_parse(reply->message, reply->len);
	call_end(call, listing, listing ? "" : "its answer is malformed");
}

/* The first try also starts here, so that fn is never called from within podresources_list(). */
static void call_try(void *userdata)
{
	struct podresources_call *call = userdata;
	int r;

	call->tries++;
	r = grpc_client_call(call->resources->client, "/v1.PodResourcesLister/List", NULL, 0, TIMEOUT_MS,
		on_reply, call, &call->call);
	if (r < 0)
		call_end(call, NULL, strerror(-r));
}

int podresources_list(struct podresources *resources, podresources_fn fn, void *userdata,
	struct podresources_call **ret_call)
{
	struct podresources_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	*call = (struct podresources_call){.resources = resources, .fn = fn, .userdata = userdata};
	r = loop_add_timer(resources->loop, call_try, call, &call->timer);
	if (r < 0) {
		free(call);
		return r;
	}
	loop_timer_set(call->timer, 0);
	*ret_call = call;
	return 0;
}
