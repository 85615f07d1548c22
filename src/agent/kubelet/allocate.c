#include "agent/kubelet/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/allotment.h"
#include "agent/container/delivery.h"
#include "agent/container/driver.h"
#include "agent/container/leftovers.h"
#include "agent/container/runtime.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/identify.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/refusal.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/ids.h"

#define ARENA_MAX ((size_t)32 << 20)
#define DEVICES_MAX (ALLOTMENT_GPUS_MAX + DRIVER_DEVICES_MAX)

struct allocation {
	struct list item;
	struct pending_calls *pending;
	struct kubelet_call *call;
	struct wire_arena arena;
	char **ids; /* in the arena */
	size_t n_ids;
	int64_t began_ns;
	struct identification *identification; /* for the call that is being answered */
};

/* The parts of one answer; its strings are in `allotment` and in the buffers here. */
struct answer {
	V1beta1__AllocateResponse response;
	V1beta1__ContainerAllocateResponse container;
	V1beta1__ContainerAllocateResponse *containers[1];
	V1beta1__StringEntry envs[ALLOTMENT_VARIABLES_MAX];
	V1beta1__StringEntry *env_pointers[ALLOTMENT_VARIABLES_MAX];
	V1beta1__DeviceSpec devices[DEVICES_MAX];
	V1beta1__DeviceSpec *device_pointers[DEVICES_MAX];
	char device_paths[DEVICES_MAX][2][512];
	V1beta1__CDIDevice cdi;
	V1beta1__CDIDevice *cdi_pointers[1];
	char name[ANSWERED_NAME_SIZE]; /* of the CDI device */
	char cdi_name[DELIVERY_DEVICE_SIZE];
	struct allotment allotment;
};

static void allocation_free(struct allocation *allocation)
{
	identify_cancel(allocation->identification);
	list_remove(&allocation->item);
	wire_arena_release(&allocation->arena);
	free(allocation);
}

void allocate_end(struct pending_calls *pending)
{
	while (!list_empty(&pending->list))
		allocation_free(list_entry(pending->list.next, struct allocation, item));
}

static void allocation_count(const struct allocation *a, enum allocate_outcome outcome)
{
	struct kubelet_counts *metrics = &a->pending->kubelet->counts;

	metrics->allocate_results[outcome]++;
	histogram_observe(&metrics->allocate, monotonic_ns() - a->began_ns);
}

/* The ids are "<gpu>-<unit>": the kubelet may have chosen ids of another GPU than the placement. */
static void count_disagreeing_ids(const struct allocation *a, const struct allotment *allotment)
{
	struct kubelet *kubelet = a->pending->kubelet;

	for (size_t i = 0; i < a->n_ids; i++) {
		int gpu = ids_gpu(a->ids[i]);
		bool agrees = false;

		for (size_t k = 0; k < allotment->n_own && gpu >= 0; k++)
			agrees |= allotment->gpus[k] == &kubelet->deps.node->inventory.gpus[gpu];
		kubelet->counts.ids_disagreed += !agrees;
	}
}

static void answer_init(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	v1beta1__allocate_response__init(&answer->response);
	v1beta1__container_allocate_response__init(&answer->container);
	v1beta1__cdidevice__init(&answer->cdi);
	answer->containers[0] = &answer->container;
	answer->response.container_responses = answer->containers;
	answer->response.n_container_responses = 1;
	answer->container.envs = answer->env_pointers;
	answer->container.devices = answer->device_pointers;
	answer->container.cdi_devices = answer->cdi_pointers;
	answer->cdi_pointers[0] = &answer->cdi;
}

static void answer_add_variables(struct answer *answer)
{
	for (size_t i = 0; i < answer->allotment.n_variables; i++) {
		v1beta1__string_entry__init(&answer->envs[i]);
		answer->envs[i].key = (char *)answer->allotment.variables[i].name;
		answer->envs[i].value = answer->allotment.variables[i].value;
		answer->env_pointers[i] = &answer->envs[i];
	}
	answer->container.n_envs = answer->allotment.n_variables;
}

static void answer_set_cdi(struct answer *answer)
{
	answer->cdi.name = (char *)delivery_device(answer->name, answer->cdi_name, sizeof(answer->cdi_name));
	answer->container.n_cdi_devices = 1;
}

