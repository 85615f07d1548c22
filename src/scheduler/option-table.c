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
		.help = "context of the kubeconfig; default: its current context"},
	{"listen", 0, "ADDRESS:PORT", TO(ADDRESS, listen), .standard = "127.0.0.1:" SCHEDULER_PORT,
		.help = "serve the verbs filter, prioritize, bind and preempt and the pages /inspect, /metrics, /why and /history here"},
	{"probes", 0, "ADDRESS:PORT", TO(ADDRESS, probes), .standard = "0.0.0.0:39998",
		.help = "serve /healthz and /readyz for the kubelet here"},
	{"metrics", 0, "ADDRESS:PORT", TO(ADDRESS, metrics), .max = 1, .standard = "none",
		.help = "serve /metrics here too, for a Prometheus that cannot reach the address of --listen"},
	{"scheduler-lease", 0, "NAMESPACE/NAME", TO(TEXT, scheduler_lease),
		.standard = NAMESPACE_SYSTEM "/" SCHEDULER_NAME,
		.help = "the Lease of the kube-scheduler beside this program; the Lease of the ledger names its owner by it"},
	{"best-nodes", 0, "K", TO(NUMBER, best_nodes), .max = 100000, .standard = "16",
		.help = "filter offers at most this many nodes, the best first; 0: all that fit"},
	{"node-order", 0, "balanced|fullest", TO(CHOICE, node_order), .choices = node_order,
		.standard = "balanced",
		.help = "which node with room comes first: by the CPU, memory and GPUs that it would have left, or the one with the least free GPU memory"},
	{"max-pods-per-gpu", 0, "N", TO(NUMBER, max_pods_per_gpu), .max = 1000, .standard = "0",
		.help = "at most this many containers are on one GPU of an isolated node at once; 0: 20, and 16 where the memory unit is under 1 GiB"},
	{"job-mixing", 0, "forbid|allow", TO(CHOICE, job_mixing), .choices = job_mixing, .standard = "forbid",
		.help = "whether pods with and without " RESOURCE_GPU_CORE
			" may be on one core_mem node at the same time"},
	{"gang-timeout", 0, "SECONDS", TO(NUMBER, gang_timeout), .min = 1, .max = SECONDS_MAX,
		.standard = "60",
		.help = "a gang of which a part, but too few pods, has been placed for this long is evicted, unless its PodGroup says another time"},
	{"gang-keep-after", 0, "SECONDS", TO(NUMBER, gang_keep_after), .max = SECONDS_MAX, .standard = "300",
		.help = "GPUs are kept, as they become free, for a gang that has waited this long"},
	{"webhook", 0, "NAMESPACE/SERVICE", TO(TEXT, webhook),
		.help = "answer the mutating webhook of this Service, and keep its certificate in the Secret of the same name; default: no webhook"},
	{"webhook-listen", 0, "ADDRESS:PORT", TO(ADDRESS, webhook_listen), .standard = "0.0.0.0:39994",
		.help = "serve the webhook here, with TLS"},
	{"uninstall", 0, "NAMESPACE/DEPLOYMENT", TO(TEXT, uninstall),
		.help = "delete this Deployment, wait until its pods have ended, delete their Leases, and exit; the chart's pre-delete hook uses it"},
	{"log-level", 0, "LEVEL", TO(CHOICE, log_level), .choices = log_levels, .standard = "info",
		.help = "log messages of this level and above: error, warning, info or debug"},
};

static const struct option_variable variables[] = {
	{"KUBECONFIG", "the kubeconfig, where --kubeconfig names none"},
};

const struct option_table scheduler_option_table = {.program = "ration-scheduler",
	.usage = "[OPTION]...",
	.summary =
		"The GPU extender beside kube-scheduler: keeps the ledger of all GPUs and chooses one for each pod.",
	OPTION_ROWS(rows),
	OPTION_VARIABLES(variables),
	.version = "ration-scheduler"};
