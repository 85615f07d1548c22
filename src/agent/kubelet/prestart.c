#include "agent/kubelet/prestart.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/allotment.h"
#include "agent/container/delivery.h"
#include "agent/container/driver.h"
#include "agent/container/images.h"
#include "agent/container/leftovers.h"
#include "agent/container/runtime.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/refusal.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/loop.h"
#include "node/room.h"

#define ARENA_MAX ((size_t)32 << 20)
#define WAIT_NS (3 * NS_PER_S)
#define LOOK_NS (50 * NS_PER_MS)

/* While the pod waits it has no CDI file, see allocate.c. A pod that has started a container already has its
 * units. */
static int check_room(struct kubelet *kubelet, struct node_pod *pod, struct error *err)
{
	int r = leftovers_leave_room(kubelet->deps.leftovers, pod, err);

	if (r < 0 && !room_has_started(kubelet->deps.node, pod))
		delivery_remove(kubelet->deps.delivery, pod->facts.uid);
	return r;
}

/* Returns 0; -EBUSY: it may start when an orphan has ended; or -EPERM. err is the sentence for the kubelet,
 * which shows it on the pod and tries again. */
static int prepare(struct kubelet *kubelet, struct node_pod *pod, const char *container, struct error *err)
{
	struct allotment allotment;
	bool cdi = runtime_does_cdi(kubelet->deps.runtime) ||
		   gpu_mode_is_isolated(kubelet->deps.node->in_force);
	int r;

	if (!pod->facts.has_placement || allotment_build(&kubelet->deps.node->inventory, &pod->facts,
						 container, cdi, &allotment, err) < 0) {
		refusal_sentence(kubelet->deps.node, pod, err->text, sizeof(err->text));
		refusal_report(kubelet->deps.node, kubelet->deps.events, pod->facts.uid);
		return -EPERM;
	}
	r = check_room(kubelet, pod, err);
	if (r < 0)
		return r;
	r = cdi ? delivery_make(kubelet->deps.delivery, pod, container, true, err)
		: driver_scan(kubelet->deps.driver, err);
	return r < 0 ? -EPERM : 0;
}

static int prestart_entry(struct kubelet *kubelet, const struct served_entry *entry, struct error *err)
{
	struct node_pod *pod = node_pods_by_uid(&kubelet->deps.node->pods, entry->uid);
	int r;

	if (!pod) {
		/* The API server is away, or slower than the kubelet. The earlier preparation is still valid.
		 */
		if (runtime_does_cdi(kubelet->deps.runtime) &&
			delivery_exists(kubelet->deps.delivery, entry->uid, entry->container)) {
			served_set_waits(&kubelet->deps.node->served, entry->uid, entry->container, false);
			return 0;
		}
		return error_set(err, EBUSY,
			"the placement of the pod with uid %s is not known yet: the API server has not told",
			entry->uid);
	}
	r = prepare(kubelet, pod, entry->container, err);
	if (r < 0)
		return r;
	served_set_waits(&kubelet->deps.node->served, entry->uid, entry->container, false);
	/* Allocate may have taken the call for one of another pod, and recorded that one. */
	leftovers_record(kubelet->deps.leftovers, &pod->facts);
	assign_pod(kubelet, pod);
	return 0;
}

/* The ids may belong to several pods. Those that have not finished are prepared: each gets its own CDI
 * device, and none if its file could not be written. */
static int prestart_all(struct kubelet *kubelet, char *const *ids, size_t n_ids, struct error *err)
{
	const struct served_entry *entry = served_find_ids(&kubelet->deps.node->served, NULL, ids, n_ids);
	int result = -EPERM;

	if (!entry)
		return error_set(err, EPERM,
			"no container was given these %zu units, by the agent's record and the kubelet's checkpoint: delete the pod, so that its controller creates it again",
			n_ids);
	error_set(err, EPERM, "the pod that was given these %zu units has finished", n_ids);
	for (; entry; entry = served_find_ids(&kubelet->deps.node->served, entry, ids, n_ids)) {
		const struct node_pod *pod = node_pods_by_uid(&kubelet->deps.node->pods, entry->uid);
		int r;

		if (pod && pod->facts.finished)
			continue;
		r = prestart_entry(kubelet, entry, err);
		if (r == 0 || (r == -EBUSY && result < 0))
			result = r;
	}
	return result;
}

/* One call of the kubelet. The kubelet waits 30 s for it (KubeletPreStartContainerRPCTimeoutInSecs, 1.36.3),
 * and after an error 10 s before it tries again. The agent waits here for things that end soon: an orphan
 * that holds the pod's units, and the first list of pods after the agent's start. */
