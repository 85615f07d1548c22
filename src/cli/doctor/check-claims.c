/* Dynamic Resource Allocation: ResourceSlices of nodes in mode dra, DeviceClasses, and ResourceClaims. */
#include "cli/doctor/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/claims.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "cli/list-read.h"
#include "kube/claim-request.h"
#include "kube/claim.h"
#include "kube/device-slice.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

#define WHERE_SIZE 600
#define MEND_SIZE 900

/* What was read for these checks. */
struct claims_found {
	bool served;		      /* the API server has resource.k8s.io/v1 */
	struct claims claims;	      /* ResourceSlices, and claims that are allocated */
	struct json_object *classes;  /* name -> true */
	struct json_object *nodes;    /* whose mode is dra, or will be: name -> whether it is in force */
	struct json_object *waiting;  /* pods without a node: [{"namespace","pod","claims":[name]}] */
	struct json_object *unplaced; /* claims without an allocation: "namespace/name" -> [class] */
	struct json_object *broken;   /* claims that ration-agent would refuse: "namespace/name" -> why */
	struct json_object *torn;     /* a sentence for each slice that cannot be read */
};

int claims_found_new(struct claims_found **ret_found)
{
	struct claims_found *found = calloc(1, sizeof(*found));

	if (!found)
		return -ENOMEM;
	claims_init(&found->claims);
	found->classes = json_object_new_object();
	found->nodes = json_object_new_object();
	found->waiting = json_object_new_array();
	found->unplaced = json_object_new_object();
	found->broken = json_object_new_object();
	found->torn = json_object_new_array();
	*ret_found = found;
	if (found->classes && found->nodes && found->waiting && found->unplaced && found->broken &&
		found->torn)
		return 0;
	claims_found_free(found);
	return -ENOMEM;
}

void claims_found_free(struct claims_found *found)
{
	if (!found)
		return;
	claims_release(&found->claims);
	json_object_put(found->classes);
	json_object_put(found->nodes);
	json_object_put(found->waiting);
	json_object_put(found->unplaced);
	json_object_put(found->broken);
	json_object_put(found->torn);
	free(found);
}

/* ---- what is read ---- */

/* Remembers the claims of a pod that waits for a node. */
void collect_claims_of_pod(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts)
{
	struct json_object *asked = json_member(json_member(pod, "spec"), "resourceClaims");
	struct json_object *made = json_member(json_member(pod, "status"), "resourceClaimStatuses");
	struct json_object *object, *names;

	if (!json_count(asked) || *facts->node || facts->deleting)
		return;
	object = json_append_object(cluster->claims->waiting);
	names = json_set_array(object, "claims");
	if (!names || json_set_text(object, "namespace", facts->namespace_) < 0 ||
		json_set_text(object, "pod", facts->name) < 0)
		cluster->report->failed = true;
	for (size_t i = 0; i < json_count(asked) + json_count(made); i++) {
		struct json_object *item = i < json_count(asked) ? json_item(asked, i)
								 : json_item(made, i - json_count(asked));
		const char *name = json_member_string(item, "resourceClaimName");

		if (name && json_append(names, json_object_new_string(name)) < 0)
			cluster->report->failed = true;
	}
}

void collect_claims_of_node(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	const char *label = json_text_of(
		json_member(json_member(node, "metadata"), "labels"), LABEL_SCHEDULE);
	bool in_force = facts->mode == GPU_MODE_DRA;

	if (!in_force && strcmp(label, gpu_mode_text(GPU_MODE_DRA)) != 0)
		return;
	if (json_set(cluster->claims->nodes, facts->name, json_object_new_boolean(in_force)) < 0)
		cluster->report->failed = true;
}

