/* option-table.c - only data: docs/options/dump.c compiles it too. */
#include "cli/doctor/scheduler-config.h"
#include "cli/options.h"
#include "kube/names.h"
#include "model/units.h"

#define REASON_MAX 140
#define TIMEOUT_MAX 3600

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
		.help = "the certificate authority's file"},
	{"client-certificate", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES,
		.help = "the client certificate's file"},
	{"client-key", 0, "FILE", PASSED_ON, .source = COMPLETE_FILES, .help = "the client key's file"},
	{"tls-server-name", 0, "NAME", PASSED_ON, .help = "the name in the API server's certificate"},
	{"request-timeout", 0, "TIME", PASSED_ON, .help = "how long kubectl waits for the API server"},
	{"cache-dir", 0, "DIR", PASSED_ON, .source = COMPLETE_FOLDERS, .help = "kubectl's cache"},
	{"insecure-skip-tls-verify", 0, NULL, PASSED_ON,
		.help = "do not verify the API server's certificate"},
};
static const struct option_group kubectl_group = {
	"These options are passed on to kubectl", OPTION_ROWS(kubectl_rows)};

static const struct option_variable kubectl_variables[] = {
	{"KUBECONFIG", "the kubeconfig, as kubectl uses it"},
	{"KUBECTL", "another kubectl: a name that is found on PATH, or a path"},
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

/* ---- inspect --------------------------------------------------------------------------------------------
 */

static const struct option_choice inspect_outputs[] = {{"json", OUTPUT_JSON}, {"wide", OUTPUT_WIDE}, {0}};
static const struct option_row inspect_rows[] = {
	{"details", 'd', NULL, OPTION_TO(FLAG, struct inspect_options, details),
		.help = "show the pods of each node, and what they have of each GPU"},
	{"topology", 0, NULL, OPTION_TO(FLAG, struct inspect_options, topology),
		.help = "show, of nodes that give whole GPUs, how the GPUs are connected and which pod has which"},
	{"output", 'o', "json|wide", OPTION_TO(CHOICE, struct inspect_options, output),
		.choices = inspect_outputs,
		.help = "wide: with mode, unit, GPU models and health; json: everything"},
	{"watch", 'w', NULL, OPTION_TO(FLAG, struct inspect_options, watch),
		.help = "ask every 2 seconds and print again what changed, until Ctrl-C"},
};
static const struct option_row inspect_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(TEXT, struct inspect_options, node), .min = 1, .max = 253,
		.optional = true, .source = COMPLETE_NODES, .help = "show this node only"},
};
#define INSPECT_USAGE "[OPTION]... [NODE]"
#define INSPECT_SUMMARY                                                                                      \
	"Show how much GPU memory of each GPU is allocated, in units of the node (GiB, unless the heading says another)."

const struct option_table inspect_option_table = {.program = "ration inspect",
	.usage = INSPECT_USAGE,
	.summary = INSPECT_SUMMARY,
	OPTION_ROWS(inspect_rows),
	OPTION_ARGUMENTS(inspect_arguments),
	WITH_KUBECTL,
	.version = "ration"};
const struct option_table cgpu_option_table = {.program = "kubectl inspect cgpu",
	.usage = INSPECT_USAGE,
	.summary = INSPECT_SUMMARY,
	OPTION_ROWS(inspect_rows),
	OPTION_ARGUMENTS(inspect_arguments),
	WITH_KUBECTL,
	.version = "kubectl-inspect-cgpu"};

/* ---- why ------------------------------------------------------------------------------------------------
 */

static const struct option_row why_rows[] = {
	NAMESPACE_OF_POD(struct why_options),
	{"node", 0, "NODE", OPTION_TO(NAME, struct why_options, node), .source = COMPLETE_NODES,
		.help = "explain this node, where there are too many to show all"},
	OUTPUT_JSON_OF(struct why_options, "print the scheduler's answer as it is"),
};
static const struct option_row why_arguments[] = {POD(struct why_options)};

const struct option_table why_option_table = {.program = "ration why",
	.usage = "[OPTION]... POD",
	.summary =
		"Tell why a pod is on its GPU, or on none: each node and each GPU with its reason, which pods hold what, and what was decided about the pod so far.",
	OPTION_ROWS(why_rows),
	OPTION_ARGUMENTS(why_arguments),
	WITH_KUBECTL,
	.notes =
		"The command reaches the scheduler that leads by `kubectl port-forward`. Needed rights: get on the pod; in " NAMESPACE_SYSTEM
		" get on leases and pods, and create on pods/portforward."};

/* ---- set ------------------------------------------------------------------------------------------------
 */

