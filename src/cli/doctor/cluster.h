/* cluster.h - what the API server says, read once through the person's kubectl, and handed to the checks. */
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

/* What a check needs to have been read. Where one could not be, its checks are unknown. */
enum source {
	SOURCE_VERSION,
	SOURCE_LEASES,	   /* of kube-system */
	SOURCE_CONFIGMAPS, /* of kube-system */
	SOURCE_POLICIES,   /* of admission, and their bindings */
	SOURCE_PODS,
	SOURCE_NODES,
	SOURCE_CLAIMS, /* ResourceSlices, ResourceClaims and DeviceClasses, if the API server has them */
	SOURCE_MAX,
};

struct cluster {
	const struct kubectl *kubectl;
	struct report *report;
	char problem[SOURCE_MAX][512]; /* "": it was read */
	int minor;		       /* of Kubernetes 1.x */
	char version[64];
	struct json_object *leases;	/* name -> its spec */
	int64_t newest_s;		/* latest renewTime of them all */
	struct json_object *configmaps; /* of faulty GPUs: name -> object */
	struct json_object *policies; /* "ValidatingAdmissionPolicy/name" -> true, bindings too; WEBHOOK_KIND
				       * "/name" -> whether it has a caBundle */
	bool serves_validating, serves_mutating;
	struct json_object *agents;	/* node -> {"pod","release","tag","ready"} */
	struct json_object *schedulers; /* [{"namespace","pod","release","tag","ready","lease"}] */
	struct json_object *foreign;	/* node -> [{"namespace","pod","what","resource","daemonset",
					 * "affinity","operator"}] */
	struct json_object *extenders;	/* [{"namespace","pod","what"}] */
	struct claims_found *claims;	/* check-claims.c */
	struct json_object *placed;	/* node -> [{"namespace","pod","gpus":[uuid]}] */
};

#define WEBHOOK_KIND "MutatingWebhookConfiguration"

/* One row of the table of checks. The functions may be NULL; where_ is "node NAME" or "pod NAMESPACE/NAME".
 * Pods come before nodes, and all after leases, ConfigMaps and policies. problem is the sentence of what
 * could not be understood, or "". */
struct cluster_check {
	const char *name;
	unsigned int needs; /* 1 << enum source */
	void (*node)(struct cluster *cluster, struct json_object *node, const struct node_facts *facts,
		const char *problem);
	void (*pod)(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts,
		const char *problem);
	void (*finish)(struct cluster *cluster);
};
extern const struct cluster_check cluster_checks[];
extern const size_t n_cluster_checks;

/* cluster_examine() - all checks into the report. -EIO with a sentence if there is no cluster to be asked. */
int cluster_examine(const struct kubectl *kubectl, struct report *report, struct error *err);

/* cluster_lease_is_stale() - it was not renewed for its own duration before the latest renewal of any Lease
 * of kube-system: our own clock may be wrong, those who renew follow each other. */
bool cluster_lease_is_stale(const struct cluster *cluster, struct json_object *spec);

/* cluster_ledger_owner() - NAMESPACE/NAME of the Lease of the pair that has the ledger; the Deployment's
 * where nobody has it. */
const char *cluster_ledger_owner(const struct cluster *cluster);

/* cluster_upgrade_command() - the command that upgrades the scheduler, or the agents, to the charts of this
 * version; setting: "NAME=VALUE", or NULL. The agents' release has the scheduler as a part, unless that is
 * one of its own. */
void cluster_upgrade_command(
	const struct cluster *cluster, bool scheduler, const char *setting, char *ret, size_t size);

/* cluster_collect_pod() - remembers agents, schedulers, and who does the same as they. */
void cluster_collect_pod(struct cluster *cluster, struct json_object *pod);

/* cluster_is_gpu_node() - the node offers GPUs of ration, or its labels ask for a mode. */
bool cluster_is_gpu_node(struct json_object *node, const struct node_facts *facts);

/* claims_found_new() - -ENOMEM. claims_found_free() - accepts NULL. cluster_read_claims() - after pods and
 * nodes were read; nothing if the API server does not have resource.k8s.io/v1. */
int claims_found_new(struct claims_found **ret_found);
void claims_found_free(struct claims_found *found);
int cluster_read_claims(struct cluster *cluster, struct error *err);

/* The checks. */
void check_kubernetes(struct cluster *cluster);
void check_runtime(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_labels(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_agents(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_capacity(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_gpus(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_mig(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_fault_lists(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_fault_lists_left(struct cluster *cluster);
void check_foreign_plugins(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_unplaced(struct cluster *, struct json_object *, const struct pod_facts *, const char *);
void collect_placement(struct cluster *, struct json_object *, const struct pod_facts *, const char *);
void check_placements(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_scheduler_name(struct cluster *, struct json_object *, const struct pod_facts *, const char *);
void check_requests(struct cluster *, struct json_object *, const struct pod_facts *, const char *);
void collect_claims_of_pod(struct cluster *, struct json_object *, const struct pod_facts *, const char *);
void collect_claims_of_node(struct cluster *, struct json_object *, const struct node_facts *, const char *);
void check_claims(struct cluster *cluster);
void check_ledger(struct cluster *cluster);
void check_scheduler(struct cluster *cluster);
void check_versions(struct cluster *cluster);
void check_policies(struct cluster *cluster);
void check_permissions(struct cluster *cluster);
