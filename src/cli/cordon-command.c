#include "cli/commands.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/complain.h"
#include "cli/cordon-list.h"
#include "cli/inspect-read.h"
#include "cli/inspect.h"
#include "cli/kubectl.h"
#include "kube/names.h"
#include "kube/object-name.h"

#define TIMEOUT_DEFAULT_S 10
#define LOOK_US 300000
#define REASON_MAX 140
#define PODS_TOLD_MAX 20

struct options {
	struct kubectl kubectl;
	struct cordon_change change;
	const char *gpu;
	uint32_t timeout_s;
};

static const struct option own_options[] = {
	{"reason", required_argument, NULL, 'r'},
	{"timeout", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
};

static const char usage_cordon[] =
	"Usage: ration cordon NODE GPU [--reason TEXT] [--timeout SECONDS] [FLAG...]\n"
	"\n"
	"No new pods on this GPU of the node, because it is faulty; pods that run there go on.\n"
	"\n"
	"  GPU                the index that kubectl inspect cgpu shows, or the UUID\n"
	"      --reason TEXT  for whoever asks why (kubectl inspect cgpu -o wide, ration why)\n";
static const char usage_uncordon[] =
	"Usage: ration uncordon NODE GPU [--timeout SECONDS] [FLAG...]\n"
	"\n"
	"Pods on this GPU of the node again, after ration cordon.\n"
	"\n"
	"  GPU                the index that kubectl inspect cgpu shows, or the UUID\n";
static const char usage_both[] =
	"      --timeout SECONDS\n"
	"                     wait so long until the node's agent has taken it up (default 10)\n"
	"  -h, --help         this text\n"
	"\n"
	"It is written into the ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_UNHEALTHY_PREFIX
	"NODE, through kubectl (or the program that\n"
	"$KUBECTL names). Needed rights: get on the node, list on pods; in " NAMESPACE_SYSTEM
	" get, create and update on\n"
	"configmaps. $KUBECONFIG and kubectl's global flags are honoured.\n";

static void print_usage(const struct options *options, FILE *to)
{
	fputs(options->change.uncordon ? usage_uncordon : usage_cordon, to);
	fputs(usage_both, to);
}

static int usage_error(const struct options *options, const char *text)
{
	if (text)
		complain("ration", text);
	print_usage(options, stderr);
	return EXIT_USAGE;
}

static int reason_take(struct options *options, const char *text)
{
	if (options->change.uncordon)
		return usage_error(options, "--reason is for ration cordon");
	if (!*text || strlen(text) > REASON_MAX)
		return usage_error(options, "--reason is a text of 1 to 140 bytes");
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return usage_error(options, "--reason is one line without control characters");
	fault_reason_copy(options->change.fault.reason, text);
	return -1;
}

/* Returns -1 to go on, or the status to end with. */
static int option_take(int c, void *userdata)
{
	struct options *options = userdata;

	switch (c) {
	case 'r':
		return reason_take(options, optarg);
	case 't':
		return parse_u32(optarg, 3600, &options->timeout_s) < 0
			       ? usage_error(options, "--timeout is not a number of seconds from 0 to 3600")
			       : -1;
	case 'h':
		print_usage(options, stdout);
		return EXIT_SUCCESS;
	case '?':
		return usage_error(options, NULL);
	}
	return -1;
}

static int arguments_take(int argc, char **argv, struct options *options)
{
	if (argc != 2)
		return usage_error(options,
			argc < 2 ? "which GPU of which node? NODE GPU" : "more than one GPU is named");
	options->change.node = strncmp(argv[0], "node/", 5) == 0 ? argv[0] + 5 : argv[0];
	options->gpu = argv[1];
	if (!object_name_is_valid(options->change.node))
		return usage_error(options, "this is not the name of a node");
	if (fault_parse_gpu(options->gpu, &options->change.fault) < 0)
		return usage_error(options, "a GPU is named by its index or its UUID");
	return -1;
}

static int options_parse(int argc, char **argv, struct options *options)
{
	const struct kubectl_options own = {.own = own_options,
		.n_own = ARRAY_SIZE(own_options),
		.letters = "h",
		.take = option_take,
		.userdata = options};
	int r = kubectl_parse_options(&options->kubectl, &own, argc, argv);

	if (r >= 0)
		return r;
	return arguments_take(argc - optind, argv + optind, options);
}

/* ---- the node as it is ----------------------------------------------------------------------------------
 */

/* NULL: the node shows no GPUs. */
static const struct inspect_node *node_of(const struct inspect *inspect)
{
	const struct inspect_node *node = inspect->n_nodes ? inspect->nodes[0] : NULL;

	return node && node->n_gpus && *node->gpus[0].uuid ? node : NULL;
}

static const struct inspect_gpu *gpu_of(const struct inspect_node *node, const struct fault *fault)
{
	for (size_t i = 0; node && i < node->n_gpus; i++)
		if (fault_is_about(fault, node->gpus[i].column, node->gpus[i].uuid))
			return &node->gpus[i];
	return NULL;
}

static int no_such_gpu(const struct options *options, const struct inspect_node *node, struct error *err)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, sizeof(err->text));
	if (!node)
		return error_set(err, ENOENT,
			"node %s shows no GPUs: is it labelled " LABEL_SCHEDULE
			"=share, cgpu or core_mem, and does the DaemonSet gpushare-device-plugin-ds run there?",
			options->change.node);
	for (size_t i = 0; i < node->n_gpus; i++)
		strbuf_addf(&text, "%s%d (%s)", i ? ", " : "", node->gpus[i].column, node->gpus[i].uuid);
	return error_set(err, ENOENT, "node %s has no GPU %s: it has %.350s", options->change.node,
		options->gpu, strbuf_cstr(&text));
}