static int take_slice(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_device_slice_ struct device_slice slice;
	struct cluster *cluster = userdata;
	struct error problem = {""};
	int r = device_slice_from_json(item, &slice, &problem);

	if (r == 0)
		r = claims_take_slice(&cluster->claims->claims, &slice);
	else if (r == -EINVAL)
		r = json_append(cluster->claims->torn, json_object_new_string(problem.text));
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int note(struct json_object *object, const struct claim *claim, struct json_object *value)
{
	char key[CLAIM_LABEL_SIZE + CLAIM_NAME_SIZE];

	snprintf(key, sizeof(key), "%s/%s", claim->namespace_, claim->name);
	return json_set(object, key, value);
}

static int note_unplaced(struct cluster *cluster, const struct claim *claim, struct json_object *item)
{
	_cleanup_claim_requests_ struct claim_requests requests = {0};
	struct json_object *classes = json_object_new_array();
	struct error problem = {""};
	int r = note(cluster->claims->unplaced, claim, classes);

	if (r == 0 && claim_requests_from_json(json_member(item, "spec"), &requests, &problem) == -EINVAL)
		return note(cluster->claims->broken, claim, json_object_new_string(problem.text));
	for (size_t i = 0; r == 0 && i < requests.n; i++)
		r = json_append(classes, json_object_new_string(requests.list[i].class_));
	return r;
}

static int take_claim(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_claim_ struct claim claim;
	struct cluster *cluster = userdata;
	struct error problem = {""};
	int r = claim_from_json(item, &claim, &problem);

	if (r == -EINVAL)
		r = note(cluster->claims->broken, &claim, json_object_new_string(problem.text));
	else if (r == 0 && !claim.allocated)
		r = note_unplaced(cluster, &claim, item);
	else if (r == 0)
		r = claims_take_claim(&cluster->claims->claims, &claim);
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int read_classes(struct cluster *cluster, struct error *err)
{
	_cleanup_json_ struct json_object *list = NULL;
	int r = object_read(cluster->kubectl, DRA_CLASSES_PATH, &list, err);
	struct json_object *items = json_member(list, "items");

	for (size_t i = 0; r == 0 && i < json_count(items); i++)
		r = json_set(cluster->claims->classes,
			json_text_of(json_member(json_item(items, i), "metadata"), "name"),
			json_object_new_boolean(true));
	return r == -ENOMEM ? error_set(err, ENOMEM, "out of memory") : r;
}

/* If no node gives GPUs to claims, only the slices are read: slices of deleted nodes may be left. */
int cluster_read_claims(struct cluster *cluster, struct error *err)
{
	const struct list_reader slices = {
		.kind = "ResourceSliceList", .sign = DRA_DRIVER, .read = take_slice, .userdata = cluster};
	const struct list_reader claims = {
		.kind = "ResourceClaimList", .sign = DRA_DRIVER, .read = take_claim, .userdata = cluster};
	_cleanup_json_ struct json_object *api = NULL;
	int r = object_read(cluster->kubectl, DRA_API_PATH, &api, err);

	if (r == -ENOENT)
		return 0;
	cluster->claims->served = r == 0;
	if (r == 0)
		r = list_read(cluster->kubectl, DRA_SLICES_PATH, "spec.driver=" DRA_DRIVER, &slices, err);
	if (r == 0 &&
		(cluster->claims->claims.n_slices || json_object_object_length(cluster->claims->nodes))) {
		r = list_read(cluster->kubectl, DRA_CLAIMS_PATH, NULL, &claims, err);
		if (r == 0)
			r = read_classes(cluster, err);
	}
	return r == 0 && claims_finish(&cluster->claims->claims) < 0 ? error_set(err, ENOMEM, "out of memory")
								     : r;
}

/* ---- nodes and their slices ---- */

static bool has_slice(const struct claims *claims, const char *node)
{
	for (size_t i = 0; i < claims->n_slices; i++)
		if (strcmp(claims->slices[i].node, node) == 0)
			return true;
	return false;
}

/* The node has an agent, and the agent renews its Lease. */
static bool has_agent(const struct cluster *cluster, const char *node)
{
	char name[320];
	struct json_object *lease;

	snprintf(name, sizeof(name), LEASE_NODE_PREFIX "%s", node);
	lease = json_member(cluster->leases, name);
	return json_member(cluster->pods.agents, node) && lease && !cluster_lease_is_stale(cluster, lease);
}

static void check_nodes(struct cluster *cluster)
{
	char where[WHERE_SIZE], mend[MEND_SIZE];

	json_object_object_foreach (cluster->claims->nodes, node, in_force) {
		struct json_object *agent = json_member(cluster->pods.agents, node);

		/* check_agents() reports a node without an agent. */
		if (!json_object_get_boolean(in_force) || !has_agent(cluster, node) ||
			has_slice(&cluster->claims->claims, node))
			continue;
		snprintf(where, sizeof(where), "node %.253s", node);
		snprintf(mend, sizeof(mend), "kubectl -n %s logs %s -c ration-agent",
			json_text_of(agent, "namespace"), json_text_of(agent, "pod"));
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"its mode is dra, but its ration-agent has published no ResourceSlice: claims get no GPU there");
	}
}

static void check_slice(struct cluster *cluster, const struct device_slice *slice)
{
	struct json_object *in_force = json_member(cluster->claims->nodes, slice->node);
	char where[WHERE_SIZE], mend[MEND_SIZE];

	snprintf(where, sizeof(where), "node %.253s", slice->node);
	if (!in_force || !json_object_get_boolean(in_force)) {
		snprintf(mend, sizeof(mend), "kubectl delete resourceslice %s", slice->name);
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"it is not in mode dra or does not exist, but its ResourceSlice %.253s still exists: kube-scheduler allocates claims to GPUs that no ration-agent gives to pods",
			slice->name);
	} else if (!has_agent(cluster, slice->node)) {
		report_find(cluster->report, SEVERITY_ERROR, where,
			"kubectl -n " NAMESPACE_SYSTEM " describe daemonset gpushare-device-plugin-ds",
			"no ration-agent serves there, but its ResourceSlice %.253s exists: kube-scheduler allocates claims to its GPUs, and their pods do not start",
			slice->name);
	}
	for (size_t i = 0; i < slice->n_devices; i++)
		if (!slice->devices[i].shared) {
			report_find(cluster->report, SEVERITY_ERROR, where, "",
				"device %s of its ResourceSlice is not shared: the feature gate DRAConsumableCapacity is off in the API server, and each claim takes a whole GPU",
				slice->devices[i].name);
			return;
		}
}

