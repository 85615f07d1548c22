#include "cli/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cordon.h"
#include "cli/kubectl.h"
#include "cli/options.h"
#include "kube/names.h"

#define PODS_TOLD_MAX 20

struct options {
	struct cordon_options given; /* the first member, for command_run() */
	struct cordon_change change;
};

static const struct option_table *table_of(const struct options *options)
{
	return options->change.uncordon ? &uncordon_option_table : &cordon_option_table;
}

static int check(void *userdata)
{
	struct options *options = userdata;
	const struct cordon_options *given = &options->given;

	options->change.node = given->node;
	if (given->reason)
		fault_reason_copy(options->change.fault.reason, given->reason);
	return fault_parse_gpu(given->gpu, &options->change.fault) == 0
		       ? -1
		       : options_refuse(table_of(options),
				 "GPU: invalid value \"%.80s\"; must be the index or the UUID of a GPU",
				 given->gpu);
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
		options->given.gpu, strbuf_cstr(&text));
}

static void tell_pods(const struct inspect_node *node, const struct inspect_gpu *gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_pods; i++)
		n += node->pods[i].units[gpu->column] > 0;
	if (!n) {
		puts("No pod is on it.");
		return;
	}
	printf("%zu pod%s still on it, and go%s on:\n", n, n == 1 ? " is" : "s are", n == 1 ? "es" : "");
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
	const struct inspect_node *node = cordon_node(inspect);
	const struct inspect_gpu *gpu = cordon_gpu(node, &options->change.fault);
	const char *name = options->change.node;

	if (!gpu) {
		printf("GPU %s of node %s %s cordoned; the node does not show it.\n", options->given.gpu,
			name, changed ? "is no longer" : "was not");
		return;
	}
	if (changed && !options->given.timeout_s) {
		printf("GPU %d (%s) of node %s: the change is stored; it takes effect when the node's agent has read it.\n",
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
		printf("%s cordoned, but takes no new pods: %s\n", changed ? "is no longer" : "was not",
			gpu->reason ? gpu->reason : "it is unhealthy");
}

static int run(void *userdata, struct error *err)
{
	struct options *options = userdata;
	_cleanup_inspect_ struct inspect inspect;
	const struct inspect_gpu *gpu;
	bool changed;
	int r;

	inspect_init(&inspect);
	r = cordon_look(&options->given.kubectl, options->change.node, &inspect, err);
	if (r < 0)
		return r;
	options->change.gpus = cordon_node(&inspect);
	gpu = cordon_gpu(options->change.gpus, &options->change.fault);
	/* A GPU that no longer exists can nevertheless be removed from the list. */
	if (!gpu && !options->change.uncordon)
		return no_such_gpu(options, options->change.gpus, err);
	if (gpu) {
		options->change.fault.index = gpu->column;
		memcpy(options->change.fault.uuid, gpu->uuid, sizeof(gpu->uuid));
	}
	r = cordon_list_change(&options->given.kubectl, &options->change, &changed, err);
	options->change.gpus = NULL;
	if (r == 0 && gpu)
		r = cordon_await(&options->given.kubectl, &options->change, options->given.timeout_s, NULL,
			&inspect, err);
	if (r < 0)
		return r;
	tell(options, &inspect, changed);
	return output_end(err);
}

int cordon_command(int argc, char **argv)
{
	struct options options = {
		.change = {.uncordon = strcmp(argv[0], "uncordon") == 0, .fault = {.index = -1}}};

	return command_run(table_of(&options), argc, argv, &options, check, run);
}
