#include "agent/agent.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/alive.h"
#include "agent/container/delivery.h"
#include "agent/container/leftovers.h"
#include "agent/container/orphans.h"
#include "agent/container/records.h"
#include "agent/container/runtime.h"
#include "agent/door.h"
#include "agent/dra/dra.h"
#include "agent/gpu/health.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/power.h"
#include "agent/gpu/refused.h"
#include "agent/gpu/watchdog.h"
#include "agent/kubelet/checkpoint.h"
#include "agent/kubelet/kubelet.h"
#include "agent/kubelet/podresources.h"
#include "agent/node/faults.h"
#include "agent/node/lease.h"
#include "agent/node/leave.h"
#include "agent/node/pod-read.h"
#include "agent/node/report.h"
#include "agent/node/settle.h"
#include "agent/node/state.h"
#include "agent/node/strays.h"
#include "agent/node/topology.h"
#include "agent/pages.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node-mode.h"
#include "kube/watch.h"
#include "net/grpc-client.h"
#include "net/loop.h"
#include "node/claims.h"

#define CRI_ANSWER_MAX ((size_t)16 << 20) /* the size of a list of all containers */
#define FIRST_TICK_NS (100 * NS_PER_MS)
#define GAP_NS (10 * NS_PER_S) /* a client that has lost the watch has made a new LIST by then */

/* The scheduler reads a value that is neither binpack nor spread as binpack. value may be NULL. */
static void follow_placement(struct agent *agent, const char *value)
{
	enum gpu_policy policy;
	char text[400];

	agent->node.placement = value && gpu_policy_parse(value, &policy) == 0 ? policy : GPU_POLICY_BINPACK;
	if (!gpu_mode_is_served(agent->node.labelled) || !value || gpu_policy_parse(value, &policy) == 0)
		value = "";
	if (*value && strncmp(agent->unknown_placement, value, sizeof(agent->unknown_placement) - 1) != 0) {
		snprintf(text, sizeof(text),
			"the label " LABEL_PLACEMENT
			"=%.63s is neither binpack nor spread, and means binpack: kubectl label node %.100s " LABEL_PLACEMENT
			"=spread --overwrite",
			value, agent->options.node_name);
		event_on_node(&agent->events, "GPUPlacementUnknown", text);
	}
	snprintf(agent->unknown_placement, sizeof(agent->unknown_placement), "%.63s", value);
}

static void on_node(void *userdata, struct json_object *node)
{
	struct agent *agent = userdata;
	struct json_object *meta = json_member(node, "metadata"), *labels = json_member(meta, "labels");
	const char *uid = json_member_string(meta, "uid");
	char *problem = agent->node.problems.mode;
	struct mode mode;
	struct mode_labels values = {.schedule = json_member_string(labels, LABEL_SCHEDULE),
		.legacy_share = json_member_string(labels, LABEL_LEGACY_SHARE),
		.legacy_cgpu = json_member_string(labels, LABEL_LEGACY_CGPU)};

	mode_from_labels(&values, agent->options.node_name, &mode);
	agent->node.labelled = mode.asked;
	if (mode.refused && strcmp(problem, mode.sentence) != 0)
		event_on_node(&agent->events, "GPUModeRefused", mode.sentence);
	snprintf(problem, sizeof(agent->node.problems.mode), "%s", mode.refused ? mode.sentence : "");
	follow_placement(agent, json_member_string(labels, LABEL_PLACEMENT));
	snprintf(agent->node.uid, sizeof(agent->node.uid), "%.63s", uid ? uid : "");
	report_seen(agent->report, node);
	power_node_seen(agent->power, json_member(meta, "annotations"));
	agent_changed(agent);
}

static void on_node_deleted(void *userdata, const char *uid, struct json_object *last)
{
	report_seen(((struct agent *)userdata)->report, NULL);
}

static void on_node_synced(void *userdata)
{
	agent_changed(userdata);
}