static const struct option_row set_rows[] = {
	{"mem", 0, "N", OPTION_TO(NUMBER, struct set_options, units), .min = 1, .max = UNITS_MAX - 1,
		.required = true,
		.help = "the amount in units of " RESOURCE_GPU_MEM ", on all GPUs of the container together"},
	{"container", 'c', "CONTAINER", OPTION_TO(NAME, struct set_options, container),
		.help = "the container; needed where several ask for GPU memory"},
	NAMESPACE_OF_POD(struct set_options),
	{"timeout", 0, "SECONDS", OPTION_TO(NUMBER, struct set_options, timeout_s), .max = TIMEOUT_MAX,
		.standard = "30", .help = "wait this long for the scheduler's answer"},
};
static const struct option_row set_arguments[] = {POD(struct set_options)};

const struct option_table set_option_table = {.program = "ration set",
	.usage = "POD --mem N [OPTION]...",
	.summary =
		"Give a container of a pod that runs on a cgpu or core_mem node another amount of GPU memory, without a restart.",
	OPTION_ROWS(set_rows),
	OPTION_ARGUMENTS(set_arguments),
	WITH_KUBECTL,
	.notes =
		"More is given as far as the pod's own GPU has it free. Less is always given: a program that uses more keeps it, and gets no further memory. Needed rights: get and patch on the pod."};

/* ---- cordon, uncordon -----------------------------------------------------------------------------------
 */

#define CORDON_TIMEOUT                                                                                         \
	{                                                                                                      \
		"timeout", 0, "SECONDS", OPTION_TO(NUMBER, struct cordon_options, timeout_s),                  \
			.max = TIMEOUT_MAX, .standard = "10",                                                  \
			.help = "wait this long until the node's agent has applied the change; 0: do not wait" \
	}
static const struct option_row cordon_rows[] = {
	{"reason", 0, "TEXT", OPTION_TO(TEXT, struct cordon_options, reason), .min = 1, .max = REASON_MAX,
		.help = "why, for the people who ask `kubectl inspect cgpu -o wide` or `ration why`"},
	CORDON_TIMEOUT,
};
static const struct option_row uncordon_rows[] = {CORDON_TIMEOUT};
static const struct option_row cordon_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(NAME, struct cordon_options, node), .suffix = "node/",
		.source = COMPLETE_NODES, .help = "the node's name"},
	{NULL, 0, "GPU", OPTION_TO(TEXT, struct cordon_options, gpu), .source = COMPLETE_NODE_GPUS,
		.help = "the index that `kubectl inspect cgpu` shows, or the UUID"},
};
#define CORDON_NOTES                                                                                         \
	"The change is written into the ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_UNHEALTHY_PREFIX         \
	"NODE. Needed rights: get on the node, list on pods; in " NAMESPACE_SYSTEM                           \
	" get, create and update on configmaps."

const struct option_table cordon_option_table = {.program = "ration cordon",
	.usage = "NODE GPU [OPTION]...",
	.summary =
		"Keep new pods from this GPU of the node, because it is faulty. Pods that run on it go on.",
	OPTION_ROWS(cordon_rows),
	OPTION_ARGUMENTS(cordon_arguments),
	WITH_KUBECTL,
	.notes = CORDON_NOTES};
const struct option_table uncordon_option_table = {.program = "ration uncordon",
	.usage = "NODE GPU [OPTION]...",
	.summary = "Let new pods use this GPU of the node again, after `ration cordon`.",
	OPTION_ROWS(uncordon_rows),
	OPTION_ARGUMENTS(cordon_arguments),
	WITH_KUBECTL,
	.notes = CORDON_NOTES};

/* ---- top ------------------------------------------------------------------------------------------------
 */

static const struct option_row top_rows[] = {
	{"runs", 0, NULL, OPTION_TO(FLAG, struct top_options, runs),
		.help = "show the programs of `ration run` on this machine, also where there is a cluster"},
	{"once", 0, NULL, OPTION_TO(FLAG, struct top_options, once),
		.help = "print one table, of one second, and exit; this is the default where standard output is no terminal"},
	OUTPUT_JSON_OF(struct top_options, "print once, as JSON"),
};
static const struct option_row top_arguments[] = {
	{NULL, 0, "NODE", OPTION_TO(REST, struct top_options, nodes), .optional = true,
		.source = COMPLETE_NODES, .help = "show these nodes only"},
};
static const struct option_variable top_variables[] = {
	{"KUBECONFIG", "the kubeconfig, as kubectl uses it"},
	{"KUBECTL", "another kubectl: a name that is found on PATH, or a path"},
	{"RATION_RUNS", "folder for the grants of runs, as for `ration run`"},
};

const struct option_table top_option_table = {.program = "ration top",
	.usage = "[OPTION]... [NODE]...",
	.summary =
		"Show each second what pods on nodes with isolation have of their GPUs: memory used and granted, share of the computing power granted (CORE) and used (USED), and for how much of the time they were held back (WAITED; several threads count each). Without a kubeconfig: the programs of `ration run` on this machine.",
	OPTION_ROWS(top_rows),
	OPTION_ARGUMENTS(top_arguments),
	.group = &kubectl_group,
	OPTION_VARIABLES(top_variables),
	.notes =
		"The key q ends the command. It reaches the agents by `kubectl port-forward`. Needed rights: list on nodes; in " NAMESPACE_SYSTEM
		" list and get on pods, and create on pods/portforward."};