struct prestart {
	struct list item; /* in kubelet->prestarts */
	struct kubelet *kubelet;
	struct kubelet_call *call;
	struct wire_arena arena;
	char **ids; /* in the arena */
	size_t n_ids;
	int64_t until_ns;
	struct loop_timer *timer;
};

static void prestart_free(struct prestart *p)
{
	list_remove(&p->item);
	loop_timer_remove(p->timer);
	wire_arena_release(&p->arena);
	free(p);
}

/* Images may say which of the driver's files their containers need. If the runtime does not answer in time,
 * this is ignored. */
static bool waits_for_image(struct kubelet *kubelet, const struct prestart *p)
{
	const struct served_entry *entry = served_find_ids(
		&kubelet->deps.node->served, NULL, p->ids, p->n_ids);
	bool waits = false;

	for (; entry; entry = served_find_ids(&kubelet->deps.node->served, entry, p->ids, p->n_ids)) {
		struct node_pod *pod = node_pods_by_uid(&kubelet->deps.node->pods, entry->uid);
		struct container_spec *spec = pod ? node_pod_container(pod, entry->container) : NULL;
		const char *text;

		if (!spec || spec->capabilities_by_spec || !spec->image)
			continue;
		if (images_capabilities(kubelet->images, spec->image, &text) == -EBUSY) {
			waits = true;
			continue;
		}
		free(spec->capabilities);
		spec->capabilities = text ? strdup(text) : NULL;
	}
	return waits && monotonic_ns() < p->until_ns;
}

static void prestart_try(void *userdata)
{
	struct prestart *p = userdata;
	struct kubelet *kubelet = p->kubelet;
	enum answered answered;
	struct error err = {""};
	/* First, because what follows is for the containers that this finds. */
	int r = answers_check(kubelet, p->ids, p->n_ids, &answered, &err);

	if (r == 0 && waits_for_image(kubelet, p)) {
		loop_timer_set(p->timer, LOOK_NS);
		return;
	}
	if (r == 0)
		r = prestart_all(kubelet, p->ids, p->n_ids, &err);
	if (r == -EBUSY && monotonic_ns() < p->until_ns) {
		loop_timer_set(p->timer, LOOK_NS);
		return;
	}
	if (r == -EBUSY) {
		const struct served_entry *entry = served_find_ids(
			&kubelet->deps.node->served, NULL, p->ids, p->n_ids);
		struct node_pod *pod = entry ? node_pods_by_uid(&kubelet->deps.node->pods, entry->uid) : NULL;

		if (pod && !pod->reported.wait)
			event_on_pod(kubelet->deps.events, &pod->facts, "GPUStillInUse", err.text);
		if (pod)
			pod->reported.wait = true;
	}
	kubelet->counts.answers_checked[answered]++;
	if (r == 0) {
		kubelet->counts.prestart_accepted++;
		kubelet_call_reply(p->call, NULL, 0);
	} else {
		kubelet->counts.prestart_refused++;
		kubelet_call_fail(p->call, GRPC_FAILED_PRECONDITION, err.text);
	}
	prestart_free(p);
}

void prestart_look_again(void *userdata)
{
	struct kubelet *kubelet = userdata;

	list_for_each (item, &kubelet->prestarts)
		loop_timer_set(list_entry(item, struct prestart, item)->timer, 0);
}

void prestart_closed(struct kubelet *kubelet, struct kubelet_call *call)
{
	list_for_each_safe (item, after, &kubelet->prestarts) {
		struct prestart *p = list_entry(item, struct prestart, item);

		if (p->call == call)
			prestart_free(p);
	}
}

void prestart_handle(struct kubelet *kubelet, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	const V1beta1__PreStartContainerRequest *request = NULL;
	struct prestart *p = calloc(1, sizeof(*p));

	if (!p || loop_add_timer(kubelet->deps.loop, prestart_try, p, &p->timer) < 0) {
		free(p);
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	p->kubelet = kubelet;
	p->call = call;
	wire_arena_init(&p->arena, ARENA_MAX);
	list_append(&kubelet->prestarts, &p->item);
	request = wire_unpack(&p->arena, &v1beta1__pre_start_container_request__descriptor, message, len);
	if (!request || !request->n_devices_ids) {
		kubelet_call_fail(call, GRPC_INVALID_ARGUMENT, "not a PreStartContainerRequest with devices");
		prestart_free(p);
		return;
	}
	p->ids = request->devices_ids;
	p->n_ids = request->n_devices_ids;
	p->until_ns = monotonic_ns() + WAIT_NS;
	prestart_try(p);
}