static void on_pod(void *userdata, struct json_object *object)
{
	struct agent *agent = userdata;
	struct node_pod *pod = pod_read(&agent->node.pods, object);

	if (pod) {
		pod->watched = true;
		node_claims_follow(&agent->node, pod);
		leftovers_pod_shown(agent->leftovers, &pod->facts);
	}
	agent_changed(agent);
}

/* Judges by the pod's last known status. The phase does not tell, because PodGC makes pods of a lost node
 * Failed before it deletes them (gc_controller.go at 1.36.3). The kubelet may also have got devices for a pod
 * whose status it has not reported yet. */
static bool may_run(const struct agent *agent, const struct pod_facts *facts)
{
	return facts->running || (facts->pending && served_knows(&agent->node.served, facts->uid));
}

/* After a restart, the API server has forgotten older events. The agent makes a new LIST, and so does the
 * scheduler, whose LIST does not show ended pods. So the agent names pods that ended meanwhile; otherwise the
 * scheduler keeps their GPUs for a while. Only the node can tell an end from a deletion by force. */
static bool others_may_have_missed_it(const struct agent *agent, bool shown)
{
	return !shown || (agent->pods_relisted_ns && monotonic_ns() - agent->pods_relisted_ns < GAP_NS);
}

static void on_pod_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct agent *agent = userdata;
	const struct node_pod *pod = last ? pod_read(&agent->node.pods, last) : NULL;

	if (!pod)
		pod = node_pods_by_uid(&agent->node.pods, uid);
	/* `held` will tell the size that the API server showed last, so the containers get it now. */
	delivery_follow_sizes(agent->delivery, agent->leftovers);
	/* If all containers have ended, as in a normal deletion, there is nothing to find out. */
	if (pod && (may_run(agent, &pod->facts) || others_may_have_missed_it(agent, last != NULL)))
		leftovers_pod_gone(agent->leftovers, &pod->facts);
	else
		records_remove(agent->options.state_dir, uid);
	/* The pod's files use memory. What its deletion says of its containers was said before they were
	 * gone. */
	if (delivery_has_file(agent->delivery, uid))
		leftovers_examine(agent->leftovers, uid);
	node_pods_remove(&agent->node.pods, uid);
	served_remove_pod(&agent->node.served, uid);
	agent_changed(agent);
}

static void on_pods_synced(void *userdata)
{
	struct agent *agent = userdata;

	if (agent->node.pods_listed)
		agent->pods_relisted_ns = monotonic_ns();
	agent->node.pods_listed = true;
	agent_forget_gone(agent);
	agent_changed(agent);
}

static void on_runtime(void *userdata)
{
	struct agent *agent = userdata;

	agent->node.saved = false;
	agent_changed(agent);
}

static void on_health(void *userdata, bool changed)
{
	struct agent *agent = userdata;

	if (changed) {
		agent->node.saved = false;
		agent_changed(agent);
	}
	looks_resume(agent->looks);
}

static int agent_start_kube(struct agent *agent, struct error *err)
{
	static const struct kube_watch_ops node_ops = {on_node, on_node_deleted, on_node_synced};
	static const struct kube_watch_ops pod_ops = {on_pod, on_pod_deleted, on_pods_synced};
	char query[400];
	int r;

	snprintf(query, sizeof(query), "fieldSelector=metadata.name%%3D%s", agent->options.node_name);
	r = kube_watch_start(
		agent->client, agent->loop, "/api/v1/nodes", query, &node_ops, agent, &agent->node_watch);
	snprintf(query, sizeof(query), "fieldSelector=spec.nodeName%%3D%s", agent->options.node_name);
	if (r == 0)
		r = kube_watch_start(agent->client, agent->loop, "/api/v1/pods", query, &pod_ops, agent,
			&agent->pod_watch);
	if (r == 0)
		r = power_start_kube(agent->power, agent->client);
	if (r == 0)
		r = faults_watch(agent->faults);
	return r < 0 ? error_set(err, -r, "cannot watch the API server: %s", strerror(-r)) : 0;
}

static bool on_use_wanted(void *userdata, const char *uuid)
{
	return power_wants_use(((struct agent *)userdata)->power, uuid);
}

