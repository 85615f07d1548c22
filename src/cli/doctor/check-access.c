/* Checks of Kubernetes itself: its version, its admission policies, and the user's rights. */
#include "cli/doctor/cluster.h"

#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/doctor/report.h"
#include "cli/kubectl.h"
#include "cli/leader.h"
#include "kube/json.h"
#include "kube/names.h"

#define OLDEST                                                                                               \
	29 /* the oldest that was tried; since then the kubelet takes CDI devices from device plugins */
#define VALIDATING_SINCE 30 /* ValidatingAdmissionPolicy v1 */
#define MUTATING_SINCE 36   /* MutatingAdmissionPolicy v1 */

#define NO_MUTATING                                                                                          \
	"no MutatingAdmissionPolicy v1 (since 1.36) and the chart's webhook is off (webhook.enabled): pods " \
	"name "                                                                                              \
	"schedulerName: " SCHEDULER_NAME                                                                     \
	" themselves, or the default scheduler is given the ledger (ration doctor --scheduler-config)"

static struct json_object *scheduler_name_webhook(const struct cluster *cluster)
{
	return json_member(cluster->policies, WEBHOOK_KIND "/" WEBHOOK_SCHEDULER_NAME);
}

void check_kubernetes(struct cluster *cluster)
{
	const char *version = cluster->version;

	if (cluster->minor < OLDEST)
		report_find(cluster->report, SEVERITY_ERROR, "cluster", "",
			"Kubernetes %.60s is older than 1.%d, which ration needs", version, OLDEST);
	else if (cluster->minor < VALIDATING_SINCE)
		report_find(cluster->report, SEVERITY_WARNING, "cluster", "",
			"Kubernetes %.60s serves no ValidatingAdmissionPolicy v1 (since 1.%d): pods that ask for what they may not have are not refused at admission%s",
			version, VALIDATING_SINCE, scheduler_name_webhook(cluster) ? "" : "; " NO_MUTATING);
	else if (cluster->minor < MUTATING_SINCE && !scheduler_name_webhook(cluster))
		report_find(cluster->report, SEVERITY_NOTE, "cluster", "",
			"Kubernetes %.60s serves " NO_MUTATING, version);
}

/* The policies of the charts, and what happens without them. */
static const struct policy {
	const char *name;
	bool of_scheduler; /* its chart brings the policy */
	const char *setting, *without;
} policies[] = {
	{"ration-placement-keys", true, "policies.placementKeys=true",
		"a user with the right to create or patch pods can forge a placement, and take memory that the ledger does not see"},
	{"ration-gpu-requests", true, "policies.requests=true",
		"a pod that can never be placed is not refused at admission: it waits"},
	{"ration-gpu-volumes", false, "policies.volumes=true",
		"a user with the right to create pods can replace the agent's grant by another one"},
	{"ration-gpu-privileges", false, "policies.privileges=true",
		"a user with the right to create pods can use all GPUs of a node"},
	{"ration-agent-own-node", false, "ownNodeOnly=true",
		"an agent can write to other nodes than its own"},
};

static void check_policy(struct cluster *cluster, const struct policy *policy)
{
	char key[320], binding[320], mend[500];
	bool there;

	snprintf(key, sizeof(key), "ValidatingAdmissionPolicy/%s", policy->name);
	snprintf(binding, sizeof(binding), "ValidatingAdmissionPolicyBinding/%s", policy->name);
	cluster_upgrade_command(cluster, policy->of_scheduler, policy->setting, mend, sizeof(mend));
	there = json_member(cluster->policies, key) != NULL;
	if (!there || !json_member(cluster->policies, binding))
		report_find(cluster->report, SEVERITY_WARNING, there ? binding : key, mend,
			"it is not installed: %s", policy->without);
}

void check_policies(struct cluster *cluster)
{
	const char *holder = cluster_ledger_owner(cluster);
	static const char mutating[] = "MutatingAdmissionPolicy/" WEBHOOK_SCHEDULER_NAME;
	struct json_object *webhook = scheduler_name_webhook(cluster);

	if (!cluster->serves_validating)
		report_find(cluster->report, SEVERITY_WARNING, "cluster", "",
			"ValidatingAdmissionPolicy v1 is not served: pods that ask for what they may not have are not refused at admission");
	for (size_t i = 0; cluster->serves_validating && i < ARRAY_SIZE(policies); i++)
		check_policy(cluster, &policies[i]);
	if (webhook && !json_object_get_boolean(webhook))
		report_find(cluster->report, SEVERITY_WARNING, WEBHOOK_KIND "/" WEBHOOK_SCHEDULER_NAME,
			"kubectl -n " NAMESPACE_SYSTEM " logs -l app=ack-co-scheduler -c ration-scheduler",
			"no ration-scheduler has written its certificate into it: pods that ask for " RESOURCE_GPU_MEM
			" must name their scheduler until one does");
	if (cluster->serves_mutating && !webhook && !json_member(cluster->policies, mutating) &&
		!leader_serves(holder, DEFAULT_SCHEDULER_NAME))
		report_find(cluster->report, SEVERITY_NOTE, mutating, "",
			"it is not installed: pods that ask for " RESOURCE_GPU_MEM
			" must name their scheduler");
}

static const struct right {
	const char *verb, *resource, *namespace_; /* NULL: of all */
	const char *for_;
} rights[] = {
	{"list", "nodes", NULL, "kubectl inspect cgpu, ration doctor"},
	{"list", "pods", NULL, "kubectl inspect cgpu, ration doctor"},
	{"list", "leases.coordination.k8s.io", NAMESPACE_SYSTEM, "ration why, ration history, ration doctor"},
	{"list", "configmaps", NAMESPACE_SYSTEM, "ration doctor"},
	{"create", "pods/portforward", NAMESPACE_SYSTEM, "ration why, ration top, ration history"},
	{"patch", "nodes", NULL, "labels of nodes"},
};

/* `kubectl auth can-i` prints "yes" or "no", and ends with status 0 or 1. */
static void check_right(struct cluster *cluster, const struct right *right)
{
	_cleanup_strbuf_ struct strbuf out, complaints;
	struct error err = {""};
	char mend[300];
	const char *where = right->namespace_ ? "--namespace=" NAMESPACE_SYSTEM : "--all-namespaces";
	int r;

	strbuf_init(&out, 4096);
	strbuf_init(&complaints, 4096);
	r = kubectl_run(cluster->kubectl,
		(const char *const[]){"auth", "can-i", right->verb, right->resource, where, NULL}, &out,
		&complaints, &err);
	if (r != 0 && strncmp(strbuf_cstr(&out), "no", 2) != 0) {
		report_unknown(cluster->report, *err.text ? err.text : "kubectl auth can-i gave no answer");
		return;
	}
	if (r == 0)
		return;
	snprintf(mend, sizeof(mend), "kubectl auth can-i %s %s %s", right->verb, right->resource, where);
	report_find(cluster->report, SEVERITY_WARNING, "you", mend, "you may not %s %s%s%s: %s need it",
		right->verb, right->resource, right->namespace_ ? " in " : "",
		right->namespace_ ? right->namespace_ : "", right->for_);
}

void check_permissions(struct cluster *cluster)
{
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		check_right(cluster, &rights[i]);
}
