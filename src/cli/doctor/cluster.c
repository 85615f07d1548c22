#include "cli/doctor/cluster.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node.h"
#include "kube/pod.h"

#define PAGES_MAX 10000
#define PAGE_ITEMS "500"
#define LEASE_DURATION_S 40
#define SYSTEM(group, what) group "/namespaces/" NAMESPACE_SYSTEM "/" what
#define ADMISSION "/apis/admissionregistration.k8s.io/v1"

typedef void item_fn(struct cluster *cluster, struct json_object *item);

static int read_page(struct cluster *cluster, const char *path, const char *token, item_fn *take,
	char **ret_token, struct error *err)
{
	_cleanup_json_ struct json_object *page = NULL;
	_cleanup_free_ char *url = NULL;
	struct json_object *items;
	const char *next;
	int r;

	if (asprintf(&url, "%s%slimit=" PAGE_ITEMS "%s%s", path, strchr(path, '?') ? "&" : "?",
		    token ? "&continue=" : "", token ? token : "") < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = object_read(cluster->kubectl, url, &page, err);
	if (r < 0)
		return r;
	items = json_member(page, "items");
	for (size_t i = 0; i < json_count(items); i++)
		take(cluster, json_item(items, i));
	next = json_text_of(json_member(page, "metadata"), "continue");
	for (const char *p = next; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-._~=", *p))
			return error_set(err, EBADMSG, "%s: the token of the next page is not valid", path);
	*ret_token = *next ? strdup(next) : NULL;
	return *next && !*ret_token ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int read_list(struct cluster *cluster, const char *path, item_fn *take, struct error *err)
{
	_cleanup_free_ char *token = NULL;

	for (int page = 0; page < PAGES_MAX; page++) {
		char *next = NULL;
		int r = read_page(cluster, path, token, take, &next, err);

		free(token);
		token = next;
		if (r < 0 || !token)
			return r;
	}
	return error_set(err, EBADMSG, "%s: more than %d pages", path, PAGES_MAX);
}

static void note_problem(struct cluster *cluster, enum source source, int r, const struct error *err)
{
	if (r < 0)
		snprintf(cluster->problem[source], sizeof(cluster->problem[source]), "%s", err->text);
}

static int64_t time_of(struct json_object *spec)
{
	struct tm tm = {0};

	return strptime(json_text_of(spec, "renewTime"), "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

bool cluster_lease_is_stale(const struct cluster *cluster, struct json_object *spec)
{
	int64_t duration_s = number_of(spec, "leaseDurationSeconds");

	return cluster->newest_s - time_of(spec) > (duration_s > 0 ? duration_s : LEASE_DURATION_S);
}

#define CHART_AGENT "ack-ai-installer"
#define CHART_SCHEDULER "ack-co-scheduler"
/* A release's name is at most 53 characters long. */
#define UPGRADE                                                                                              \
	"helm upgrade --install %.53s deploy/charts/%s -n " NAMESPACE_SYSTEM                                 \
	" --reset-then-reuse-values%s%s%s"

void cluster_upgrade_command(
	const struct cluster *cluster, bool scheduler, const char *setting, char *ret, size_t size)
{
	const char *set = setting ? " --set " : "", *value = setting ? setting : "";
	const char *of_agents = "",
		   *of_schedulers = json_text_of(json_item(cluster->pods.schedulers, 0), "release");
	bool apart;

	json_object_object_foreach (cluster->pods.agents, node, agent) {
		(void)node;
		of_agents = json_text_of(agent, "release");
		break;
	}
	apart = json_count(cluster->pods.schedulers) && strcmp(of_agents, of_schedulers) != 0;
	if (scheduler && apart)
		snprintf(ret, size, UPGRADE, *of_schedulers ? of_schedulers : CHART_SCHEDULER,
			CHART_SCHEDULER, set, "", value);
	else
		snprintf(ret, size, UPGRADE, *of_agents ? of_agents : CHART_AGENT, CHART_AGENT, set,
			setting && scheduler ? "scheduler." : "", value);
}

const char *cluster_ledger_owner(const struct cluster *cluster)
{
	const char *holder = json_text_of(json_member(cluster->leases, LEASE_LEDGER), "holderIdentity");

	return *holder ? holder : NAMESPACE_SYSTEM "/" SCHEDULER_NAME;
}

static void take_lease(struct cluster *cluster, struct json_object *item)
{
	struct json_object *spec = json_member(item, "spec");

	if (time_of(spec) > cluster->newest_s)
		cluster->newest_s = time_of(spec);
	if (json_set(cluster->leases, json_text_of(json_member(item, "metadata"), "name"),
		    spec ? json_object_get(spec) : json_object_new_object()) < 0)
		cluster->report->failed = true;
}

static void take_configmap(struct cluster *cluster, struct json_object *item)
{
	const char *name = json_text_of(json_member(item, "metadata"), "name");

	if (strncmp(name, CONFIG_MAP_UNHEALTHY_PREFIX, strlen(CONFIG_MAP_UNHEALTHY_PREFIX)) != 0 &&
		!strstr(name, CONFIG_MAP_DEVICE_STATUS_SUFFIX))
		return;
	if (json_set(cluster->configmaps, name, json_object_get(item)) < 0)
		cluster->report->failed = true;
}

static void take_policy(struct cluster *cluster, const char *kind, struct json_object *item)
{
	char key[320];

	snprintf(key, sizeof(key), "%s/%s", kind, json_text_of(json_member(item, "metadata"), "name"));
	if (json_set(cluster->policies, key, json_object_new_boolean(true)) < 0)
		cluster->report->failed = true;
}

static void take_validating(struct cluster *cluster, struct json_object *item)
{
	take_policy(cluster, "ValidatingAdmissionPolicy", item);
}

static void take_validating_binding(struct cluster *cluster, struct json_object *item)
{
	take_policy(cluster, "ValidatingAdmissionPolicyBinding", item);
}

static void take_mutating(struct cluster *cluster, struct json_object *item)
{
	take_policy(cluster, "MutatingAdmissionPolicy", item);
}

static void take_mutating_binding(struct cluster *cluster, struct json_object *item)
{
	take_policy(cluster, "MutatingAdmissionPolicyBinding", item);
}

/* Remembers whether ration-scheduler has written the certificate that the API server has to trust. */
static void take_webhook(struct cluster *cluster, struct json_object *item)
{
	struct json_object *client = json_member(json_item(json_member(item, "webhooks"), 0), "clientConfig");
	char key[320];

	snprintf(key, sizeof(key), WEBHOOK_KIND "/%s", json_text_of(json_member(item, "metadata"), "name"));
	if (json_set(cluster->policies, key, json_object_new_boolean(*json_text_of(client, "caBundle"))) < 0)
		cluster->report->failed = true;
}

/* Reads which kinds v1 has, and then ration's policies and webhooks of these kinds. */
static int read_policies(struct cluster *cluster, struct error *err)
{
	_cleanup_json_ struct json_object *kinds = NULL;
	struct json_object *resources;
	bool webhooks = false;
	int r = object_read(cluster->kubectl, ADMISSION, &kinds, err);

	resources = json_member(kinds, "resources");
	for (size_t i = 0; i < json_count(resources); i++) {
		const char *name = json_text_of(json_item(resources, i), "name");

		cluster->serves_validating |= strcmp(name, "validatingadmissionpolicies") == 0;
		cluster->serves_mutating |= strcmp(name, "mutatingadmissionpolicies") == 0;
		webhooks |= strcmp(name, "mutatingwebhookconfigurations") == 0;
	}
	if (r == 0 && cluster->serves_validating)
		r = read_list(cluster, ADMISSION "/validatingadmissionpolicies", take_validating, err);
	if (r == 0 && cluster->serves_validating)
		r = read_list(cluster, ADMISSION "/validatingadmissionpolicybindings",
			take_validating_binding, err);
	if (r == 0 && cluster->serves_mutating)
		r = read_list(cluster, ADMISSION "/mutatingadmissionpolicies", take_mutating, err);
	if (r == 0 && cluster->serves_mutating)
		r = read_list(
			cluster, ADMISSION "/mutatingadmissionpolicybindings", take_mutating_binding, err);
	if (r == 0 && webhooks)
		r = read_list(cluster, ADMISSION "/mutatingwebhookconfigurations", take_webhook, err);
	return r;
}

/* ---- the checks ---- */

#define NEEDS(source) (1u << SOURCE_##source)

/* The checks of a cluster, in the order of the report. The functions may be NULL. They are called after
 * Leases, ConfigMaps and policies were read, pod() before node(). */
static const struct cluster_check {
	const char *name;
	unsigned int needs; /* 1 << enum source */
	void (*node)(struct cluster *cluster, struct json_object *node, const struct node_facts *facts);
	void (*pod)(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts);
	void (*finish)(struct cluster *cluster);
} cluster_checks[] = {
	{"kubernetes", NEEDS(VERSION), .finish = check_kubernetes},
	{"permissions", 0, .finish = check_permissions},
	{"policies", NEEDS(POLICIES), .finish = check_policies},
	{"scheduler", NEEDS(LEASES) | NEEDS(PODS), .finish = check_scheduler},
	{"ledger", NEEDS(LEASES) | NEEDS(PODS), .finish = check_ledger},
	{"versions", NEEDS(PODS), .finish = check_versions},
	{"labels", NEEDS(NODES), .node = check_labels},
	{"agents", NEEDS(NODES) | NEEDS(PODS) | NEEDS(LEASES), .node = check_agents},
	{"runtime", NEEDS(NODES), .node = check_runtime},
	{"capacity", NEEDS(NODES), .node = check_capacity},
	{"cards", NEEDS(NODES), .node = check_gpus},
	{"mig", NEEDS(NODES), .node = check_mig},
	{"fault-lists", NEEDS(NODES) | NEEDS(CONFIGMAPS), .node = check_fault_lists,
		.finish = check_fault_lists_left},
	{"foreign-plugins", NEEDS(NODES) | NEEDS(PODS), .node = check_foreign_plugins},
	{"requests", NEEDS(PODS), .pod = check_requests},
	{"unplaced", NEEDS(PODS), .pod = check_unplaced},
	{"placements", NEEDS(PODS) | NEEDS(NODES), .pod = collect_placement, .node = check_placements},
	{"claims", NEEDS(PODS) | NEEDS(NODES) | NEEDS(LEASES) | NEEDS(POLICIES) | NEEDS(CLAIMS),
		.pod = collect_claims_of_pod, .node = collect_claims_of_node, .finish = check_claims},
	{"scheduler-name", NEEDS(PODS) | NEEDS(LEASES), .pod = check_scheduler_name},
};

static bool has_sources(
	const struct cluster *cluster, const struct cluster_check *check, const char **ret_why)
{
	for (int source = 0; source < SOURCE_MAX; source++)
		if (check->needs & 1u << source && cluster->problem[source][0]) {
			*ret_why = cluster->problem[source];
			return false;
		}
	return true;
}

static void take_pod(struct cluster *cluster, struct json_object *pod)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error problem = {""};
	const char *why;

	cluster_collect_pod(cluster, pod);
	pod_facts_init(&facts);
	if (pod_facts_from_json(pod, &facts, &problem) < 0 && !facts.name)
		return;
	cluster->malformed = problem.text;
	for (size_t i = 0; i < ARRAY_SIZE(cluster_checks); i++)
		if (cluster_checks[i].pod && has_sources(cluster, &cluster_checks[i], &why)) {
			report_check(cluster->report, cluster_checks[i].name);
			cluster_checks[i].pod(cluster, pod, &facts);
		}
}

static void take_node(struct cluster *cluster, struct json_object *node)
{
	_cleanup_node_facts_ struct node_facts facts;
	struct error problem = {""};
	const char *why;

	node_facts_init(&facts);
	if (node_facts_from_json(node, &facts, &problem) < 0)
		return;
	cluster->malformed = problem.text;
	for (size_t i = 0; i < ARRAY_SIZE(cluster_checks); i++)
		if (cluster_checks[i].node && has_sources(cluster, &cluster_checks[i], &why)) {
			report_check(cluster->report, cluster_checks[i].name);
			cluster_checks[i].node(cluster, node, &facts);
		}
}

static void read_all(struct cluster *cluster)
{
	static const char pods[] =
		"/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
	struct error err = {""};
	int r;

	r = read_list(cluster, SYSTEM("/apis/coordination.k8s.io/v1", "leases"), take_lease, &err);
	note_problem(cluster, SOURCE_LEASES, r, &err);
	r = read_list(cluster, SYSTEM("/api/v1", "configmaps"), take_configmap, &err);
	note_problem(cluster, SOURCE_CONFIGMAPS, r, &err);
	r = read_policies(cluster, &err);
	note_problem(cluster, SOURCE_POLICIES, r, &err);
	r = read_list(cluster, pods, take_pod, &err);
	note_problem(cluster, SOURCE_PODS, r, &err);
	r = read_list(cluster, "/api/v1/nodes", take_node, &err);
	note_problem(cluster, SOURCE_NODES, r, &err);
	r = cluster_read_claims(cluster, &err);
	note_problem(cluster, SOURCE_CLAIMS, r, &err);
}

static void cluster_release(struct cluster *cluster)
{
	json_put_ptr(&cluster->leases);
	json_put_ptr(&cluster->configmaps);
	json_put_ptr(&cluster->policies);
	json_put_ptr(&cluster->pods.agents);
	json_put_ptr(&cluster->pods.schedulers);
	json_put_ptr(&cluster->pods.foreign);
	json_put_ptr(&cluster->pods.extenders);
	json_put_ptr(&cluster->pods.placed);
	claims_found_free(cluster->claims);
}

int cluster_examine(const struct kubectl *kubectl, struct report *report, struct error *err)
{
	_cleanup_(cluster_release) struct cluster cluster = {.kubectl = kubectl,
		.report = report,
		.leases = json_object_new_object(),
		.configmaps = json_object_new_object(),
		.policies = json_object_new_object(),
		.pods.agents = json_object_new_object(),
		.pods.schedulers = json_object_new_array(),
		.pods.foreign = json_object_new_object(),
		.pods.extenders = json_object_new_array(),
		.pods.placed = json_object_new_object()};
	_cleanup_json_ struct json_object *version = NULL;
	const char *why;
	int r;

	if (!cluster.leases || !cluster.configmaps || !cluster.policies || !cluster.pods.agents ||
		!cluster.pods.schedulers || !cluster.pods.foreign || !cluster.pods.extenders ||
		!cluster.pods.placed || claims_found_new(&cluster.claims) < 0)
		return error_set(err, ENOMEM, "out of memory");
	/* The report lists the checks in the order of the table. */
	for (size_t i = 0; i < ARRAY_SIZE(cluster_checks); i++)
		report_check(report, cluster_checks[i].name);
	r = object_read(kubectl, "/version", &version, err);
	if (r < 0)
		return r;
	snprintf(cluster.version, sizeof(cluster.version), "%s", json_text_of(version, "gitVersion"));
	/* some vendors have "31+" */
	cluster.minor = (int)strtol(json_text_of(version, "minor"), NULL, 10);
	read_all(&cluster);
	for (size_t i = 0; i < ARRAY_SIZE(cluster_checks); i++) {
		report_check(report, cluster_checks[i].name);
		if (!has_sources(&cluster, &cluster_checks[i], &why))
			report_unknown(report, why);
		else if (cluster_checks[i].finish)
			cluster_checks[i].finish(&cluster);
	}
	return 0;
}