static void on_used(void *userdata, const char *uuid, const struct correction_gpu *said)
{
	power_used(((struct agent *)userdata)->power, uuid, said);
}

static void on_holders(void *userdata, const char *uuid, const struct holder *holders, size_t n)
{
	watchdog_judge(((struct agent *)userdata)->watchdog, uuid, holders, n);
}

/* Takes the cluster's settings from their ConfigMap; data is NULL if the ConfigMap does not exist. It is part
 * of the chart, so its deletion does not undo `uninstalled`. */
static void on_settings(void *userdata, struct json_object *data)
{
	struct agent *agent = userdata;

	settle_unit_told(&agent->settle, json_member_string(data, CONFIG_MAP_UNIT_KEY));
	if (data)
		agent->uninstalled = json_member_is(data, CONFIG_MAP_UNINSTALL_KEY, "true");
	agent_changed(agent);
}

static void on_change(void *userdata)
{
	agent_changed(userdata);
}

static void on_ended(void *userdata, const char *uid)
{
	delivery_remove(((struct agent *)userdata)->delivery, uid);
}

/* Starts the parts that sample GPUs, and the parts that act on the samples. */
static int start_gpu_parts(struct agent *agent)
{
	const struct options *o = &agent->options;
	const struct gpu_health_ops health = {&agent->driver, &agent->node.inventory, on_health, agent};
	struct looks_deps looks = {.loop = agent->loop,
		.proc = o->proc,
		.cri = agent->cri,
		.node = &agent->node,
		.events = &agent->events,
		.wants_use = on_use_wanted,
		.used = on_used,
		.seen = on_holders,
		.userdata = agent};
	struct watchdog_deps watchdog = {.node = &agent->node,
		.events = &agent->events,
		.client = agent->client,
		.on_bypass = o->on_bypass,
		.allow_disable = o->allow_disable};
	struct power_deps power = {.loop = agent->loop,
		.node = &agent->node,
		.events = &agent->events,
		.otherwise = o->policy,
		.changed = on_change,
		.map_seen = on_settings,
		.userdata = agent};
	int r = gpu_health_new(agent->loop, &health, &agent->health);

	looks.health = agent->health;
	if (r == 0)
		r = looks_new(&looks, &agent->looks);
	if (r < 0)
		return r;
	watchdog.looks = agent->looks;
	power.set = looks_set(agent->looks);
	r = watchdog_new(&watchdog, &agent->watchdog);
	if (r == 0)
		r = refused_new(&agent->node, &agent->events, agent->looks, &agent->refused);
	return r < 0 ? r : power_new(&power, &agent->power);
}

/* Starts the parts that query the kubelet, the container runtime and the API server. */
static int start_questions(struct agent *agent)
{
	const struct options *o = &agent->options;
	const struct faults_deps faults = {.loop = agent->loop,
		.client = agent->client,
		.node = &agent->node,
		.events = &agent->events,
		.no_lists = o->no_fault_lists,
		.changed = on_change,
		.userdata = agent};
	int r = podresources_new(agent->loop, o->pod_resources_socket, &agent->podresources);

	if (r == 0)
		r = grpc_client_new(agent->loop, o->cri_socket, CRI_ANSWER_MAX, &agent->cri);
	if (r == 0)
		r = runtime_new(agent->loop, agent->cri, o->cri_socket, o->cdi_dir, on_runtime, agent,
			&agent->runtime);
	return r < 0 ? r : faults_new(&faults, &agent->faults);
}

static void on_grants_changed(void *userdata)
{
	power_changed(((struct agent *)userdata)->power);
}