/* ---- doctor ---------------------------------------------------------------------------------------------
 */

static const struct option_row doctor_rows[] = {
	OUTPUT_JSON_OF(struct doctor_options, "print {\"checks\": [...], \"findings\": [...]}"),
	{"node", 0, NULL, OPTION_TO(FLAG, struct doctor_options, node),
		.help = "examine this machine instead of a cluster, as root; kubectl is not needed"},
	{"root", 0, "DIR", OPTION_TO(FOLDER, struct doctor_options, root), .source = COMPLETE_FOLDERS,
		.help = "with --node: where the node's / is, for use in a container; default: /"},
	{"driver-root", 0, "DIR", OPTION_TO(FOLDER, struct doctor_options, driver_root),
		.source = COMPLETE_FOLDERS,
		.help = "with --node: where the driver's files are on the node; default: /"},
	{"scheduler-config", 0, NULL, OPTION_TO(FLAG, struct doctor_options, scheduler_config),
		.help = "print the KubeSchedulerConfiguration with which the cluster's own kube-scheduler has the ledger, so that pods need no schedulerName"},
	{"kubeadm", 0, NULL, OPTION_TO(FLAG, struct doctor_options, kubeadm),
		.help = "with --scheduler-config: print a script that sets up a control plane node which kubeadm made"},
	{"image", 0, "IMAGE", OPTION_TO(TEXT, struct doctor_options, image),
		.help = "with --kubeadm: the image of ration-scheduler, in a registry that the node reaches"},
	{"arg", 0, "ARG", OPTION_TO(WORDS, struct doctor_options, args), .max = SCHEDULER_ARGS_MAX,
		.help = "with --kubeadm: one more option of ration-scheduler, e.g. --arg=--job-mixing=allow; may be repeated"},
};

const struct option_table doctor_option_table = {.program = "ration doctor",
	.usage = "[OPTION]...",
	.summary =
		"Compare a cluster, or the node that it runs on, with what shared GPUs need, and print for each fault the command that corrects it. The command only reads.",
	OPTION_ROWS(doctor_rows),
	WITH_KUBECTL,
	.notes =
		"Exit status: 0 without findings (notes are none), 1 with findings, 2 for wrong arguments, 3 if something could not be examined."};

/* ---- history, replay ------------------------------------------------------------------------------------
 */

const struct option_table history_option_table = {.program = "ration history",
	.usage = "[OPTION]... > FILE",
	.summary =
		"Print what the scheduler that leads has recorded, for `ration replay FILE`: its state at the beginning, the events since then (3 to 6 MiB of them), what it decided, and its state now. A history has names, uids, numbers and labels of nodes, GPUs and pods that ask for a GPU, and nothing else of them.",
	WITH_KUBECTL,
	.notes = "Needed rights: those of `ration why`."};

static const struct option_row replay_arguments[] = {
	{NULL, 0, "FILE", OPTION_TO(TEXT, struct replay_options, file), .source = COMPLETE_FILES,
		.help = "the history; -: standard input"},
};

const struct option_table replay_option_table = {.program = "ration replay",
	.usage = "FILE",
	.summary =
		"Feed a history that `ration history` has printed into this version's scheduler, make each decision again, and print the first one that differs. No cluster is needed.",
	OPTION_ARGUMENTS(replay_arguments),
	.notes =
		"Exit status: 0 if all is as recorded, 1 for a difference or a file that is no history, 2 for wrong arguments."};

/* ---- ration ---------------------------------------------------------------------------------------------
 */

static const struct option_command commands[] = {
	{"run", "run a program on this machine with a part of a GPU; needs no cluster"},
	{"ps", "list the programs that run with a part of a GPU on this machine"},
	{"top", "show each second what pods, or programs, use of their GPUs"},
	{"why", "tell why a pod is on its GPU, or on none, node by node and GPU by GPU"},
	{"set", "give a running pod on a cgpu or core_mem node another amount of GPU memory"},
	{"cordon", "keep new pods from a faulty GPU; pods that run on it go on"},
	{"uncordon", "let new pods use that GPU again"},
	{"inspect", "show how much GPU memory of each GPU is allocated to which pod"},
	{"doctor", "find what is wrong with the cluster or this node, and the command that corrects it"},
	{"history", "print what the scheduler has recorded, to be replayed elsewhere"},
	{"replay", "make the decisions of a history again and compare them; needs no cluster"},
	{"help", "print this text and exit; `ration COMMAND --help` explains a command"},
};

const struct option_table ration_option_table = {.program = "ration",
	.usage = "COMMAND [ARGUMENT]...",
	.summary = "Shared GPUs: what a cluster does with them, and programs on this machine.",
	OPTION_COMMANDS(commands),
	.version = "ration",
	.options_end_early = true};