/* ---- classes and policies ---- */

static void check_policy(struct cluster *cluster)
{
	static const char policy[] = "ValidatingAdmissionPolicy/ration-gpu-claims";
	char mend[MEND_SIZE];

	if (!cluster->serves_validating || json_member(cluster->policies, policy))
		return;
	cluster_upgrade_command(cluster, false, "policies.claims=true", mend, sizeof(mend));
	report_find(cluster->report, SEVERITY_WARNING, policy, mend,
		"it is not installed: a claim with parameters that cannot be used is refused only when its pod starts");
}

static void check_classes(struct cluster *cluster)
{
	static const char *const names[] = {DRA_CLASS_SLICE, DRA_CLASS_WHOLE};
	char where[WHERE_SIZE], mend[MEND_SIZE];

	cluster_upgrade_command(cluster, false, "claims.enabled=true", mend, sizeof(mend));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(where, sizeof(where), "DeviceClass %s", names[i]);
		if (!json_member(cluster->claims->classes, names[i]))
			report_find(cluster->report, SEVERITY_WARNING, where, mend,
				"it does not exist: no claim can name it, and pods whose claims do are not scheduled");
	}
}

/* ---- claims ---- */

/* Kubernetes releases a claim when its last pod has ended, so that pod is deleted. A claim without pods is
 * deleted itself. */
static void mend_claim(const struct claim *claim, char mend[MEND_SIZE])
{
	if (claim->n_pods)
		snprintf(mend, MEND_SIZE, "kubectl -n %s delete pod %.253s", claim->namespace_,
			claim->pods[0].name);
	else
		snprintf(mend, MEND_SIZE, "kubectl -n %s delete resourceclaim %.253s", claim->namespace_,
			claim->name);
}

static void check_share(struct cluster *cluster, const struct claims_share *share)
{
	char where[WHERE_SIZE], mend[MEND_SIZE];

	if (share->device)
		return;
	snprintf(where, sizeof(where), "ResourceClaim %s/%.253s", share->claim->namespace_,
		share->claim->name);
	mend_claim(share->claim, mend);
	report_find(cluster->report, SEVERITY_ERROR, where, mend,
		"it is allocated to device %s of pool %.253s, which no ResourceSlice lists: the GPU was removed, or another machine has taken the node's name. A pod with this claim does not start",
		share->result->device, share->result->pool);
}

/* One kube-scheduler never allocates more than a device has. Two that both believe to be the only one can. */
static void check_total(struct cluster *cluster, const struct claims_device *device)
{
	_cleanup_strbuf_ struct strbuf amounts;
	char where[WHERE_SIZE];

	strbuf_init(&amounts, 4096);
	if (device->memory <= device->device->memory.value && device->cores <= device->device->cores.value)
		return;
	add_bytes(&amounts, device->memory);
	strbuf_adds(&amounts, " of ");
	add_bytes(&amounts, device->device->memory.value);
	snprintf(where, sizeof(where), "node %.253s", device->slice->node);
	report_find(cluster->report, SEVERITY_ERROR, where, "kubectl get resourceclaims -A -o wide",
		"its device %s has claims for %s of memory and %llu percent of computing power, more than it has",
		device->device->name, strbuf_cstr(&amounts), (unsigned long long)device->cores);
}