static int look(const struct options *options, struct inspect *ret_inspect, struct error *err)
{
	struct warnings warnings = {0};

	inspect_release(ret_inspect);
	return inspect_fetch(ret_inspect, &options->kubectl, options->change.node, &warnings, err);
}

/* Does the GPU stand as the list says now? Where it is sick anyhow the list makes no difference to see. */
static bool is_taken_up(const struct options *options, const struct inspect_gpu *gpu)
{
	if (!gpu)
		return false;
	if (!options->change.uncordon)
		return !gpu->healthy;
	return gpu->healthy || !gpu->reason ||
	       (strncmp(gpu->reason, "cordoned", strlen("cordoned")) != 0 &&
		       !strstr(gpu->reason, CONFIG_MAP_UNHEALTHY_PREFIX));
}

static int await(const struct options *options, struct inspect *inspect, struct error *err)
{
	int64_t give_up_ns = monotonic_ns() + options->timeout_s * NS_PER_S;

	for (;;) {
		int r = look(options, inspect, err);

		if (r < 0 || !options->timeout_s ||
			is_taken_up(options, gpu_of(node_of(inspect), &options->change.fault)))
			return r;
		if (monotonic_ns() >= give_up_ns)
			return error_set(err, ETIMEDOUT,
				"it is written down, but the agent of node %s has not taken it up within %u s: is the DaemonSet gpushare-device-plugin-ds there, and its chart's value faultLists true? `kubectl get events --field-selector involvedObject.name=%s` may say more",
				options->change.node, options->timeout_s, options->change.node);
		usleep(LOOK_US);
	}
}

/* ---- what is told ---------------------------------------------------------------------------------------
 */

static void tell_pods(const struct inspect_node *node, const struct inspect_gpu *gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_pods; i++)
		n += node->pods[i].units[gpu->column] > 0;
	if (!n) {
		puts("No pod is on it.");
		return;
	}
	printf("%zu pod%s on it still, and go%s on:\n", n, n == 1 ? " is" : "s are", n == 1 ? "es" : "");
	for (size_t i = 0, told = 0; i < node->n_pods && told < PODS_TOLD_MAX; i++) {
		const struct inspect_pod *pod = &node->pods[i];

		if (!pod->units[gpu->column])
			continue;
		printf("  %s/%s %u\n", pod->namespace_, pod->name, pod->units[gpu->column]);
		told++;
	}
	if (n > PODS_TOLD_MAX)
		printf("  and %zu more: kubectl inspect cgpu -d %s\n", n - PODS_TOLD_MAX, node->name);
}

static void tell(const struct options *options, const struct inspect *inspect, bool changed)
{
	const struct inspect_node *node = node_of(inspect);
	const struct inspect_gpu *gpu = gpu_of(node, &options->change.fault);
	const char *name = options->change.node;

	if (!gpu) {
		printf("GPU %s of node %s %s cordoned; the node does not show it.\n", options->gpu, name,
			changed ? "is no more" : "was not");
		return;
	}
	if (changed && !options->timeout_s) {
		printf("GPU %d (%s) of node %s: written down, and so from when the node's agent has read it.\n",
			gpu->column, gpu->uuid, name);
		return;
	}
	if (!options->change.uncordon) {
		printf("GPU %d (%s) of node %s %s%s%s\n", gpu->column, gpu->uuid, name,
			changed ? "takes no new pods" : "was cordoned already", gpu->reason ? ": " : ".",
			gpu->reason ? gpu->reason : "");
		tell_pods(node, gpu);
		return;
	}
	printf("GPU %d (%s) of node %s ", gpu->column, gpu->uuid, name);
	if (gpu->healthy)
		puts(changed ? "takes pods again." : "was not cordoned, and takes pods.");
	else
		printf("%s cordoned, but takes no new pods: %s\n", changed ? "is no more" : "was not",
			gpu->reason ? gpu->reason : "it is unhealthy");
}

static int run(struct options *options, struct error *err)
{
	_cleanup_inspect_ struct inspect inspect;
	const struct inspect_gpu *gpu;
	bool changed;
	int r;

	inspect_init(&inspect);
	r = look(options, &inspect, err);
	if (r < 0)
		return r;
	options->change.gpus = node_of(&inspect);
	gpu = gpu_of(options->change.gpus, &options->change.fault);
	/* A GPU that has gone can be taken from the list all the same. */
	if (!gpu && !options->change.uncordon)
		return no_such_gpu(options, options->change.gpus, err);
	if (gpu) {
		options->change.fault.index = gpu->column;
		memcpy(options->change.fault.uuid, gpu->uuid, sizeof(gpu->uuid));
	}
	r = cordon_list_change(&options->kubectl, &options->change, &changed, err);
	options->change.gpus = NULL;
	if (r == 0 && gpu)
		r = await(options, &inspect, err);
	if (r < 0)
		return r;
	tell(options, &inspect, changed);
	return fflush(stdout) == EOF ? error_set(err, EIO, "the output cannot be written") : 0;
}

int cordon_command(int argc, char **argv)
{
	struct options options = {.timeout_s = TIMEOUT_DEFAULT_S,
		.change = {.uncordon = strcmp(argv[0], "uncordon") == 0, .fault = {.index = -1}}};
	struct error err = {""};
	int r;

	kubectl_init(&options.kubectl);
	r = options_parse(argc, argv, &options);
	if (r < 0)
		r = complain_end(run(&options, &err), &err);
	kubectl_release(&options.kubectl);
	return r;
}
