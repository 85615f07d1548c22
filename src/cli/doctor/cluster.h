/* cluster.h - the objects of the API server that the checks need, read once through the user's kubectl. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claims_found;
struct error;
struct json_object;
struct kubectl;
struct node_facts;
struct pod_facts;
struct report;

/* What a check needs. If it could not be read, the result of the check is unknown. */
enum source {
	SOURCE_VERSION,
	SOURCE_LEASES,	   /* of kube-system */
	SOURCE_CONFIGMAPS, /* of kube-system */
	SOURCE_POLICIES,   /* admission policies and their bindings */
	SOURCE_PODS,
	SOURCE_NODES,
	SOURCE_CLAIMS, /* ResourceSlices, ResourceClaims and DeviceClasses, if the API server has them */
	SOURCE_MAX,
};

/* What the pods of the cluster say (collect.c). */
struct cluster_pods {
	struct json_object *agents;	/* node -> {"pod","release","tag","ready"} */
	struct json_object *schedulers; /* [{"namespace","pod","release","tag","ready","lease"}] */
	struct json_object *foreign;	/* node -> [{"namespace","pod","what","resource","daemonset",
					 * "affinity","operator"}] */
	struct json_object *extenders;	/* [{"namespace","pod","what"}] */
	struct json_object *placed;	/* node -> [{"namespace","pod","gpus":[uuid]}] */
};

struct cluster {
	const struct kubectl *kubectl;
	struct report *report;
	char problem[SOURCE_MAX][512]; /* "": it was read */
	int minor;		       /* of Kubernetes 1.x */
	char version[64];
	struct json_object *leases;	/* name -> its spec */
	int64_t newest_s;		/* the latest renewTime of all Leases */
	struct json_object *configmaps; /* lists of faulty GPUs: name -> object */
	struct json_object *policies; /* "ValidatingAdmissionPolicy/name" -> true, bindings too; WEBHOOK_KIND
				       * "/name" -> whether it has a caBundle */
	bool serves_validating, serves_mutating;
	struct cluster_pods pods;
	struct claims_found *claims; /* check-claims.c */
	const char *malformed;	     /* of the pod or node that is checked: "", or a sentence */
};

#define WEBHOOK_KIND "MutatingWebhookConfiguration"

/* cluster_examine() - makes all checks. -EIO with a sentence if no API server answers. */
int cluster_examine(const struct kubectl *kubectl, struct report *report, struct error *err);

/* cluster_lease_is_stale() - the Lease had expired at the latest renewal of any Lease of kube-system. The
 * clock of this machine is not used, because it may be wrong. */
bool cluster_lease_is_stale(const struct cluster *cluster, struct json_object *spec);

/* cluster_ledger_owner() - NAMESPACE/NAME of the Lease of the pair that owns the ledger; that of the
 * Deployment if the ledger has no owner. */
const char *cluster_ledger_owner(const struct cluster *cluster);

/* cluster_upgrade_command() - the command that upgrades the scheduler, or the agents, to the charts of this
 * version; setting: "NAME=VALUE", or NULL. The scheduler is part of the agents' release, unless it has a
 * release of its own. */
void cluster_upgrade_command(
	const struct cluster *cluster, bool scheduler, const char *setting, char *ret, size_t size);

/* cluster_collect_pod() - remembers a pod of an agent or scheduler, or of another program with the same
 * purpose. */
void cluster_collect_pod(struct cluster *cluster, struct json_object *pod);

/* cluster_is_gpu_node() - the node offers GPUs of ration, or its labels ask for a mode. */
bool cluster_is_gpu_node(struct json_object *node, const struct node_facts *facts);

/* claims_found_new() - -ENOMEM. claims_found_free() - accepts NULL. cluster_read_claims() - call it after
 * pods and nodes were read. Reads nothing if the API server does not have resource.k8s.io/v1. */
int claims_found_new(struct claims_found **ret_found);
void claims_found_free(struct claims_found *found);
int cluster_read_claims(struct cluster *cluster, struct error *err);

void check_kubernetes(struct cluster *cluster);
void check_runtime(struct cluster *, struct json_object *, const struct node_facts *);
void check_labels(struct cluster *, struct json_object *, const struct node_facts *);
void check_agents(struct cluster *, struct json_object *, const struct node_facts *);
void check_capacity(struct cluster *, struct json_object *, const struct node_facts *);
void check_gpus(struct cluster *, struct json_object *, const struct node_facts *);
void check_mig(struct cluster *, struct json_object *, const struct node_facts *);
void check_fault_lists(struct cluster *, struct json_object *, const struct node_facts *);
void check_fault_lists_left(struct cluster *cluster);
void check_foreign_plugins(struct cluster *, struct json_object *, const struct node_facts *);
void check_unplaced(struct cluster *, struct json_object *, const struct pod_facts *);
void collect_placement(struct cluster *, struct json_object *, const struct pod_facts *);
void check_placements(struct cluster *, struct json_object *, const struct node_facts *);
void check_scheduler_name(struct cluster *, struct json_object *, const struct pod_facts *);
void check_requests(struct cluster *, struct json_object *, const struct pod_facts *);
void collect_claims_of_pod(struct cluster *, struct json_object *, const struct pod_facts *);
void collect_claims_of_node(struct cluster *, struct json_object *, const struct node_facts *);
void check_claims(struct cluster *cluster);
void check_ledger(struct cluster *cluster);
void check_scheduler(struct cluster *cluster);
void check_versions(struct cluster *cluster);
void check_policies(struct cluster *cluster);
void check_permissions(struct cluster *cluster);
