#include "agent/kubelet/kubelet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/images.h"
#include "agent/container/delivery.h"
#include "agent/container/runtime.h"
#include "agent/kubelet/core-plugin.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/plugin.h"
#include "agent/kubelet/podresources.h"
#include "agent/kubelet/prestart.h"
#include "agent/kubelet/registrar.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"

/* ---- the Event GPUNotRegistered, while the kubelet lacks devices that the node offers ---- */

#define PATIENCE_NS (10 * NS_PER_S)
#define REMIND_NS (300 * NS_PER_S)

/* The registrar of a resource that is offered and that the kubelet does not have; NULL: the kubelet has all.
 */
static const struct registrar *find_missing(const struct kubelet *kubelet)
{
	if (node_registry_offers(kubelet->deps.node, IDS_OF_GPUS) && !plugin_watched(kubelet->gpu_plugin))
		return kubelet->gpu_registrar;
	if (node_registry_offers(kubelet->deps.node, IDS_OF_UNITS) && !plugin_watched(kubelet->plugin))
		return kubelet->registrar;
	if (node_registry_offers(kubelet->deps.node, IDS_OF_CORE) &&
		!core_plugin_watched(kubelet->core_plugin))
		return kubelet->core_registrar;
	return NULL;
}

static void describe(const struct kubelet *kubelet, const struct registrar *missing, char *buf, size_t size)
{
	char failure[320];

	if (!runtime_answered(kubelet->deps.runtime)) {
		snprintf(buf, size,
			"the kubelet is not told of this node's GPUs, since the container runtime at %.160s does not answer; if it has another socket, the chart's value criSocket has to name it (CRI-O: /run/crio/crio.sock; k3s and RKE2: /run/k3s/containerd/containerd.sock)",
			kubelet->deps.cri_socket);
		return;
	}
	registrar_failure(missing, failure, sizeof(failure));
	snprintf(buf, size,
		"%s; no new pods go there. To mend it restart the kubelet of this node (systemctl restart kubelet); if that does not help, see its log",
		failure);
}

/* Checks again; call it at least once a second. The node's problem `unregistered` is empty for the first 10
 * s, which a kubelet that restarts may take. When it has lasted for 10 s, and then every 5 minutes, an Event
 * and the log report it. */
static void unregistered_look(struct kubelet *kubelet)
{
	struct unregistered *unregistered = &kubelet->unregistered;
	char *text = kubelet->deps.node->problems.unregistered;
	const struct registrar *missing = kubelet->deps.node->leaving ? NULL : find_missing(kubelet);
	int64_t now = monotonic_ns();

	if (!missing) {
		if (*text)
			log_info("the kubelet has all devices of this node again");
		*unregistered = (struct unregistered){0};
		*text = '\0';
		return;
	}
	if (!unregistered->since_ns)
		unregistered->since_ns = now;
	if (now - unregistered->since_ns < PATIENCE_NS)
		return;
	describe(kubelet, missing, text, sizeof(kubelet->deps.node->problems.unregistered));
	if (unregistered->told_ns && now - unregistered->told_ns < REMIND_NS)
		return;
	unregistered->told_ns = now;
	event_on_node(kubelet->deps.events, "GPUNotRegistered", text);
}

int64_t kubelet_unregistered_ns(const struct kubelet *kubelet)
{
	return kubelet->unregistered.since_ns ? monotonic_ns() - kubelet->unregistered.since_ns : 0;
}

/* ---- the kubelet's list of pods after its start: whose turn is over (node/turn.h) ---- */

#define SOON_NS (50 * NS_PER_MS)
#define AGAIN_NS NS_PER_S
#define FIRST_LIST_NS (3 * NS_PER_S) /* so long a new agent waits for the list before it registers */

/* A kubelet that has started has no pods at first and admits them one by one. A list must be read between the
 * last of them and the next new pod. The kubelet answers 100 lists a second (podresources/constants.go at
 * 1.36.3). */
#define STARTING_NS (10 * NS_PER_S)
#define STARTING_PACE_NS (200 * NS_PER_MS)

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	struct kubelet *kubelet = userdata;
	bool answered = listing != NULL;
	bool starting = monotonic_ns() - kubelet->started_ns < STARTING_NS;

	kubelet->turn_call = NULL;
	if (answered) {
		listing_follow_turn(listing, &kubelet->deps.node->turn);
		listing_release(listing);
		free(listing);
	}
	if (starting)
		loop_timer_set(kubelet->turn_timer, answered ? STARTING_PACE_NS : SOON_NS);
	else if (!answered)
		loop_timer_set(kubelet->turn_timer, AGAIN_NS);
	if (!kubelet->pods_listed && (answered || monotonic_ns() - kubelet->began_ns > FIRST_LIST_NS)) {
		kubelet->pods_listed = true;
		kubelet->deps.changed(kubelet->deps.userdata);
	}
}

static void on_timer(void *userdata)
{
	struct kubelet *kubelet = userdata;

	if (kubelet->turn_call ||
		podresources_list(kubelet->deps.podresources, on_listing, kubelet, &kubelet->turn_call) < 0)
		loop_timer_set(kubelet->turn_timer, AGAIN_NS);
}

