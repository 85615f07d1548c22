/* option-table.c - the tables of options. The file has only data, because docs/options/dump.c is built with
 * it, too. */
#include "cli/doctor/scheduler-config.h"
#include "cli/options.h"
#include "kube/names.h"
#include "model/units.h"

#define REASON_MAX 140
#define TIMEOUT_MAX 3600
#define PLAN_PODS_MAX 10000
#define PLAN_MOVES_MAX 200
#define ADVISE_MARGIN_MAX 1000
#define ADVISE_AGE_MAX 31536000

/* kubectl 1.36, `kubectl options`. */
#define PASSED_ON OPTION_TO(FORWARD, struct kubectl, flags)
static const struct option_row kubectl_rows[] = {
	{"kubeconfig", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES, .help = "the kubeconfig to use"},
	{"context", 0, "NAME", PASSED_ON, .source = COMPLETE_CONTEXTS,
		.help = "the context of the kubeconfig"},
	{"cluster", 0, "NAME", PASSED_ON, .help = "the cluster of the kubeconfig"},
	{"user", 0, "NAME", PASSED_ON, .help = "the user of the kubeconfig"},
	{"server", 's', "URL", PASSED_ON, .help = "the address of the API server"},
	{"token", 0, "TOKEN", PASSED_ON, .help = "the bearer token for the API server"},
	{"as", 0, "USER", PASSED_ON, .help = "the user to impersonate"},
	{"as-group", 0, "GROUP", PASSED_ON, .help = "the group to impersonate"},
	{"as-uid", 0, "UID", PASSED_ON, .help = "the UID to impersonate"},
	{"certificate-authority", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES,
		.help = "the file with the certificate authority's certificate"},
	{"client-certificate", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES,
		.help = "the file with the client certificate"},
	{"client-key", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES,
		.help = "the file with the client's key"},
	{"tls-server-name", 0, "NAME", PASSED_ON,
		.help = "the name that the API server's certificate must have"},
	{"request-timeout", 0, "TIME", PASSED_ON,
		.help = "how long kubectl waits for an answer of the API server, as in 10s"},
	{"cache-dir", 0, "DIR", PASSED_ON, .source = COMPLETE_FOLDERS,
		.help = "the directory of kubectl's cache"},
	{"insecure-skip-tls-verify", 0, NULL, PASSED_ON,
		.help = "do not verify the API server's certificate"},
};
static const struct option_group kubectl_group = {
	"These options are passed on to kubectl", OPTION_ROWS(kubectl_rows)};

static const struct option_variable kubectl_variables[] = {
	{"KUBECONFIG", "the kubeconfig, as kubectl uses it"},
	{"KUBECTL", "the kubectl to run: a name on PATH, or a path; default: kubectl"},
};

#define WITH_KUBECTL .group = &kubectl_group, OPTION_VARIABLES(kubectl_variables)
#define NAMESPACE_OF_POD(type)                                                                               \
	{                                                                                                    \
		"namespace", 'n', "NAMESPACE", OPTION_TO(NAME, type, namespace_),                            \
			.source = COMPLETE_NAMESPACES,                                                       \
			.help = "the pod's namespace; default: that of the kubeconfig's context"             \
	}
#define POD(type)                                                                                            \
	{                                                                                                    \
		NULL, 0, "POD", OPTION_TO(NAME, type, name), .suffix = "pod/", .source = COMPLETE_PODS,      \
							     .help = "the pod's name"                        \
	}
static const struct option_choice only_json[] = {{"json", OUTPUT_JSON}, {0}};
#define OUTPUT_JSON_OF(type, sentence)                                                                       \
	{                                                                                                    \
		"output", 'o', "json", OPTION_TO(CHOICE, type, output), .choices = only_json,                \
									.help = sentence                     \
	}

