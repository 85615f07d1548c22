/* The kubelet's device manager (cm/devicemanager/manager.go, 1.36.3): which ids a container gets, and the
 * calls to the plugin. The main loop waits in it: one pod at a time. */
#include <string.h>

#include "sim.h"

static void take_random(struct random *random, uint64_t from, uint8_t *needed, uint64_t *got)
{
	uint64_t left = from & ~*got;

	while (*needed && left) {
		uint32_t skip = random_below(random, (uint32_t)__builtin_popcountll(left));
		uint64_t bits = left;

		while (skip--)
			bits &= bits - 1;
		bits &= -bits;
		*got |= bits;
		left &= ~bits;
		(*needed)--;
	}
}

uint64_t devices_in_record(const struct kubelet *kubelet)
{
	uint64_t ids = 0;

	for_each_bit (pod, kubelet->has_devices)
		for (int c = 0; c < CONTAINERS_MAX; c++)
			ids |= kubelet->devices[pod][c].ids;
	return ids;
}

/* UpdateAllocatedDevices(): nothing before all sources have reported (row 24). */
void devices_update(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	uint64_t remove = kubelet->has_devices & ~kubelet_active(sim, n);

	if (!kubelet->sources_ready || !remove)
		return;
	for_each_bit (pod, remove)
		memset(kubelet->devices[pod], 0, sizeof(kubelet->devices[pod]));
	kubelet->has_devices &= ~remove;
	kubelet->allocated = devices_in_record(kubelet);
}

static void call_plugin(struct sim *sim, int n, enum call_kind kind, uint64_t available)
{
	struct node *node = &sim->nodes[n];
	struct kubelet *kubelet = &node->kubelet;
	struct call *call = &kubelet->call;

	*call = (struct call){.busy = true,
		.kind = (uint8_t)kind,
		.n_ids = sim->pods[kubelet->admitting].shape.units[kubelet->container],
		.serial = call->serial + 1,
		.ids = kubelet->got,
		.must = kubelet->got,
		.available = available | kubelet->got};
	count(sim, kind == CALL_ALLOCATE ? COUNT_ALLOCATIONS : COUNT_PREFERRED);
	if (!node->agent.alive) {
		call->busy = false;
		devices_answered(sim, n, false, 0, -1, REASON_CALL_LOST);
		return;
	}
	sim_after(sim, sim_delay(&node->random, 300, 5000), EVENT_CALL, node->agent.epoch, n, 0,
		(int)(call->serial & 0x7fff));
}

static void next(struct sim *sim, int n);

/* devicesToReuse: ids of init containers go to those that come after; a sidecar and a main container keep
 * theirs. */
static void container_done(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	const struct devices *given = &kubelet->devices[kubelet->admitting][kubelet->container];

	if (sim->pods[kubelet->admitting].shape.kinds[kubelet->container] == CONTAINER_INIT)
		kubelet->reuse |= given->ids;
	else
		kubelet->reuse &= ~given->ids;
	kubelet->container++;
}

static void fail(struct sim *sim, int n, enum reason reason)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	int pod = kubelet->admitting;

	kubelet->allocated = devices_in_record(kubelet);
	kubelet->admitting = -1;
	kubelet_reject(sim, n, pod, reason);
	kubelet_admitted(sim, n, pod);
}

/* devicesToAllocate(). Returns true when the container needs no call. */
static bool allocate(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct kubelet *kubelet = &node->kubelet;
	int pod = kubelet->admitting, c = kubelet->container;
	const struct devices *given = &kubelet->devices[pod][c];
	uint64_t available;

	devices_update(sim, n);
	if (!kubelet->sources_ready && (kubelet->running_at_start[c] & BIT(pod)))
		return true;
	if (sim->pods[pod].shape.whole != terms_whole(sim, n)) {
		fail(sim, n, REASON_OTHER_MODE);
		return false;
	}
	if (!kubelet->healthy) {
		fail(sim, n, REASON_UNHEALTHY);
		return false;
	}
	if (given->given && (given->ids & ~kubelet->healthy)) {
		fail(sim, n, REASON_SICK);
		return false;
	}
	if (given->given)
		return true;
	kubelet->got = 0;
	kubelet->needed = sim->pods[pod].shape.units[c];
	take_random(&node->random, kubelet->reuse, &kubelet->needed, &kubelet->got);
	kubelet->allocated |= kubelet->got;
	if (!kubelet->needed) {
		call_plugin(sim, n, CALL_ALLOCATE, 0);
		return false;
	}
	available = kubelet->healthy & ~kubelet->allocated;
	if (__builtin_popcountll(available) < kubelet->needed) {
		fail(sim, n, REASON_NO_IDS);
		return false;
	}
	call_plugin(sim, n, CALL_PREFERRED, available);
	return false;
}

static void next(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	int pod = kubelet->admitting;
	const struct shape *shape = &sim->pods[pod].shape;

	while (kubelet->container < shape->n_containers) {
		if (shape->units[kubelet->container] && !allocate(sim, n))
			return;
		container_done(sim, n);
	}
	/* The predicate handler judges after the devices were allocated (kubelet.go:1115, :1118). */
	if (shape->fate == FATE_OUT_OF_CPU) {
		fail(sim, n, REASON_OUT_OF_CPU);
		return;
	}
	kubelet->admitting = -1;
	kubelet->admitted |= BIT(pod);
	kubelet_sync(sim, n, pod);
	kubelet_admitted(sim, n, pod);
}

void devices_admit(struct sim *sim, int n, int pod)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	kubelet->admitting = (int8_t)pod;
	kubelet->container = 0;
	kubelet->reuse = kubelet->got = 0;
	if (sim->pods[pod].shape.fate == FATE_EVICTED) {
		kubelet->admitting = -1;
		kubelet_reject(sim, n, pod, REASON_EVICTED);
		kubelet_admitted(sim, n, pod);
		return;
	}
	next(sim, n);
}

static void preferred(struct sim *sim, int n, uint64_t ids)
{
	struct node *node = &sim->nodes[n];
	struct kubelet *kubelet = &node->kubelet;
	uint64_t available = kubelet->healthy & ~kubelet->allocated;

	take_random(&node->random, ids & available, &kubelet->needed, &kubelet->got);
	take_random(&node->random, available, &kubelet->needed, &kubelet->got);
	kubelet->allocated |= kubelet->got;
	if (kubelet->needed)
		fail(sim, n, REASON_NO_IDS);
	else
		call_plugin(sim, n, CALL_ALLOCATE, 0);
}

void devices_answered(struct sim *sim, int n, bool ok, uint64_t ids, int cdi, enum reason reason)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	int pod = kubelet->admitting;

	if (pod < 0)
		return;
	if (!ok) {
		fail(sim, n, reason);
		return;
	}
	if (kubelet->call.kind == CALL_PREFERRED) {
		preferred(sim, n, ids);
		return;
	}
	kubelet->devices[pod][kubelet->container] = (struct devices){kubelet->got, (int16_t)cdi, true};
	kubelet->has_devices |= BIT(pod);
	memcpy(kubelet->checkpoint, kubelet->devices, sizeof(kubelet->checkpoint));
	kubelet->checkpoint_has = kubelet->has_devices;
	container_done(sim, n);
	next(sim, n);
}