void turn_list_begin(struct kubelet *kubelet)
{
	podresources_cancel(kubelet->turn_call); /* it may be the previous kubelet's */
	kubelet->turn_call = NULL;
	turn_begin(&kubelet->deps.node->turn);
	kubelet->started_ns = monotonic_ns();
	loop_timer_set(kubelet->turn_timer, SOON_NS);
}

void turn_list_refused(struct kubelet *kubelet)
{
	loop_timer_set(kubelet->turn_timer, SOON_NS);
}

/* ---- start and stop, and what other folders ask ---- */

int kubelet_new(const struct kubelet_deps *deps, struct kubelet **ret_kubelet)
{
	struct kubelet *kubelet = calloc(1, sizeof(*kubelet));
	int r;

	if (!kubelet)
		return -ENOMEM;
	kubelet->deps = *deps;
	kubelet->began_ns = kubelet->started_ns = monotonic_ns();
	list_init(&kubelet->assignments);
	list_init(&kubelet->prestarts);
	served_init(&kubelet->checkpoint.served);
	r = loop_add_timer(deps->loop, on_timer, kubelet, &kubelet->turn_timer);
	if (r == 0)
		loop_timer_set(kubelet->turn_timer, 0);
	if (r == 0)
		r = images_new(deps->cri, prestart_look_again, kubelet, &kubelet->images);
	if (r == 0)
		r = plugin_new(kubelet, false, &kubelet->plugin);
	if (r == 0)
		r = plugin_new(kubelet, true, &kubelet->gpu_plugin);
	if (r == 0)
		r = core_plugin_new(kubelet, &kubelet->core_plugin);
	if (r == 0)
		r = registrar_new(kubelet, &plugin_registration, &kubelet->registrar);
	if (r == 0)
		r = registrar_new(kubelet, &core_registration, &kubelet->core_registrar);
	if (r == 0)
		r = registrar_new(kubelet, &gpu_registration, &kubelet->gpu_registrar);
	if (r < 0)
		kubelet_free(kubelet);
	else
		*ret_kubelet = kubelet;
	return r;
}

void kubelet_free(struct kubelet *kubelet)
{
	if (!kubelet)
		return;
	loop_watch_remove(kubelet->dir_watch);
	registrar_free(kubelet->registrar);
	registrar_free(kubelet->core_registrar);
	registrar_free(kubelet->gpu_registrar);
	/* The plugins' calls end now; without this, they would call the registrars. */
	kubelet->registrar = kubelet->core_registrar = kubelet->gpu_registrar = NULL;
	plugin_free(kubelet->plugin);
	plugin_free(kubelet->gpu_plugin);
	core_plugin_free(kubelet->core_plugin);
	assign_stop(kubelet);
	podresources_cancel(kubelet->turn_call);
	loop_timer_remove(kubelet->turn_timer);
	images_free(kubelet->images);
	served_release(&kubelet->checkpoint.served);
	free(kubelet);
}

bool kubelet_has_devices(const struct kubelet *kubelet)
{
	const struct node_registry *node = kubelet->deps.node;

	if (node->in_force == GPU_MODE_DRA)
		return node->watched;
	return plugin_watched(node->in_force == GPU_MODE_TOPOLOGY ? kubelet->gpu_plugin : kubelet->plugin) &&
	       (!node_registry_offers(node, IDS_OF_CORE) || core_plugin_watched(kubelet->core_plugin));
}

bool kubelet_lets_wait(const struct kubelet *kubelet, const char *uid)
{
	bool cdi = runtime_does_cdi(kubelet->deps.runtime) ||
		   gpu_mode_is_isolated(kubelet->deps.node->in_force);

	return cdi && !delivery_has_file(kubelet->deps.delivery, uid);
}

void kubelet_recall_who_waits(struct kubelet *kubelet)
{
	list_for_each (item, &kubelet->deps.node->served.entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		entry->waits = kubelet_lets_wait(kubelet, entry->uid);
	}
}

void kubelet_offer(struct kubelet *kubelet)
{
	struct node_registry *node = kubelet->deps.node;

	registrars_watch_dir(kubelet);
	/* What the container runtime supports decides how Allocate is answered. */
	if (runtime_answered(kubelet->deps.runtime)) {
		plugin_begin(kubelet->plugin);
		plugin_begin(kubelet->gpu_plugin);
		core_plugin_begin(kubelet->core_plugin);
	}
	/* The pods that the kubelet lists before it has the devices have had their turn. Without that list a
	 * new agent could not tell them from the next pod. */
	if (runtime_answered(kubelet->deps.runtime) && kubelet->pods_listed) {
		if (node_registry_offers(node, IDS_OF_UNITS))
			registrar_want(kubelet->registrar);
		if (node_registry_offers(node, IDS_OF_GPUS))
			registrar_want(kubelet->gpu_registrar);
		if (node_registry_offers(node, IDS_OF_CORE))
			registrar_want(kubelet->core_registrar);
	}
	plugin_update(kubelet->plugin);
	plugin_update(kubelet->gpu_plugin);
	core_plugin_update(kubelet->core_plugin);
	/* In the mode dra the kubelet has a driver instead of devices (dra.h). */
	if (node->in_force == GPU_MODE_DRA)
		return;
	unregistered_look(kubelet);
	node->watched = kubelet_has_devices(kubelet);
}

const struct kubelet_counts *kubelet_counts(const struct kubelet *kubelet)
{
	return &kubelet->counts;
}