/* Starts the part that sets up containers, and the part that tracks them after their pods are gone. */
static int start_delivery(struct agent *agent)
{
	const struct options *o = &agent->options;
	char kubelet_socket[PATH_MAX];
	const struct delivery_deps delivery = {.node = &agent->node,
		.events = &agent->events,
		.driver = &agent->driver,
		.health = agent->health,
		.runtime = agent->runtime,
		.looks = agent->looks,
		.state_dir = o->state_dir,
		.cdi_dir = o->cdi_dir,
		.shim_dir = o->shim_dir,
		.on_unknown = o->unknown_functions,
		.allow_disable = o->allow_disable,
		.grants_changed = on_grants_changed,
		.userdata = agent};
	const struct leftovers_deps leftovers = {.loop = agent->loop,
		.client = agent->client,
		.node = &agent->node,
		.state_dir = o->state_dir,
		.cri = agent->cri,
		.kubelet_socket = kubelet_socket,
		.ended = on_ended,
		.changed = on_change,
		.userdata = agent};
	int r = delivery_new(&delivery, &agent->delivery);

	kubelet_socket_path(o->plugin_dir, kubelet_socket);
	return r < 0 ? r : leftovers_new(&leftovers, &agent->leftovers);
}

/* Starts the parts to which the kubelet talks, and the part that writes the Node object. */
static int start_plugins(struct agent *agent)
{
	const struct options *o = &agent->options;
	const struct kubelet_deps kubelet = {.loop = agent->loop,
		.client = agent->client,
		.node = &agent->node,
		.events = &agent->events,
		.relays = &agent->relays,
		.podresources = agent->podresources,
		.delivery = agent->delivery,
		.driver = &agent->driver,
		.leftovers = agent->leftovers,
		.runtime = agent->runtime,
		.cri = agent->cri,
		.plugin_dir = o->plugin_dir,
		.checkpoint = o->checkpoint,
		.pod_resources_socket = o->pod_resources_socket,
		.cri_socket = o->cri_socket,
		.changed = on_change,
		.userdata = agent};
	int r = kubelet_new(&kubelet, &agent->kubelet);

	if (r == 0)
		r = report_new(agent->client, &agent->node, agent->leftovers, &agent->report);
	return r < 0 ? r : topology_new(agent->client, &agent->node, &agent->topology);
}

static enum share_policy on_policy_wanted(void *userdata)
{
	return power_policy(((struct agent *)userdata)->power);
}

static int on_alive_wanted(void *userdata, alive_fn fn, void *fn_userdata)
{
	return alive_ask(((struct agent *)userdata)->alive, fn, fn_userdata);
}

static int start_dra(struct agent *agent)
{
	char kubelet_socket[PATH_MAX];
	int r;
	const struct dra_deps dra = {.kept = agent->kept,
		.loop = agent->loop,
		.client = agent->client,
		.node = &agent->node,
		.events = &agent->events,
		.runtime = agent->runtime,
		.delivery = agent->delivery,
		.allow_disable = agent->options.allow_disable,
		.privileged_claims = agent->options.privileged_claims == PRIVILEGED_CLAIMS_PREPARE,
		.state_dir = agent->options.state_dir,
		.kubelet_dir = agent->options.kubelet_dir,
		.policy = on_policy_wanted,
		.ask_alive = on_alive_wanted,
		.changed = on_change,
		.userdata = agent};

	kubelet_socket_path(agent->options.plugin_dir, kubelet_socket);
	r = alive_new(agent->cri, kubelet_socket, &agent->alive);
	return r < 0 ? r : dra_new(&dra, &agent->dra);
}

static int start_keepers(struct agent *agent)
{
	const struct orphans_deps orphans = {.loop = agent->loop,
		.node = &agent->node,
		.delivery = agent->delivery,
		.leftovers = agent->leftovers,
		.podresources = agent->podresources,
		.state_dir = agent->options.state_dir,
		.cdi_dir = agent->options.cdi_dir};
	const struct strays_deps strays = {.client = agent->client,
		.node = &agent->node,
		.leftovers = agent->leftovers,
		.changed = on_change,
		.userdata = agent};
	int r = orphans_new(&orphans, &agent->orphans);

	if (r == 0)
		r = strays_new(&strays, &agent->strays);
	if (r == 0)
		r = lease_new(agent->loop, agent->client, &agent->node, &agent->lease);
	if (r == 0)
		r = metrics_page_new(agent, &agent->metrics_page);
	if (r == 0)
		r = probes_new(agent, &agent->probes);
	return r < 0 ? r : loop_add_timer(agent->loop, agent_tick, agent, &agent->tick);
}

