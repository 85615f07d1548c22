/* Checks of the schedulers, of the owner of the ledger, and of versions. */
#include "cli/doctor/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/json.h"
#include "kube/names.h"

#define DESCRIBE "kubectl -n " NAMESPACE_SYSTEM " describe pods -l app=" SCHEDULER_NAME

static const char *lease_name(const char *identity)
{
	const char *slash = strchr(identity, '/');

	return slash ? slash + 1 : identity;
}

static void check_leader(struct cluster *cluster, const char *identity)
{
	struct json_object *lease = json_member(cluster->leases, lease_name(identity));
	const char *holder = json_text_of(lease, "holderIdentity");

	if (!*holder)
		report_find(cluster->report, SEVERITY_ERROR, identity, DESCRIBE,
			"no kube-scheduler holds this Lease: no GPU pod is placed");
	else if (cluster_lease_is_stale(cluster, lease))
		report_find(cluster->report, SEVERITY_ERROR, identity, DESCRIBE,
			"its holder %.253s no longer renews it: no GPU pod is placed", holder);
}

/* The ledger's Lease has a holder that renews it. */
static bool is_owned(const struct cluster *cluster)
{
	struct json_object *lease = json_member(cluster->leases, LEASE_LEDGER);

	return *json_text_of(lease, "holderIdentity") && !cluster_lease_is_stale(cluster, lease);
}

void check_scheduler(struct cluster *cluster)
{
	char mend[500];
	size_t ready = 0;

	for (size_t i = 0; i < json_count(cluster->pods.schedulers); i++)
		ready += is_true(json_item(cluster->pods.schedulers, i), "ready");
	if (!json_count(cluster->pods.schedulers) && !is_owned(cluster)) {
		cluster_upgrade_command(cluster, true, "enabled=true", mend, sizeof(mend));
		report_find(cluster->report, SEVERITY_ERROR, "cluster", mend,
			"no pod has a container ration-scheduler: no scheduler chooses GPUs");
		return;
	}
	if (!ready && json_count(cluster->pods.schedulers))
		report_find(cluster->report, SEVERITY_ERROR, "cluster", DESCRIBE,
			"none of the %zu pods of ration-scheduler is ready",
			json_count(cluster->pods.schedulers));
	check_leader(cluster, cluster_ledger_owner(cluster));
}

/* Finds the pairs of kube-scheduler and ration-scheduler. A pair that does not own the ledger answers
 * nothing, so the pods of its kube-scheduler wait forever. */
static bool find_pairs(struct cluster *cluster, const char *holder)
{
	bool held = false;

	for (size_t i = 0; i < json_count(cluster->pods.schedulers); i++) {
		struct json_object *scheduler = json_item(cluster->pods.schedulers, i);
		char where[600];

		if (strcmp(json_text_of(scheduler, "lease"), holder) == 0) {
			held = true;
			continue;
		}
		snprintf(where, sizeof(where), "pod %s/%s", json_text_of(scheduler, "namespace"),
			json_text_of(scheduler, "pod"));
		if (*holder)
			report_find(cluster->report, SEVERITY_ERROR, where,
				"kubectl -n " NAMESPACE_SYSTEM " scale deployment " SCHEDULER_NAME
				" --replicas=0  # if the default scheduler must own the ledger",
				"a second pair of kube-scheduler and ration-scheduler, of the Lease %.253s; the ledger is owned by %.253s, so its pods are not placed",
				json_text_of(scheduler, "lease"), holder);
	}
	return held;
}

void check_ledger(struct cluster *cluster)
{
	struct json_object *lease = json_member(cluster->leases, LEASE_LEDGER);
	const char *holder = json_text_of(lease, "holderIdentity");
	static const char where[] = "Lease " NAMESPACE_SYSTEM "/" LEASE_LEDGER;
	bool held = find_pairs(cluster, holder);

	for (size_t i = 0; i < json_count(cluster->pods.extenders); i++) {
		struct json_object *pod = json_item(cluster->pods.extenders, i);
		char other[600], mend[700];

		snprintf(other, sizeof(other), "pod %s/%s", json_text_of(pod, "namespace"),
			json_text_of(pod, "pod"));
		snprintf(mend, sizeof(mend),
			"kubectl -n %s get pod %s -o jsonpath='{.metadata.ownerReferences}'  # and remove the owner",
			json_text_of(pod, "namespace"), json_text_of(pod, "pod"));
		report_find(cluster->report, SEVERITY_ERROR, other, mend,
			"%s keeps a ledger of its own of " RESOURCE_GPU_MEM, json_text_of(pod, "what"));
	}
	if (!json_count(cluster->pods.schedulers) && !*holder)
		return; /* check_scheduler() reports that */
	if (!*holder)
		report_find(cluster->report, SEVERITY_ERROR, where, DESCRIBE, "no scheduler owns the ledger");
	else if (cluster_lease_is_stale(cluster, lease))
		report_find(cluster->report, SEVERITY_ERROR, where, DESCRIBE,
			"its owner %.253s no longer renews it", holder);
	else if (!held)
		report_find(cluster->report, SEVERITY_NOTE, where, "",
			"its owner is %.253s, but none of the pods with ration-scheduler belongs to it: it runs outside of pods, or has just ended",
			holder);
}

/* Counts the pod in the object tag -> number of pods. */
static void count_tag(struct cluster *cluster, struct json_object *tags, struct json_object *pod)
{
	const char *tag = json_text_of(pod, "tag");

	if (*tag && json_set(tags, tag, json_object_new_int64(number_of(tags, tag) + 1)) < 0)
		cluster->report->failed = true;
}

static void tell_versions(struct cluster *cluster, const char *where, struct json_object *tags)
{
	int n = json_object_object_length(tags);

	if (n > 1)
		report_find(cluster->report, SEVERITY_WARNING, where,
			"kubectl -n " NAMESPACE_SYSTEM " get pods -o wide",
			"%d versions at the same time: %.300s; is an upgrade under way, or stuck?", n,
			json_text(tags));
}

static const char *first_key(struct json_object *object)
{
	json_object_object_foreach (object, key, value) {
		(void)value;
		return key;
	}
	return "";
}

void check_versions(struct cluster *cluster)
{
	_cleanup_json_ struct json_object *agents = json_object_new_object(),
					  *schedulers = json_object_new_object();
	const char *agent, *scheduler;
	char mend[500];

	json_object_object_foreach (cluster->pods.agents, node, pod) {
		(void)node;
		count_tag(cluster, agents, pod);
	}
	for (size_t i = 0; i < json_count(cluster->pods.schedulers); i++)
		count_tag(cluster, schedulers, json_item(cluster->pods.schedulers, i));
	tell_versions(cluster, "agents", agents);
	tell_versions(cluster, "schedulers", schedulers);
	agent = first_key(agents);
	scheduler = first_key(schedulers);
	cluster_upgrade_command(cluster, strcmp(scheduler, RATION_VERSION) != 0, NULL, mend, sizeof(mend));
	if (*agent && *scheduler && strcmp(agent, scheduler) != 0)
		report_find(cluster->report, SEVERITY_WARNING, "cluster", mend,
			"agents are of version %.60s and the scheduler of %.60s: both should be of one version",
			agent, scheduler);
	else if (*agent && strcmp(agent, RATION_VERSION) != 0)
		report_find(cluster->report, SEVERITY_NOTE, "this command", "",
			"it is of version " RATION_VERSION ", the cluster of %.60s", agent);
}