static void answer_add_device(struct answer *answer, const struct driver *driver, const char *name)
{
	size_t n = answer->container.n_devices;
	char *host = answer->device_paths[n][0], *inside = answer->device_paths[n][1];
	bool is_node;

	/* A simulated tree without real nodes has no file that a DeviceSpec could name. */
	if (n == DEVICES_MAX ||
		driver_device(driver, name, host, sizeof(answer->device_paths[n][0]), &is_node) < 0 ||
		!is_node)
		return;
	snprintf(inside, sizeof(answer->device_paths[n][1]), "/dev/%s", name);
	v1beta1__device_spec__init(&answer->devices[n]);
	answer->devices[n].host_path = host;
	answer->devices[n].container_path = inside;
	answer->devices[n].permissions = "rw";
	answer->device_pointers[n] = &answer->devices[n];
	answer->container.n_devices++;
}

/* A pod without a placement cannot have a GPU. But an error here would fail it for good, and its controller
 * would create one pod after the other. So it gets a CDI device that does not exist, and PreStartContainer
 * says why. It stays Pending, counted against the node, with its Event. */
static void answer_unplaced(struct answer *answer, bool cdi)
{
	static const char nothing[] = "void";

	if (cdi)
		answer_set_cdi(answer);
	v1beta1__string_entry__init(&answer->envs[0]);
	answer->envs[0].key = "NVIDIA_VISIBLE_DEVICES";
	answer->envs[0].value = (char *)nothing;
	answer->env_pointers[0] = &answer->envs[0];
	answer->container.n_envs = 1;
}

static void answer_placed(
	struct answer *answer, struct kubelet *kubelet, const struct identified *who, bool cdi)
{
	struct error err = {""};

	answer_add_variables(answer);
	if (!cdi) {
		char name[32];

		for (size_t i = 0; i < answer->allotment.n_gpus; i++) {
			snprintf(name, sizeof(name), "nvidia%u", answer->allotment.gpus[i]->minor);
			answer_add_device(answer, kubelet->deps.driver, name);
		}
		for (size_t i = 0; i < kubelet->deps.driver->n_devices; i++)
			answer_add_device(answer, kubelet->deps.driver, kubelet->deps.driver->devices[i]);
		return;
	}
	answer_set_cdi(answer);
	/* If the file cannot be written now, PreStartContainer writes it, so the pod need not fail for good.
	 * While the pod must wait, there must be no file: a kubelet that has just started does not call
	 * PreStartContainer (devicemanager/manager.go GetDeviceRunContainerOptions(), 1.36.3). */
	if (leftovers_leave_room(kubelet->deps.leftovers, who->pod, &err) < 0 ||
		delivery_make(kubelet->deps.delivery, who->pod, who->container->name, false, &err) < 0)
		log_warning("%s; trying again when the container starts", err.text);
}

static int allocation_reply(
	struct allocation *a, struct kubelet *kubelet, const struct identified *who, struct answer *answer)
{
	_cleanup_free_ uint8_t *packed = NULL;
	char own[ANSWERED_NAME_SIZE];
	size_t len = 0;
	int r;

	packed = wire_pack(&answer->response.base, &len);
	if (packed && who->anew)
		served_remove_pod(&kubelet->deps.node->served, who->pod->facts.uid);
	r = packed ? served_add(&kubelet->deps.node->served, who->pod->facts.uid, who->container->name,
			     a->ids, a->n_ids)
		   : -ENOMEM;
	if (r == 0 &&
		strcmp(answer->name, answered_own_name(who->pod->facts.uid, who->container->name, own)) != 0)
		r = served_set_answer(&kubelet->deps.node->served, who->pod->facts.uid, who->container->name,
			answer->name, NULL);
	if (r < 0)
		return r;
	served_set_waits(&kubelet->deps.node->served, who->pod->facts.uid, who->container->name, true);
	kubelet->has_answered = true;
	kubelet_call_reply(a->call, packed, len);
	return 0;
}