static const struct option_choice inspect_outputs[] = {{"json", OUTPUT_JSON}, {"wide", OUTPUT_WIDE}, {0}};
static const struct option_row inspect_rows[] = {
	{"details", 'd', NULL, OPTION_TO(FLAG, struct inspect_options, details),
		.help = "also show the pods of each node, and how many units of each GPU they have"},
	{"topology", 0, NULL, OPTION_TO(FLAG, struct inspect_options, topology),
		.help = "for nodes that give whole GPUs (mode topology): show how the GPUs are connected, and which pod has which GPU"},
	{"output", 'o', "json|wide", OPTION_TO(CHOICE, struct inspect_options, output),
		.choices = inspect_outputs,
		.help = "wide: add the columns MODE, UNIT, MODEL and HEALTH; json: print one document with nodes, GPUs and pods"},
	{"watch", 'w', NULL, OPTION_TO(FLAG, struct inspect_options, watch),
		.help = "ask the API server every 2 seconds, and print the output again when it has changed, until Ctrl-C"},
};
static const struct option_row inspect_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(TEXT, struct inspect_options, node), .min = 1, .max = 253,
		.optional = true, .source = COMPLETE_NODES, .help = "show this node only"},
};
#define INSPECT_NOTES                                                                                        \
	"Needed rights: get and list on nodes and on the pods of all namespaces; for nodes in mode dra list on resourceslices and resourceclaims."
#define INSPECT_USAGE "[OPTION]... [NODE]"
#define INSPECT_SUMMARY                                                                                      \
	"Show how much memory of each GPU of the cluster is allocated to pods. The heading of the last column names the unit, mostly GiB."

const struct option_table inspect_option_table = {.program = "ration inspect",
	.usage = INSPECT_USAGE,
	.summary = INSPECT_SUMMARY,
	OPTION_ROWS(inspect_rows),
	OPTION_ARGUMENTS(inspect_arguments),
	WITH_KUBECTL,
	.notes = INSPECT_NOTES,
	.version = "ration"};
const struct option_table cgpu_option_table = {.program = "kubectl inspect cgpu",
	.usage = INSPECT_USAGE,
	.summary = INSPECT_SUMMARY,
	OPTION_ROWS(inspect_rows),
	OPTION_ARGUMENTS(inspect_arguments),
	WITH_KUBECTL,
	.notes = INSPECT_NOTES,
	.version = "kubectl-inspect-cgpu"};

static const struct option_row why_rows[] = {
	NAMESPACE_OF_POD(struct why_options),
	{"node", 0, "NODE", OPTION_TO(NAME, struct why_options, node), .source = COMPLETE_NODES,
		.help = "show this node GPU by GPU; without this option, at most 32 nodes are shown"},
	OUTPUT_JSON_OF(struct why_options, "print the scheduler's answer, which is JSON"),
};
static const struct option_row why_arguments[] = {POD(struct why_options)};

const struct option_table why_option_table = {.program = "ration why",
	.usage = "[OPTION]... POD",
	.summary =
		"Explain why a pod is on its GPU, or why it waits. For a pod that waits, each node and each GPU is shown with the reason why the pod does not fit, and with the pods that have it. Then follow the scheduler's decisions about the pod.",
	OPTION_ROWS(why_rows),
	OPTION_ARGUMENTS(why_arguments),
	WITH_KUBECTL,
	.notes =
		"The command asks the leading replica of ration-scheduler, by `kubectl port-forward`. Needed rights: get on the pod; in " NAMESPACE_SYSTEM
		" get on leases and pods, and create on pods/portforward. A user with the last right could also bind pods."};

static const struct option_row set_rows[] = {
	{"mem", 0, "N", OPTION_TO(NUMBER, struct set_options, units), .min = 1, .max = UNITS_MAX - 1,
		.required = true,
		.help = "the new amount in units of " RESOURCE_GPU_MEM
			", summed over all GPUs of the container"},
	{"container", 'c', "CONTAINER", OPTION_TO(NAME, struct set_options, container),
		.help = "the container; required if several containers of the pod ask for GPU memory"},
	NAMESPACE_OF_POD(struct set_options),
	{"timeout", 0, "SECONDS", OPTION_TO(NUMBER, struct set_options, timeout_s), .max = TIMEOUT_MAX,
		.standard = "30", .help = "wait this long for the scheduler's answer"},
};
static const struct option_row set_arguments[] = {POD(struct set_options)};

const struct option_table set_option_table = {.program = "ration set",
	.usage = "POD --mem N [OPTION]...",
	.summary =
		"Change the GPU memory of a container of a running pod, without a restart. The pod must be on a cgpu or core_mem node.",
	OPTION_ROWS(set_rows),
	OPTION_ARGUMENTS(set_arguments),
	WITH_KUBECTL,
	.notes =
		"A container gets more memory if its GPU has that much free. It can always get less: a program that uses more than the new limit keeps its memory, and further allocations fail. The new amount holds until the pod ends; the pod's spec, and the template of its controller, stay as they are. Needed rights: get and patch on the pod."};