/* key: "namespace/name", as note() has written it. */
static void tell_claim(struct cluster *cluster, enum severity severity, const char *key, const char *what)
{
	char where[WHERE_SIZE], mend[MEND_SIZE];

	snprintf(where, sizeof(where), "ResourceClaim %.400s", key);
	snprintf(mend, sizeof(mend), "kubectl -n %.*s delete resourceclaim %.253s", (int)strcspn(key, "/"),
		key, strchr(key, '/') + 1);
	report_find(cluster->report, severity, where, mend, "%s", what);
}

static void check_broken(struct cluster *cluster)
{
	char what[700];

	json_object_object_foreach (cluster->claims->broken, key, sentence) {
		snprintf(what, sizeof(what), "ration-agent refuses it: %.500s. Create it again without that",
			json_object_get_string(sentence));
		tell_claim(cluster, SEVERITY_ERROR, key, what);
	}
}

static void check_unplaced_claims(struct cluster *cluster)
{
	char what[700];

	json_object_object_foreach (cluster->claims->unplaced, key, classes)
		for (size_t i = 0; i < json_count(classes); i++) {
			const char *name = json_string(json_item(classes, i));

			/* check_classes() reports ration's own. */
			if (!name || json_member(cluster->claims->classes, name) ||
				strcmp(name, DRA_CLASS_SLICE) == 0 || strcmp(name, DRA_CLASS_WHOLE) == 0)
				continue;
			snprintf(what, sizeof(what),
				"it names DeviceClass %.253s, which does not exist: pods with this claim are not scheduled",
				name);
			tell_claim(cluster, SEVERITY_WARNING, key, what);
		}
}

static void check_waiting_pod(struct cluster *cluster, struct json_object *pod)
{
	const char *namespace_ = json_text_of(pod, "namespace"), *name = json_text_of(pod, "pod");
	struct json_object *claims = json_member(pod, "claims");
	char where[WHERE_SIZE], mend[MEND_SIZE], key[WHERE_SIZE];

	for (size_t i = 0; i < json_count(claims); i++) {
		const char *claim = json_string(json_item(claims, i));

		snprintf(key, sizeof(key), "%.253s/%.253s", namespace_, claim ? claim : "");
		if (!json_member(cluster->claims->unplaced, key))
			continue;
		snprintf(where, sizeof(where), "pod %.253s/%.253s", namespace_, name);
		snprintf(mend, sizeof(mend), "ration why -n %.253s %.253s", namespace_, name);
		report_find(cluster->report, SEVERITY_NOTE, where, mend,
			"it waits: its ResourceClaim %.253s is not allocated", claim);
	}
}

void check_claims(struct cluster *cluster)
{
	const struct claims_found *found = cluster->claims;

	if (!found->served) {
		if (json_object_object_length(found->nodes))
			report_find(cluster->report, SEVERITY_ERROR, "cluster", "",
				"a node is labelled for mode dra, but Kubernetes %.60s does not serve " DRA_API
				" (from 1.34): no claim gets a GPU",
				cluster->version);
		return;
	}
	if (found->claims.n_slices || json_object_object_length(found->nodes)) {
		check_classes(cluster);
		check_policy(cluster);
	}
	check_nodes(cluster);
	for (size_t i = 0; i < found->claims.n_slices; i++)
		check_slice(cluster, &found->claims.slices[i]);
	for (size_t i = 0; i < json_count(found->torn); i++)
		report_find(cluster->report, SEVERITY_ERROR, "cluster", "", "%.600s",
			json_string(json_item(found->torn, i)));
	for (size_t i = 0; i < found->claims.n_shares; i++)
		check_share(cluster, &found->claims.shares[i]);
	for (size_t i = 0; i < found->claims.n_devices; i++)
		check_total(cluster, &found->claims.devices[i]);
	check_broken(cluster);
	check_unplaced_claims(cluster);
	for (size_t i = 0; i < json_count(found->waiting); i++)
		check_waiting_pod(cluster, json_item(found->waiting, i));
}
