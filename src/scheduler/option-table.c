/* option-table.c - only data: docs/options/dump.c compiles it too. */
#include "core/registry/registry.h"
#include "kube/names.h"
#include "scheduler/options.h"

#define SECONDS_MAX 86400
#define TO(kind, member) OPTION_TO(kind, struct scheduler_options, member)

static const struct option_choice node_order[] = {
	{"balanced", NODE_ORDER_BALANCED}, {"fullest", NODE_ORDER_FULLEST}, {0}};
static const struct option_choice job_mixing[] = {{"forbid", 0}, {"allow", 1}, {0}};
static const struct option_choice log_levels[] = {{"error", LOG_LEVEL_ERROR}, {"warning", LOG_LEVEL_WARNING},
	{"info", LOG_LEVEL_INFO}, {"debug", LOG_LEVEL_DEBUG}, {0}};

static const struct option_row rows[] = {
	{"kubeconfig", 0, "FILE", TO(TEXT, kubeconfig), .source = COMPLETE_FILES,
		.help = "how to reach the API server; default: $KUBECONFIG, then the pod's service account, then ~/.kube/config"},
	{"context", 0, "NAME", TO(TEXT, context), .source = COMPLETE_CONTEXTS,
		.help = "the context of the kubeconfig; default: its current context"},
	{"listen", 0, "ADDRESS:PORT", TO(ADDRESS, listen), .standard = "127.0.0.1:" SCHEDULER_PORT,
		.help = "the address on which to serve kube-scheduler (filter, prioritize, preempt, bind), autoscalers (simulate/filter) and the pages /inspect, /metrics, /why and /history"},
	{"probes", 0, "ADDRESS:PORT", TO(ADDRESS, probes), .standard = "0.0.0.0:39998",
		.help = "the address on which to serve /healthz and /readyz for the kubelet"},
	{"metrics", 0, "ADDRESS:PORT", TO(ADDRESS, metrics), .max = 1, .standard = "none",
		.help = "another address on which to serve /metrics, for a Prometheus that cannot reach the address of --listen"},
	{"scheduler-lease", 0, "NAMESPACE/NAME", TO(TEXT, scheduler_lease),
		.standard = NAMESPACE_SYSTEM "/" SCHEDULER_NAME,
		.help = "the Lease by which the kube-scheduler beside this program is elected; the Lease " NAMESPACE_SYSTEM
			"/" LEASE_LEDGER " names it as the owner of the ledger"},
	{"best-nodes", 0, "K", TO(NUMBER, best_nodes), .max = 100000, .standard = "16",
		.help = "answer filter with at most this many nodes, the best first; 0: with all nodes that fit"},
	{"node-order", 0, "balanced|fullest", TO(CHOICE, node_order), .choices = node_order,
		.standard = "balanced",
		.help = "which node with room comes first: the one whose free GPUs keep enough CPU and memory (balanced), or the one with the least free GPU memory (fullest)"},
	{"max-pods-per-gpu", 0, "N", TO(NUMBER, max_pods_per_gpu), .max = 1000, .standard = "0",
		.help = "how many containers one GPU of a cgpu or core_mem node takes at once; 0: 20, or 16 if the memory unit is under 1 GiB"},
	{"job-mixing", 0, "forbid|allow", TO(CHOICE, job_mixing), .choices = job_mixing, .standard = "forbid",
		.help = "whether pods with and without " RESOURCE_GPU_CORE
			" may be on one core_mem node at the same time"},
	{"gang-timeout", 0, "SECONDS", TO(NUMBER, gang_timeout), .min = 1, .max = SECONDS_MAX,
		.standard = "60",
		.help = "evict a gang of which too few pods have been placed for this long; scheduleTimeoutSeconds of a PodGroup overrides it"},
	{"gang-keep-after", 0, "SECONDS", TO(NUMBER, gang_keep_after), .max = SECONDS_MAX, .standard = "300",
		.help = "keep GPUs that become free for a gang that has waited this long"},
	{"webhook", 0, "NAMESPACE/SERVICE", TO(TEXT, webhook),
		.help = "serve the mutating webhook behind this Service, with a certificate from the Secret of the same name; default: no webhook"},
	{"webhook-listen", 0, "ADDRESS:PORT", TO(ADDRESS, webhook_listen), .standard = "0.0.0.0:39994",
		.help = "the address on which to serve the webhook, with TLS"},
	{"uninstall", 0, "NAMESPACE/DEPLOYMENT", TO(TEXT, uninstall),
		.help = "delete this Deployment, wait until its pods have ended, delete their Leases, and exit; the chart's pre-delete hook uses it"},
	{"log-level", 0, "LEVEL", TO(CHOICE, log_level), .choices = log_levels, .standard = "info",
		.help = "log messages of this level and above: error, warning, info or debug"},
};

static const struct option_variable variables[] = {
	{"KUBECONFIG", "the kubeconfig, if --kubeconfig is not given"},
};

const struct option_table scheduler_option_table = {.program = "ration-scheduler",
	.usage = "[OPTION]...",
	.summary =
		"The scheduler extender for GPUs: keeps the ledger of which pod has how much of which GPU, and tells the kube-scheduler beside it which nodes and GPUs have room for a pod.",
	OPTION_ROWS(rows),
	OPTION_VARIABLES(variables),
	.version = "ration-scheduler"};
