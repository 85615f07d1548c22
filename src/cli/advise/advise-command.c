/* ration advise: compares the GPU memory that containers used with their grants, and prints the `ration set`
 * commands that would give them what they need. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/advise/world.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/pod.h"
#include "cli/top-cluster.h"
#include "kube/json.h"
#include "model/facts.h"
#include "model/units.h"

#define OUT_MAX (64u << 20)
#define PROBLEMS_MAX (64u << 10)
#define ANSWER_S 30 /* as `ration set` waits by default */

static int print(const struct advise_world *world, const struct advise_options *options, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out;
	int r = 0;

	strbuf_init(&out, OUT_MAX);
	if (options->output == OUTPUT_JSON) {
		_cleanup_json_ struct json_object *document = advise_show_json(world, options);

		if (!document)
			return error_set(err, ENOMEM, "out of memory");
		add_document(&out, document);
	} else {
		r = advise_show_table(world, options, &out);
	}
	if (r < 0 || out.failed)
		return error_set(err, ENOMEM, "out of memory");
	fputs(strbuf_cstr(&out), stdout);
	return output_end(err);
}

/* The table must still be true: it is the same pod, with the same size. */
static int check_pod(
	const struct advise_options *options, const struct advise_container *advised, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct container_request *container;
	int r;

	pod_facts_init(&pod);
	r = pod_fetch_facts(&options->kubectl, advised->namespace_, advised->pod, &object, &pod, err);
	if (r < 0)
		return r;
	container = request_find(&pod.request, advised->container);
	if (strcmp(pod.uid, advised->uid) != 0 || !container || container->units != advised->advice.granted ||
		pod.resize)
		return error_set(err, ESTALE,
			"pod %s/%s has changed since the advice: run `ration advise` again",
			advised->namespace_, advised->pod);
	return 0;
}

/* The container never gets less than it uses at this moment. */
static int check_use(const struct advise_options *options, struct top_cluster *cluster,
	const struct advise_container *advised, struct error *err)
{
	_cleanup_advise_world_ struct advise_world now;
	_cleanup_strbuf_ struct strbuf problems;
	const struct advise_container *container;
	int r;

	advise_world_init(&now);
	strbuf_init(&problems, PROBLEMS_MAX);
	r = advise_world_read(&now, options, cluster, advised->node, &problems, err);
	if (r < 0)
		return r;
	container = advise_world_find(&now, advised->uid, advised->container);
	if (!container)
		return error_set(err, ESRCH, "pod %s/%s is no longer on node %s: run `ration advise` again",
			advised->namespace_, advised->pod, advised->node);
	if (advise_fits(&container->facts, advised->advice.units))
		return 0;
	return error_set(err, EBUSY,
		"pod %s/%s uses %" PRIu64
		" MiB now, which does not fit into %u unit%s: run `ration advise` again",
		advised->namespace_, advised->pod, container->used_bytes / MIB, advised->advice.units,
		plural(advised->advice.units));
}

static int apply_one(const struct advise_options *options, struct top_cluster *cluster,
	const struct advise_container *advised, struct error *err)
{
	const struct set_options set = {.kubectl = options->kubectl,
		.name = advised->pod,
		.namespace_ = advised->namespace_,
		.container = advised->container,
		.units = advised->advice.units,
		.timeout_s = ANSWER_S};
	int r = check_pod(options, advised, err);

	if (r == 0)
		r = check_use(options, cluster, advised, err);
	return r < 0 ? r : set_size(&set, err);
}

/* Stops at the first error. */
static int apply(const struct advise_options *options, struct top_cluster *cluster,
	const struct advise_world *world, struct error *err)
{
	size_t n = 0, done = 0;
	int r = 0;

	for (size_t i = 0; i < world->n_containers; i++)
		n += advise_has_command(world->containers[i]);
	for (size_t i = 0; i < world->n_containers && r == 0; i++) {
		if (!advise_has_command(world->containers[i]))
			continue;
		r = apply_one(options, cluster, world->containers[i], err);
		done += r == 0;
	}
	printf("%zu of %zu commands were carried out.\n", done, n);
	return r == 0 ? output_end(err) : r;
}

static int run_on(const struct advise_options *options, struct top_cluster *cluster, struct error *err)
{
	const struct advice_terms terms = {.margin = options->margin, .min_age_s = options->min_age_s};
	_cleanup_advise_world_ struct advise_world world;
	_cleanup_strbuf_ struct strbuf problems;
	int r;

	advise_world_init(&world);
	strbuf_init(&problems, PROBLEMS_MAX);
	r = advise_world_read(&world, options, cluster, NULL, &problems, err);
	if (r < 0)
		return r;
	advise_world_decide(&world, &terms);
	r = print(&world, options, err);
	if (problems.len)
		complain("ration", strbuf_cstr(&problems));
	return r == 0 && options->apply ? apply(options, cluster, &world, err) : r;
}

static int run(void *userdata, struct error *err)
{
	const struct advise_options *options = userdata;
	struct top_cluster *cluster = NULL;
	size_t n_nodes = 0;
	int r;

	if (options->namespace_ && !pod_name_is_valid(options->namespace_))
		return error_set(
			err, EINVAL, "%.80s is not a name that a namespace can have", options->namespace_);
	while (options->nodes[n_nodes])
		n_nodes++;
	r = top_cluster_open(&options->kubectl, options->nodes, n_nodes, true, &cluster, err);
	if (r == 0)
		r = run_on(options, cluster, err);
	top_cluster_close(cluster);
	return r;
}

static int check(void *userdata)
{
	const struct advise_options *options = userdata;

	return options->apply && options->output == OUTPUT_JSON
		       ? options_refuse(&advise_option_table,
				 "--apply says what it does as text: -o json does not go with it")
		       : -1;
}

int advise_command(int argc, char **argv)
{
	struct advise_options options = {0};

	return command_run(&advise_option_table, argc, argv, &options, check, run);
}