#define CORDON_TIMEOUT                                                                                         \
	{                                                                                                      \
		"timeout", 0, "SECONDS", OPTION_TO(NUMBER, struct cordon_options, timeout_s),                  \
			.max = TIMEOUT_MAX, .standard = "10",                                                  \
			.help = "wait this long until the node's agent has applied the change; 0: do not wait" \
	}
static const struct option_row cordon_rows[] = {
	{"reason", 0, "TEXT", OPTION_TO(TEXT, struct cordon_options, reason), .min = 1, .max = REASON_MAX,
		.help = "why the GPU is cordoned, which `kubectl inspect cgpu -o wide` and `ration why` show"},
	CORDON_TIMEOUT,
};
static const struct option_row uncordon_rows[] = {CORDON_TIMEOUT};
static const struct option_row cordon_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(NAME, struct cordon_options, node), .suffix = "node/",
		.source = COMPLETE_NODES, .help = "the node's name"},
	{NULL, 0, "GPU", OPTION_TO(TEXT, struct cordon_options, gpu), .source = COMPLETE_NODE_GPUS,
		.help = "the GPU, by the index that `kubectl inspect cgpu` shows, or by its UUID"},
};
#define CORDON_NOTES                                                                                         \
	"The change is written into the ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_UNHEALTHY_PREFIX         \
	"NODE. Needed rights: get on the node, list on pods; in " NAMESPACE_SYSTEM                           \
	" get, create and update on configmaps."

const struct option_table cordon_option_table = {.program = "ration cordon",
	.usage = "NODE GPU [OPTION]...",
	.summary =
		"Keep new pods off a faulty GPU of a node, until `ration uncordon`. Pods that run on it go on.",
	OPTION_ROWS(cordon_rows),
	OPTION_ARGUMENTS(cordon_arguments),
	WITH_KUBECTL,
	.notes = CORDON_NOTES};
const struct option_table uncordon_option_table = {.program = "ration uncordon",
	.usage = "NODE GPU [OPTION]...",
	.summary = "Let new pods use a GPU of a node again, after `ration cordon`.",
	OPTION_ROWS(uncordon_rows),
	OPTION_ARGUMENTS(cordon_arguments),
	WITH_KUBECTL,
	.notes = CORDON_NOTES};

static const struct option_row top_rows[] = {
	{"runs", 0, NULL, OPTION_TO(FLAG, struct top_options, runs),
		.help = "show the programs of `ration run` on this machine, even if there is a kubeconfig"},
	{"once", 0, NULL, OPTION_TO(FLAG, struct top_options, once),
		.help = "print one table, measured over one second, and exit; the default if standard output is not a terminal"},
	OUTPUT_JSON_OF(struct top_options, "print one measurement as JSON and exit"),
};
static const struct option_row top_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(REST, struct top_options, nodes), .optional = true,
		.source = COMPLETE_NODES,
		.help = "show these nodes only; required if the cluster has more than 32 such nodes"},
};
static const struct option_variable top_variables[] = {
	{"KUBECONFIG", "the kubeconfig, as kubectl uses it"},
	{"KUBECTL", "the kubectl to run: a name on PATH, or a path; default: kubectl"},
	{"RATION_RUNS", "the folder with the records of `ration run`; see ration-run(1)"},
};

const struct option_table top_option_table = {.program = "ration top",
	.usage = "[OPTION]... [NODE]...",
	.summary =
		"Show each second how the containers on cgpu, core_mem and dra nodes use their GPUs: memory used and limit (MEMORY), share of the computing power (CORE), part of the GPU's time that was used (USED), and how long threads had to wait for their share (WAITED; over 100% with several threads). Without a kubeconfig, show the programs of `ration run` on this machine.",
	OPTION_ROWS(top_rows),
	OPTION_ARGUMENTS(top_arguments),
	.group = &kubectl_group,
	OPTION_VARIABLES(top_variables),
	.notes =
		"The key q ends the command. It asks the agents by `kubectl port-forward`. Needed rights: list on nodes; in " NAMESPACE_SYSTEM
		" list and get on pods, and create on pods/portforward; for nodes in mode dra list on resourceclaims."};

