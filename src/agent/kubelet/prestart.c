#include "agent/kubelet/prestart.h"

#include <stdio.h>

#include "agent/agent.h"
#include "agent/kubelet/assign.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/checkpoint.h"
#include "agent/delivery/delivery.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/delivery/allotment.h"
#include "agent/pods/refusal.h"
#include "agent/delivery/runtime.h"
#include "agent/kubelet/wire.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/names.h"

#define ARENA_MAX ((size_t)32 << 20)

/* Our record, else the kubelet's own, which has the ids by now. */
static const struct served_entry *find_entry(struct agent *agent, char *const *ids, size_t n_ids)
{
	const struct served_entry *entry = served_find_ids(&agent->served, NULL, ids, n_ids);
	struct error err = {""};

	if (entry)
		return entry;
	if (checkpoint_load(agent->options.checkpoint, CHECKPOINT_OF_CARDS, &agent->served, &err) < 0)
		log_warning("%s", err.text);
	return served_find_ids(&agent->served, NULL, ids, n_ids);
}

/* Returns 0, or -1 with the sentence for the kubelet, which shows it on the pod and tries again. */
static int prepare(struct agent *agent, struct node_pod *pod, const char *container, struct error *err)
{
	struct allotment allotment;
	bool cdi = runtime_does_cdi(agent->runtime) || gpu_mode_is_isolated(agent->in_force);

	if (!pod->facts.has_placement ||
		allotment_build(&agent->inventory, &pod->facts, container, cdi, &allotment, err) < 0) {
		refusal_sentence(agent, pod, err->text, sizeof(err->text));
		refusal_report(agent, pod->facts.uid);
		return -1;
	}
	if (!cdi)
		return driver_scan(&agent->driver, err) < 0 ? -1 : 0;
	return delivery_make(agent, pod, container, true, err) < 0 ? -1 : 0;
}

static int prestart_entry(struct agent *agent, const struct served_entry *entry, struct error *err)
{
	struct node_pod *pod = node_pods_by_uid(&agent->pods, entry->uid);
	int r;

	if (!pod) {
		/* The API server is away, or slower than the kubelet. What was prepared before holds. */
		if (runtime_does_cdi(agent->runtime) && delivery_exists(agent, entry->uid, entry->container))
			return 0;
		return error_set(err, 1,
			"the placement of the pod with uid %s is not known yet: the API server has not told",
			entry->uid);
	}
	r = prepare(agent, pod, entry->container, err);
	if (r == 0)
		assign_pod(agent, pod);
	return r;
}

/* The ids do not name one pod: all that have them are prepared. Each gets its own CDI device, and none whose
 * file could not be written. */
static int prestart(struct agent *agent, char *const *ids, size_t n_ids, struct error *err)
{
	const struct served_entry *entry = find_entry(agent, ids, n_ids);
	int r = -1;

	if (!entry)
		return error_set(err, 1,
			"these %zu units were given to nobody, by our record and by the kubelet's "
			"checkpoint: "
			"delete the pod, so that it is created anew",
			n_ids);
	for (; entry; entry = served_find_ids(&agent->served, entry, ids, n_ids))
		if (prestart_entry(agent, entry, err) == 0)
			r = 0;
	return r;
}

void prestart_handle(struct agent *agent, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const V1beta1__PreStartContainerRequest *request;
	struct error err = {""};

	wire_arena_init(&arena, ARENA_MAX);
	request = wire_unpack(&arena, &v1beta1__pre_start_container_request__descriptor, message, len);
	if (!request || !request->n_devices_ids) {
		kubelet_call_fail(call, GRPC_INVALID_ARGUMENT, "not a PreStartContainerRequest with devices");
		return;
	}
	if (prestart(agent, request->devices_ids, request->n_devices_ids, &err) == 0) {
		agent->metrics.prestart_accepted++;
		kubelet_call_reply(call, NULL, 0);
		return;
	}
	agent->metrics.prestart_refused++;
	kubelet_call_fail(call, GRPC_FAILED_PRECONDITION, err.text);
}
