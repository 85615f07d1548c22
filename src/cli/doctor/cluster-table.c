/* The checks of a cluster, one for each row, in the order of the report. */
#include "base/cleanup.h"
#include "cli/doctor/cluster.h"

#define NEEDS(source) (1u << SOURCE_##source)

const struct cluster_check cluster_checks[] = {
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
const size_t n_cluster_checks = ARRAY_SIZE(cluster_checks);