static const struct option_row doctor_rows[] = {
	OUTPUT_JSON_OF(
		struct doctor_options, "print one JSON document, {\"checks\": [...], \"findings\": [...]}"),
	{"node", 0, NULL, OPTION_TO(FLAG, struct doctor_options, node),
		.help = "check this machine, which is a node, instead of the cluster; run it as root; needs no kubectl"},
	{"root", 0, "DIR", OPTION_TO(FOLDER, struct doctor_options, root), .source = COMPLETE_FOLDERS,
		.help = "with --node in a container: the directory at which the node's / is mounted; default: /"},
	{"driver-root", 0, "DIR", OPTION_TO(FOLDER, struct doctor_options, driver_root),
		.source = COMPLETE_FOLDERS,
		.help = "with --node: the directory of the node in which the NVIDIA driver is installed, as the chart's driverRoot; default: /"},
	{"scheduler-config", 0, NULL, OPTION_TO(FLAG, struct doctor_options, scheduler_config),
		.help = "print the KubeSchedulerConfiguration with which the cluster's own kube-scheduler uses ration-scheduler, so that GPU pods need no schedulerName"},
	{"kubeadm", 0, NULL, OPTION_TO(FLAG, struct doctor_options, kubeadm),
		.help = "with --scheduler-config: print a shell script that applies this on a control plane node of kubeadm"},
	{"image", 0, "IMAGE", OPTION_TO(TEXT, struct doctor_options, image),
		.help = "with --kubeadm: the image of ration-scheduler, in a registry that the node can reach"},
	{"arg", 0, "ARG", OPTION_TO(WORDS, struct doctor_options, args), .max = SCHEDULER_ARGS_MAX,
		.help = "with --kubeadm: one more option of ration-scheduler, e.g. --arg=--job-mixing=allow; may be repeated"},
};

const struct option_table doctor_option_table = {.program = "ration doctor",
	.usage = "[OPTION]...",
	.summary =
		"Check a cluster, or with --node one node, for faults that keep pods from sharing GPUs, and print for each fault the command that corrects it. The command itself changes nothing.",
	OPTION_ROWS(doctor_rows),
	WITH_KUBECTL,
	.notes =
		"Needed rights: list on nodes and on the pods of all namespaces, on leases and configmaps in " NAMESPACE_SYSTEM
		" and on the admission policies; without a right the checks that need it are unknown.\n\n"
		"Exit status: 0 without errors and warnings, 1 with errors or warnings, 2 for wrong arguments, 3 without errors and warnings if a check could not be made."};

/* ---- plan -----------------------------------------------------------------------------------------------
 */

static const struct option_choice plan_whats[] = {{"pods", PLAN_PODS}, {"drain", PLAN_DRAIN},
	{"add", PLAN_ADD}, {"moves", PLAN_MOVES}, {"unit", PLAN_UNIT}, {"policy", PLAN_POLICY}, {0}};
static const struct option_choice plan_units[] = {
	{"1GiB", 1024}, {"512MiB", 512}, {"256MiB", 256}, {"128MiB", 128}, {0}};
