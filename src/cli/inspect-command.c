#include "cli/commands.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "cli/options.h"

#define WATCH_SECONDS 2
#define OUTPUT_MAX (256u << 20)

struct inspect_run {
	const char *program;
	struct inspect_options options;
};

static void tell_warning(void *userdata, const char *text)
{
	const struct inspect_run *run = userdata;

	warn(run->program, text);
}

static int render(const struct inspect_options *options, const struct inspect *inspect, struct strbuf *out)
{
	if (options->output == OUTPUT_JSON)
		return inspect_json(inspect, out);
	if (options->topology)
		return inspect_topology(inspect, out);
	if (options->details)
		return inspect_details(inspect, out);
	return inspect_summary(inspect, options->output == OUTPUT_WIDE, out);
}

static void hint_if_empty(const struct inspect_run *run, const struct inspect *inspect)
{
	if (inspect->n_nodes)
		return;
	if (run->options.topology) {
		complain(run->program,
			run->options.node
				? "this node gives no whole GPUs: label it ack.node.gpu.schedule=topology"
				: "no node gives whole GPUs: label a GPU node ack.node.gpu.schedule=topology");
		return;
	}
	complain(run->program,
		run->options.node
			? "this node shares no GPU memory. Label it ack.node.gpu.schedule=share, and see that the DaemonSet gpushare-device-plugin-ds in kube-system runs there."
			: "no node shares GPU memory. Label a GPU node ack.node.gpu.schedule=share, and see that the DaemonSet gpushare-device-plugin-ds in kube-system runs there.");
}

/* Hints and warnings are printed only the first time. */
static int run_once(const struct inspect_run *run, struct strbuf *out, bool first)
{
	_cleanup_inspect_ struct inspect inspect;
	struct warnings warnings = {.tell = first ? tell_warning : NULL, .userdata = (void *)run};
	struct error err = {""};
	int r;

	inspect_init(&inspect);
	inspect.topology = run->options.topology;
	r = inspect_fetch(&inspect, &run->options.kubectl, run->options.node, &warnings, &err);
	if (r >= 0) {
		r = render(&run->options, &inspect, out);
		if (r < 0)
			error_set(&err, -r, "out of memory");
	}
	if (r < 0)
		complain(run->program, err.text);
	else if (first)
		hint_if_empty(run, &inspect);
	return r;
}

static int print(const struct inspect_run *run, const struct strbuf *out, bool clear_screen)
{
	struct error err = {""};
	int r;

	if (clear_screen)
		fputs("\033[H\033[2J", stdout);
	fputs(strbuf_cstr(out), stdout);
	r = output_end(&err);
	if (r < 0)
		complain(run->program, err.text);
	return r;
}

/* An error is printed, and the loop continues: the user wants to see when the cluster is available again. */
static int watch(const struct inspect_run *run)
{
	_cleanup_strbuf_ struct strbuf shown, now;
	bool first = true;

	strbuf_init(&shown, OUTPUT_MAX);
	strbuf_init(&now, OUTPUT_MAX);
	for (;; sleep(WATCH_SECONDS)) {
		strbuf_clear(&now);
		if (run_once(run, &now, first) < 0)
			continue;
		if (!first && strcmp(strbuf_cstr(&now), strbuf_cstr(&shown)) == 0)
			continue;
		if (print(run, &now, isatty(STDOUT_FILENO)) < 0)
			return EXIT_FAILURE;
		first = false;
		strbuf_clear(&shown);
		strbuf_add(&shown, now.data, now.len);
	}
}

int inspect_command(int argc, char **argv, const struct option_table *table, const char *program)
{
	struct inspect_run run = {.program = program};
	_cleanup_strbuf_ struct strbuf out;
	int r;

	kubectl_init(&run.options.kubectl);
	strbuf_init(&out, OUTPUT_MAX);
	r = options_parse(table, argc, argv, &run.options);
	if (r < 0 && run.options.watch)
		r = watch(&run);
	else if (r < 0)
		r = run_once(&run, &out, true) < 0 || print(&run, &out, false) < 0 ? EXIT_FAILURE
										   : EXIT_SUCCESS;
	kubectl_release(&run.options.kubectl);
	return r;
}