static void allocation_serve(struct allocation *a, const struct identified *who)
{
	struct kubelet *kubelet = a->pending->kubelet;
	const struct pod_facts *pod = &who->pod->facts;
	_cleanup_free_ struct answer *answer = calloc(1, sizeof(*answer));
	enum allocate_outcome outcome = ALLOCATE_NOT_PLACED;
	/* An isolated node has no other way. If the runtime does not apply the file, PreStartContainer
	 * refuses. */
	bool cdi = runtime_does_cdi(kubelet->deps.runtime) ||
		   gpu_mode_is_isolated(kubelet->deps.node->in_force);
	struct error err = {""};

	if (!answer) {
		allocation_count(a, ALLOCATE_FAILED);
		kubelet_call_fail(a->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	answer_init(answer);
	answered_new_name(&kubelet->deps.node->served, pod->uid, who->container->name, answer->name);
	if (who->placed && driver_scan(kubelet->deps.driver, &err) == 0 &&
		allotment_build(&kubelet->deps.node->inventory, pod, who->container->name, cdi,
			&answer->allotment, &err) == 0) {
		answer_placed(answer, kubelet, who, cdi);
		outcome = ALLOCATE_GRANTED;
		count_disagreeing_ids(a, &answer->allotment);
		leftovers_record(kubelet->deps.leftovers, pod);
		log_info("pod %s/%s container %s gets %zu %s%s (%s)", pod->namespace_, pod->name,
			who->container->name, a->n_ids, pod->request.whole ? "GPUs" : "units of GPU ",
			allotment_value(&answer->allotment, ENV_MEM_IDX),
			allotment_value(&answer->allotment, cdi ? ENV_ALIYUN_VISIBLE : ENV_NVIDIA_VISIBLE));
	} else {
		answer_unplaced(answer, cdi);
		refusal_report(kubelet->deps.node, kubelet->deps.events, pod->uid);
	}
	if (allocation_reply(a, kubelet, who, answer) < 0) {
		outcome = ALLOCATE_FAILED;
		kubelet_call_fail(a->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	}
	allocation_count(a, outcome);
}

static void allocate_next(struct pending_calls *pending);

static void on_identified(void *userdata, const struct identified *who)
{
	struct allocation *a = userdata;
	struct pending_calls *pending = a->pending;

	a->identification = NULL;
	if (who->verdict == MATCHING_FOUND) {
		allocation_serve(a, who);
	} else {
		if (who->pod)
			event_on_pod(pending->kubelet->deps.events, &who->pod->facts, "GPUAllocateRefused",
				who->text);
		else
			event_on_node(pending->kubelet->deps.events, "GPUAllocateRefused", who->text);
		allocation_count(a, who->kubelet_silent ? ALLOCATE_KUBELET_SILENT
				    : who->pod		? ALLOCATE_OVER_TOTAL
							: ALLOCATE_UNIDENTIFIED);
		kubelet_call_fail(a->call, GRPC_FAILED_PRECONDITION, who->text);
		turn_list_refused(pending->kubelet);
	}
	allocation_free(a);
	allocate_next(pending);
	pending->kubelet->deps.changed(pending->kubelet->deps.userdata);
}

static void allocate_next(struct pending_calls *pending)
{
	while (!list_empty(&pending->list)) {
		struct allocation *a = list_entry(pending->list.next, struct allocation, item);

		if (a->identification || identify_start(pending->kubelet, pending->whole, a->n_ids,
						 on_identified, a, &a->identification) == 0)
			return;
		allocation_count(a, ALLOCATE_FAILED);
		kubelet_call_fail(a->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		allocation_free(a);
	}
}

static int allocation_parse(struct allocation *a, const uint8_t *message, size_t len)
{
	const V1beta1__AllocateRequest *request = wire_unpack(
		&a->arena, &v1beta1__allocate_request__descriptor, message, len);

	/* The kubelet asks for one container per call (manager.go: allocateContainerResources, 1.36). */
	if (!request || request->n_container_requests != 1 || !request->container_requests[0]->n_devices_ids)
		return -EINVAL;
	a->ids = request->container_requests[0]->devices_ids;
	a->n_ids = request->container_requests[0]->n_devices_ids;
	return 0;
}

void allocate_handle(
	struct pending_calls *pending, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	struct allocation *a = calloc(1, sizeof(*a));

	if (!a) {
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	a->pending = pending;
	a->call = call;
	a->began_ns = monotonic_ns();
	wire_arena_init(&a->arena, ARENA_MAX);
	if (allocation_parse(a, message, len) < 0) {
		allocation_count(a, ALLOCATE_BAD_REQUEST);
		kubelet_call_fail(call, GRPC_INVALID_ARGUMENT,
			"not an AllocateRequest for one container and at least one device");
		allocation_free(a);
		return;
	}
	list_append(&pending->list, &a->item);
	allocate_next(pending);
}

void allocate_closed(struct pending_calls *pending, struct kubelet_call *call)
{
	list_for_each (item, &pending->list) {
		struct allocation *a = list_entry(item, struct allocation, item);

		if (a->call != call)
			continue;
		pending->kubelet->counts.allocate_abandoned++;
		allocation_free(a);
		allocate_next(pending);
		return;
	}
}