static const struct option_row plan_rows[] = {
	{"file", 'f', "FILE", OPTION_TO(TEXT, struct plan_options, file), .source = COMPLETE_FILES,
		.help = "pods: the manifest of the pods, a Pod or an object with a pod template. add: the manifest of the nodes. policy: the ResourcePolicy. In YAML or JSON; -: standard input"},
	{"unit", 0, "1GiB|512MiB|256MiB|128MiB", OPTION_TO(CHOICE, struct plan_options, unit_mib),
		.choices = plan_units,
		.help = "unit: the new unit of GPU memory, as in the chart's value gpuMemoryUnit"},
	{"like", 0, "NODE", OPTION_TO(NAME, struct plan_options, like), .suffix = "node/",
		.source = COMPLETE_NODES,
		.help = "add: nodes like this one, instead of a manifest; faults, taints of its state and a cordon are not copied"},
	{"count", 0, "N", OPTION_TO(NUMBER, struct plan_options, count), .min = 1, .max = PLAN_PODS_MAX,
		.help = "pods: try this many; default: until no further one fits, at most 10000. add: this many nodes; default: 1"},
	{"max", 0, "N", OPTION_TO(NUMBER, struct plan_options, max), .min = 1, .max = PLAN_MOVES_MAX,
		.help = "moves: evict at most this many pods, 200 at most; default: 20"},
	{"execute", 0, NULL, OPTION_TO(FLAG, struct plan_options, execute),
		.help = "moves, drain: carry the plan out: evict one pod after the other, wait until the pods that follow are on the GPUs of the plan, and stop if anything else happens; drain cordons the nodes first"},
	{"force", 0, NULL, OPTION_TO(FLAG, struct plan_options, force),
		.help = "with drain --execute: also evict pods that no controller makes again"},
	{"timeout", 0, "SECONDS", OPTION_TO(NUMBER, struct plan_options, timeout_s), .min = 1,
		.max = TIMEOUT_MAX, .standard = "300",
		.help = "with --execute: wait this long for the pods that follow each eviction"},
	{"namespace", 'n', "NAMESPACE", OPTION_TO(NAME, struct plan_options, namespace_),
		.source = COMPLETE_NAMESPACES,
		.help = "pods, policy: the namespace if the manifest names none; default: that of the kubeconfig's context"},
	OUTPUT_JSON_OF(struct plan_options, "print the plan as JSON"),
	{"history", 0, "FILE", OPTION_TO(TEXT, struct plan_options, history), .source = COMPLETE_FILES,
		.help = "plan with this output of `ration history` instead of asking a cluster; -: standard input"},
	{"objects", 0, "FILE", OPTION_TO(TEXT, struct plan_options, objects), .source = COMPLETE_FILES,
		.help = "the nodes and pods of that time, as `kubectl get nodes,pods -A -o json` prints them; without them, --history plans without the filters of kube-scheduler itself"},
};
static const struct option_row plan_arguments[] = {
	{NULL, 0, "WHAT", OPTION_TO(CHOICE, struct plan_options, what), .choices = plan_whats,
		.help = "pods: how many more pods of a manifest fit, where each of them goes, and why not more; drain: what becomes of the pods of nodes that are drained; add: which of the waiting pods run when nodes are added; moves: which pods to evict, so that waiting pods run or whole GPUs become free; unit, policy: what becomes of the pods when the unit of GPU memory or a ResourcePolicy changes"},
	{NULL, 0, "NODE", OPTION_TO(REST, struct plan_options, nodes), .optional = true,
		.source = COMPLETE_NODES, .help = "drain: the nodes"},
};

const struct option_table plan_option_table = {.program = "ration plan",
	.usage = "WHAT [OPTION]... [NODE]...",
	.summary =
		"Tell what would happen: the decisions of the scheduler's own code on the state that the scheduler has now. Only --execute changes the cluster.",
	OPTION_ROWS(plan_rows),
	OPTION_ARGUMENTS(plan_arguments),
	WITH_KUBECTL,
	.notes =
		"Needed rights: those of `ration why`, and list on nodes and on the pods of all namespaces. --execute: also get on pods, and create on pods/eviction. moves --execute: also the rights of `ration cordon`; drain --execute: also get and patch on nodes."};

static const struct option_row advise_rows[] = {
	{"namespace", 'n', "NAMESPACE", OPTION_TO(NAME, struct advise_options, namespace_),
		.source = COMPLETE_NAMESPACES,
		.help = "only containers of this namespace; default: all namespaces"},
	{"margin", 0, "PERCENT", OPTION_TO(NUMBER, struct advise_options, margin), .max = ADVISE_MARGIN_MAX,
		.standard = "10", .help = "advise this much more than the peak"},
	{"min-age", 0, "SECONDS", OPTION_TO(NUMBER, struct advise_options, min_age_s), .max = ADVISE_AGE_MAX,
		.standard = "600",
		.help = "give no advice about a container that the agent has sampled for less than this"},
	{"apply", 0, NULL, OPTION_TO(FLAG, struct advise_options, apply),
		.help = "carry out the advice with `ration set`, one container after the other, and stop at the first error"},
	OUTPUT_JSON_OF(struct advise_options, "print the advice as JSON"),
};
static const struct option_row advise_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(REST, struct advise_options, nodes), .optional = true,
		.source = COMPLETE_NODES,
		.help = "only containers on these nodes; required if the cluster has more than 32 share, cgpu, core_mem and dra nodes"},
};

const struct option_table advise_option_table = {.program = "ration advise",
	.usage = "[OPTION]... [NODE]...",
	.summary =
		"Tell which containers should have less GPU memory, because their peak is much lower than what they were granted, and which should have more, because their limit refused allocations; and print the `ration set` command for each, or the number for the manifest on share nodes. Without --apply it changes nothing.",
	OPTION_ROWS(advise_rows),
	OPTION_ARGUMENTS(advise_arguments),
	WITH_KUBECTL,
	.notes =
		"It asks the agents by `kubectl port-forward`. Needed rights: those of `ration top`, and list on the pods of the namespaces; with --apply those of `ration set`, too."};

