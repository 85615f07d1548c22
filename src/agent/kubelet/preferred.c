/* The kubelet's call GetPreferredAllocation (allocate.h). */
#include "agent/kubelet/allocate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/identify.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "net/loop.h"
#include "node/ids.h"

#define ARENA_MAX ((size_t)64 << 20)
#define ANSWER_WITHIN_NS (1500 * NS_PER_MS) /* the kubelet's main loop waits for the answer */

struct preference {
	struct list item;
	struct pending_calls *pending;
	struct kubelet_call *call;
	struct wire_arena arena;
	const V1beta1__PreferredAllocationRequest *request;
	struct identification *identification;
	struct loop_timer *timer;
};

static void preference_free(struct preference *p)
{
	identify_cancel(p->identification);
	loop_timer_remove(p->timer);
	list_remove(&p->item);
	wire_arena_release(&p->arena);
	free(p);
}

void preferred_end(struct pending_calls *pending)
{
	while (!list_empty(&pending->list))
		preference_free(list_entry(pending->list.next, struct preference, item));
}

static bool contains(char *const *ids, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(ids[i], id) == 0)
			return true;
	return false;
}

/* How many units of each GPU of the inventory the container was placed on; all 0 if that is unknown. */
struct shares {
	uint32_t units[NODE_GPUS_MAX];
};

/* One id of this GPU was chosen. Returns whether the GPU still had units to give. */
static bool shares_take(struct shares *shares, int gpu)
{
	if (gpu < 0 || !shares->units[gpu])
		return false;
	shares->units[gpu]--;
	return true;
}

/* Chooses must_include unchanged, then as many ids of each GPU as the placement gives, then any others; never
 * more than the call asks for. */
static char **choose_ids(
	const V1beta1__ContainerPreferredAllocationRequest *request, struct shares shares, size_t *ret_n)
{
	size_t size = request->allocation_size > 0 ? (size_t)request->allocation_size : 0;
	size_t n_must = request->n_must_include_deviceids, n = 0, n_left = 0;
	char **chosen = calloc(n_must + request->n_available_deviceids + 1, sizeof(*chosen));
	_cleanup_free_ char **left = calloc(request->n_available_deviceids + 1, sizeof(*left));

	if (!chosen || !left) {
		free(chosen);
		return NULL;
	}
	for (; n < n_must; n++) {
		chosen[n] = request->must_include_deviceids[n];
		shares_take(&shares, ids_gpu(chosen[n]));
	}
	for (size_t i = 0; i < request->n_available_deviceids && n < size; i++) {
		char *id = request->available_deviceids[i];

		if (contains(request->must_include_deviceids, n_must, id))
			continue;
		if (shares_take(&shares, ids_gpu(id)))
			chosen[n++] = id;
		else
			left[n_left++] = id;
	}
	for (size_t i = 0; i < n_left && n < size; i++)
		chosen[n++] = left[i];
	*ret_n = n;
	return chosen;
}

static void preference_answer(struct preference *p, const struct shares *shares)
{
	V1beta1__ContainerPreferredAllocationResponse container =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_RESPONSE__INIT;
	V1beta1__ContainerPreferredAllocationResponse *containers[] = {&container};
	V1beta1__PreferredAllocationResponse response = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	_cleanup_free_ uint8_t *packed = NULL;
	_cleanup_free_ char **ids = NULL;
	size_t len = 0;

	if (p->request && p->request->n_container_requests == 1) {
		ids = choose_ids(p->request->container_requests[0], *shares, &container.n_deviceids);
		container.deviceids = ids;
		if (!ids)
			container.n_deviceids = 0;
		response.container_responses = containers;
		response.n_container_responses = 1;
	}
	packed = wire_pack(&response.base, &len);
	kubelet_call_reply(p->call, packed, packed ? len : 0);
	preference_free(p);
}

static struct shares placed_shares(const struct kubelet *kubelet, const struct identified *who)
{
	const struct container_placement *placed;
	struct shares shares = {0};

	if (who->verdict != MATCHING_FOUND || !who->placed)
		return shares;
	placed = placement_find(&who->pod->facts.placement, who->container->name);
	for (size_t i = 0; i < kubelet->deps.node->inventory.n_gpus; i++)
		for (size_t k = 0; k < placed->n_gpus; k++)
			if (strcmp(kubelet->deps.node->inventory.gpus[i].facts.uuid, placed->gpus[k].uuid) ==
				0)
				shares.units[i] = placed->gpus[k].units;
	return shares;
}

static void on_identified(void *userdata, const struct identified *who)
{
	struct preference *p = userdata;
	struct shares shares = placed_shares(p->pending->kubelet, who);

	p->identification = NULL;
	preference_answer(p, &shares);
}

static void on_late(void *userdata)
{
	preference_answer(userdata, &(struct shares){0});
}

void preferred_handle(
	struct pending_calls *pending, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	struct preference *p = calloc(1, sizeof(*p));
	size_t size = 0;

	if (!p) {
		kubelet_call_reply(call, NULL, 0);
		return;
	}
	p->pending = pending;
	p->call = call;
	list_append(&pending->list, &p->item);
	wire_arena_init(&p->arena, ARENA_MAX);
	p->request = wire_unpack(&p->arena, &v1beta1__preferred_allocation_request__descriptor, message, len);
	if (!p->request) {
		kubelet_call_fail(call, GRPC_INVALID_ARGUMENT, "not a PreferredAllocationRequest");
		preference_free(p);
		return;
	}
	if (p->request->n_container_requests == 1 && p->request->container_requests[0]->allocation_size > 0)
		size = (size_t)p->request->container_requests[0]->allocation_size;
	if (!size || loop_add_timer(pending->kubelet->deps.loop, on_late, p, &p->timer) < 0 ||
		identify_start(pending->kubelet, pending->whole, size, on_identified, p, &p->identification) <
			0) {
		preference_answer(p, &(struct shares){0});
		return;
	}
	loop_timer_set(p->timer, ANSWER_WITHIN_NS);
}

void preferred_closed(struct pending_calls *pending, struct kubelet_call *call)
{
	list_for_each (item, &pending->list) {
		struct preference *p = list_entry(item, struct preference, item);

		if (p->call == call) {
			preference_free(p);
			return;
		}
	}
}
