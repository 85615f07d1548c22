/* ration plan: reads the cluster, or a saved history, and prints what the scheduler would do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/plan/plan.h"
#include "cli/printable.h"
#include "kube/json.h"

static int check_drain(const struct plan_options *options)
{
	const struct option_table *table = &plan_option_table;

	if (!*options->nodes)
		return options_refuse(table, "NODE is missing: the nodes to drain");
	if (options->file || options->count)
		return options_refuse(table, "-f and --count are not for `ration plan drain`");
	if (options->force && !options->execute)
		return options_refuse(table, "--force is for `ration plan drain --execute`");
	return -1;
}

static int check_change(const struct plan_options *options)
{
	const struct option_table *table = &plan_option_table;

	if (options->count)
		return options_refuse(table, "--count is for `ration plan pods` and `ration plan add`");
	if (options->what == PLAN_UNIT && !options->unit_mib)
		return options_refuse(table, "--unit is missing: the new unit of GPU memory");
	if (options->what == PLAN_UNIT && options->file)
		return options_refuse(table, "-f is not for `ration plan unit`");
	if (options->what == PLAN_POLICY && !options->file)
		return options_refuse(table, "-f FILE is missing: the ResourcePolicy");
	return -1;
}

/* Combinations that the table cannot express. Returns -1, or the status to end with. */
static int check(void *userdata)
{
	const struct plan_options *options = userdata;
	const struct option_table *table = &plan_option_table;
	const char *const files[] = {options->file, options->history, options->objects};
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		n += files[i] && strcmp(files[i], "-") == 0;
	if (n > 1)
		return options_refuse(table, "only one of the files can be standard input");
	if (options->objects && !options->history)
		return options_refuse(table, "--objects is for --history: both are of the same time");
	if (options->what != PLAN_DRAIN && *options->nodes)
		return options_refuse(table, "unexpected argument %.80s", *options->nodes);
	if (options->what != PLAN_PODS && options->history && !options->objects)
		return options_refuse(table, "--objects FILE is missing: the nodes and pods of that time");
	if (options->what != PLAN_ADD && options->like)
		return options_refuse(table, "--like is for `ration plan add`");
	if (options->what != PLAN_MOVES && options->max)
		return options_refuse(table, "--max is for `ration plan moves`");
	if (options->what != PLAN_MOVES && options->what != PLAN_DRAIN && options->execute)
		return options_refuse(table, "--execute is for `ration plan moves` and `ration plan drain`");
	if (options->what != PLAN_DRAIN && options->force)
		return options_refuse(table, "--force is for `ration plan drain --execute`");
	if (options->execute && options->history)
		return options_refuse(table,
			"--execute needs the cluster as it is now, and --history is from another time");
	if (options->what != PLAN_UNIT && options->unit_mib)
		return options_refuse(table, "--unit is for `ration plan unit`");
	if (options->what == PLAN_MOVES && (options->file || options->count))
		return options_refuse(table, "-f and --count are not for `ration plan moves`");
	if (options->what == PLAN_UNIT || options->what == PLAN_POLICY)
		return check_change(options);
	if (options->what == PLAN_DRAIN)
		return check_drain(options);
	if (options->what == PLAN_ADD && !options->file == !options->like)
		return options_refuse(table, "add needs -f FILE, the manifest of a node, or --like NODE");
	if (options->what == PLAN_PODS && !options->file)
		return options_refuse(table, "-f FILE is missing: the manifest of the pods");
	return -1;
}

int plan_print(struct strbuf *out, struct error *err)
{
	if (out->failed)
		return error_set(err, -out->failed, "%s", strerror(-out->failed));
	printable_lines(out);
	fputs(strbuf_cstr(out), stdout);
	strbuf_clear(out);
	return output_end(err);
}

int plan_end(int r, int end, struct strbuf *out, struct error *err)
{
	struct error ignored = {""};

	if (r < 0)
		plan_print(out, &ignored);
	else if (end < 0)
		r = error_set(err, -end, "%s", strerror(-end));
	return r;
}

static int decide(
	struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err)
{
	switch (input->options->what) {
	case PLAN_PODS:
		return plan_pods(input, manifest, out, err);
	case PLAN_DRAIN:
		return plan_drain_nodes(input, out, err);
	case PLAN_ADD:
		return plan_add_nodes(input, manifest, out, err);
	case PLAN_MOVES:
		return plan_find_moves(input, out, err);
	case PLAN_UNIT:
		return plan_unit(input, out, err);
	default:
		return plan_policy(input, manifest, out, err);
	}
}

static int make(void *userdata, struct error *err)
{
	const struct plan_options *options = userdata;
	_cleanup_plan_input_ struct plan_input input;
	_cleanup_json_ struct json_object *manifest = NULL;
	_cleanup_strbuf_ struct strbuf out;
	int r = plan_input_init(&input);

	strbuf_init(&out, PLAN_TEXT_MAX);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = options->file ? plan_manifest_read(options->file, &manifest, err) : 0;
	if (r == 0 && options->what == PLAN_PODS)
		r = plan_pods_check(manifest, options, err);
	if (r == 0 && options->what == PLAN_POLICY)
		r = plan_policy_check(manifest, options, err);
	if (r == 0)
		r = plan_input_read(&input, options, err);
	if (r == 0)
		r = decide(&input, manifest, &out, err);
	return r < 0 ? r : plan_print(&out, err);
}

int plan_command(int argc, char **argv)
{
	struct plan_options options = {0};

	return command_run(&plan_option_table, argc, argv, &options, check, make);
}