static const struct option_row ui_rows[] = {
	{"static", 0, "FILE", OPTION_TO(TEXT, struct ui_options, file), .source = COMPLETE_FILES,
		.help = "write the page with the cluster of this moment into one file, e.g. for a ticket, and exit; -: standard output"},
	{"port", 0, "PORT", OPTION_TO(NUMBER, struct ui_options, port), .min = 1, .max = 65535,
		.help = "the port of 127.0.0.1; default: any that is free"},
	{"no-browser", 0, NULL, OPTION_TO(FLAG, struct ui_options, no_browser), .help = "only print the URL"},
	{"runs", 0, NULL, OPTION_TO(FLAG, struct ui_options, runs),
		.help = "show the programs that `ration run` has started on this machine, without a cluster"},
	OUTPUT_JSON_OF(struct ui_options, "print what the page shows of this moment as JSON and exit"),
};

const struct option_table ui_option_table = {.program = "ration ui",
	.usage = "[OPTION]...",
	.summary =
		"Show the nodes, their GPUs and the pods on each GPU, and the pods that wait, on a page in the browser, with what the pods use now. A click on a pod, or Enter, shows what `ration why` says about it. A slider shows the last hour. The server listens on 127.0.0.1 only and answers no request without the secret in the URL that it prints; Ctrl-C ends it.",
	OPTION_ROWS(ui_rows),
	WITH_KUBECTL,
	.notes =
		"Needed rights: list on nodes and on the pods of all namespaces; for nodes in mode dra list on resourceclaims, resourceslices and deviceclasses; for what is used those of `ration top`; for the answer about a pod and for the last hour those of `ration why`."};

const struct option_table history_option_table = {.program = "ration history",
	.usage = "[OPTION]... > FILE",
	.summary =
		"Print what the leading replica of ration-scheduler has recorded, for a report of a fault and for `ration replay`: its state at an earlier time, the events and decisions since then (3 to 6 MiB), and its state now. The output contains names, uids and labels of nodes and pods, but no environment, images or credentials; ration(1) lists everything.",
	WITH_KUBECTL,
	.notes = "Needed rights: those of `ration why`."};

static const struct option_row replay_arguments[] = {
	{NULL, 0, "FILE", OPTION_TO(TEXT, struct replay_options, file), .source = COMPLETE_FILES,
		.help = "a file that `ration history` has written; -: standard input"},
};

const struct option_table replay_option_table = {.program = "ration replay",
	.usage = "FILE",
	.summary =
		"Read the output of `ration history`, make each decision again with the scheduler of this version, and print the first decision that differs. Needs no cluster.",
	OPTION_ARGUMENTS(replay_arguments),
	.notes =
		"Exit status: 0 if all decisions are the same, 1 for a difference or a file that cannot be read, 2 for wrong arguments."};

static const struct option_command commands[] = {
	{"run", "run a program on this machine with a part of a GPU; needs no cluster"},
	{"ps", "list the programs of `ration run` on this machine"},
	{"top", "show each second how much of their GPUs containers use"},
	{"why", "explain why a pod is on its GPU, or why it waits"},
	{"plan",
		"tell what would happen: how many more pods fit, nodes that are drained or added, pods that are moved, another unit or policy"},
	{"advise", "tell which pods should have more or less GPU memory, by what they used"},
	{"set", "change the GPU memory of a running pod"},
	{"cordon", "keep new pods off a faulty GPU"},
	{"uncordon", "let new pods use a cordoned GPU again"},
	{"inspect", "show how much memory of each GPU is allocated to pods"},
	{"ui", "show GPUs, pods and waiting pods on a page in the browser"},
	{"doctor", "find faults of the cluster or of this node, and the commands that correct them"},
	{"history", "print what the scheduler has recorded, for a report of a fault"},
	{"replay", "make the decisions of a history again, and compare; needs no cluster"},
	{"help", "print this text and exit; `ration COMMAND --help` explains a command"},
};

const struct option_table ration_option_table = {.program = "ration",
	.usage = "COMMAND [ARGUMENT]...",
	.summary =
		"Show and manage how the pods of a cluster share GPUs, or run a program of this machine with a part of a GPU. All commands but run, ps and replay use a cluster, through kubectl, unless an option says otherwise.",
	OPTION_COMMANDS(commands),
	.version = "ration",
	.options_end_early = true};