static int agent_start_parts(struct agent *agent, struct error *err)
{
	int r = loop_add_timer(agent->loop, agent_reconcile, agent, &agent->reconcile);

	if (r == 0)
		r = start_questions(agent);
	if (r == 0)
		r = start_gpu_parts(agent);
	if (r == 0)
		r = start_delivery(agent);
	if (r == 0)
		r = start_plugins(agent);
	if (r == 0)
		r = start_dra(agent);
	if (r == 0)
		r = start_keepers(agent);
	return r < 0 ? error_set(err, -r, "cannot start: %s", strerror(-r)) : 0;
}

static void note_host_paths(struct agent *agent)
{
	const struct options *o = &agent->options;
	char *slash;

	snprintf(agent->cri_folder, sizeof(agent->cri_folder), "%s", o->cri_socket);
	slash = strrchr(agent->cri_folder, '/');
	if (slash)
		*slash = '\0';
	agent->host_paths[0] = o->host_driver_root;
	agent->host_paths[1] = agent->cri_folder;
	agent->host_paths[2] = o->cdi_dir;
	agent->host_paths[3] = o->kubelet_dir;
	agent->host_paths[4] = o->state_dir;
	agent->node.pods.host_paths = agent->host_paths;
}

int agent_start(struct agent *agent, struct error *err)
{
	const struct options *o = &agent->options;
	struct error problem = {""};
	struct state state;
	int r;

	node_registry_init(&agent->node, o->node_name);
	note_host_paths(agent);
	driver_init(&agent->driver, o->driver_root, o->host_driver_root);
	state_load(o->state_dir, o->unit_mib, &agent->node.inventory, &state);
	agent->node.in_force = state.mode;
	agent->node.asked = node_registry_in_force(&agent->node);
	agent->node.labelled = agent->node.asked.mode;
	if (checkpoint_load(o->checkpoint, CHECKPOINT_OF_GPUS, &agent->node.served, &problem) < 0)
		log_warning("%s; starting with an empty record", problem.text);
	r = connect_new(agent->loop, o->kubeconfig, &agent->client, err);
	agent->events = (struct events){agent->client, o->node_name};
	agent->settle = (struct settle){
		.node = &agent->node, .events = &agent->events, .unit_mib = o->unit_mib};
	if (r == 0)
		r = agent_start_parts(agent, err);
	if (r == 0)
		r = agent_start_kube(agent, err);
	if (r < 0)
		return r;
	if (state.knows_cdi)
		runtime_remember(agent->runtime, state.does_cdi);
	delivery_resume(agent->delivery);
	kubelet_recall_who_waits(agent->kubelet);
	power_recall(agent->power);
	if (!agent->node.inventory.n_gpus)
		gpu_health_poll(agent->health);
	agent_reconcile(agent);
	loop_timer_set(agent->tick, FIRST_TICK_NS);
	return 0;
}

void agent_stop(struct agent *agent)
{
	door_free(agent->metrics_page);
	door_free(agent->probes);
	kubelet_free(agent->kubelet);
	dra_free(agent->dra);
	alive_free(agent->alive);
	leave_free(agent->leave);
	lease_free(agent->lease);
	leftovers_free(agent->leftovers);
	orphans_free(agent->orphans);
	strays_free(agent->strays);
	report_free(agent->report);
	topology_free(agent->topology);
	kube_watch_free(agent->node_watch);
	kube_watch_free(agent->pod_watch);
	power_free(agent->power);
	agent->power = NULL;
	faults_free(agent->faults);
	kube_client_free(agent->client);
	delivery_free(agent->delivery);
	looks_free(agent->looks);
	refused_free(agent->refused);
	watchdog_free(agent->watchdog);
	gpu_health_free(agent->health);
	runtime_free(agent->runtime);
	grpc_client_free(agent->cri);
	podresources_free(agent->podresources);
	loop_timer_remove(agent->tick);
	loop_timer_remove(agent->reconcile);
	driver_release(&agent->driver);
	node_registry_release(&agent->node);
}
