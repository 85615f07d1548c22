/* ration top: how containers of a cluster, or programs of this machine, use their GPUs now. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "cli/options.h"
#include "cli/printable.h"
#include "cli/run-program.h"
#include "cli/top-cluster.h"
#include "cli/top-page.h"
#include "cli/top-screen.h"
#include "cli/top-table.h"
#include "kube/json.h"

#define INTERVAL_MS 1000
#define PAGE_MAX (16u << 20)
#define TABLE_MAX (64u << 20)

struct top {
	const struct top_options *options;
	struct top_cluster *cluster; /* NULL: shows runs */
	struct strbuf problems;
};

/* Searches a configuration as kubectl does. */
static bool has_cluster(const struct top_options *options)
{
	const char *home = getenv("HOME"), *named = getenv("KUBECONFIG");
	char path[PATH_MAX];

	if (options->nodes[0] || options->kubectl.flags.n || (named && *named) ||
		getenv("KUBERNETES_SERVICE_HOST"))
		return true;
	snprintf(path, sizeof(path), "%.4000s/.kube/config", home ? home : "");
	return access(path, F_OK) == 0;
}

static int sample_take(struct top *top, struct top_sample *sample, struct error *err)
{
	_cleanup_strbuf_ struct strbuf page;
	int r;

	strbuf_init(&page, PAGE_MAX);
	strbuf_clear(&top->problems);
	top_sample_release(sample);
	err->text[0] = '\0';
	if (top->cluster) {
		r = top_cluster_read(top->cluster, NULL, sample, &top->problems, err);
	} else {
		r = run_program_output("sample", &page, err);
		if (r == 0)
			r = top_sample_add(sample, "", strbuf_cstr(&page));
	}
	sample->at_ns = monotonic_ns();
	top_sample_sort(sample);
	if (r < 0 && !err->text[0])
		return error_set(err, -r, "the answer could not be stored: %s", strerror(-r));
	return r;
}

static int table(const struct top *top, const struct top_sample *before, const struct top_sample *now,
	struct strbuf *out, struct error *err)
{
	int r = top_table(before, now, top->options->runs, out);

	if (r < 0)
		return error_set(err, -r, "out of memory");
	if (top->problems.len) {
		_cleanup_free_ char *copy = strdup(strbuf_cstr(&top->problems));

		/* Works line by line, because printable() replaces line ends. */
		for (char *rest = copy, *line; rest && (line = strsep(&rest, "\n")) && *line;)
			strbuf_addf(out, "%s\n", printable(line));
	}
	return out->failed ? error_set(err, -out->failed, "out of memory") : 0;
}

static int print_once(const struct top *top, const struct top_sample *before, const struct top_sample *now,
	struct error *err)
{
	_cleanup_strbuf_ struct strbuf out;
	int r = 0;

	strbuf_init(&out, TABLE_MAX);
	if (top->options->output == OUTPUT_JSON) {
		_cleanup_json_ struct json_object *document = top_json(before, now, top->options->runs);

		add_document(&out, document);
		if (top->problems.len)
			complain("ration", strbuf_cstr(&top->problems));
	} else {
		r = table(top, before, now, &out, err);
	}
	if (r < 0 || out.failed)
		return r < 0 ? r : error_set(err, -out.failed, "out of memory");
	fputs(strbuf_cstr(&out), stdout);
	return output_end(err);
}

static int show_once(struct top *top, struct top_sample *samples, struct error *err)
{
	int r = sample_take(top, &samples[0], err);

	if (r == 0)
		usleep(INTERVAL_MS * 1000);
	if (r == 0)
		r = sample_take(top, &samples[1], err);
	return r < 0 ? r : print_once(top, &samples[0], &samples[1], err);
}

/* A node that no longer answers is shown as a problem, because it may return. */
static void show_next(struct top *top, struct top_sample *samples, size_t *last, struct top_screen *screen)
{
	_cleanup_strbuf_ struct strbuf out;
	struct top_sample *before = &samples[*last], *now = &samples[!*last];
	struct error err = {""};
	int r = sample_take(top, now, &err);

	strbuf_init(&out, TABLE_MAX);
	if (r == 0) {
		*last = !*last;
		r = table(top, before, now, &out, &err);
	}
	top_screen_show(screen, r < 0 ? printable(err.text) : strbuf_cstr(&out));
}

static int show_live(struct top *top, struct top_sample *samples, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out;
	struct top_screen *screen;
	size_t last = 0;
	int r = sample_take(top, &samples[0], err);

	strbuf_init(&out, TABLE_MAX);
	if (r == 0)
		r = table(top, &samples[0], &samples[0], &out, err);
	if (r < 0)
		return r;
	r = top_screen_open(&screen);
	if (r < 0)
		return error_set(err, -r, "the terminal cannot be used: %s", strerror(-r));
	top_screen_show(screen, strbuf_cstr(&out));
	while (!top_screen_wait(screen, INTERVAL_MS))
		show_next(top, samples, &last, screen);
	top_screen_close(screen);
	return 0;
}

static int run(void *userdata, struct error *err)
{
	const struct top_options *options = userdata;
	struct top top = {.options = options};
	struct top_sample samples[2];
	size_t n_nodes = 0;
	int r = 0;

	strbuf_init(&top.problems, 64 << 10);
	for (int i = 0; i < 2; i++)
		top_sample_init(&samples[i]);
	while (options->nodes[n_nodes])
		n_nodes++;
	if (!options->runs)
		r = top_cluster_open(&options->kubectl, options->nodes, n_nodes, false, &top.cluster, err);
	if (r == 0)
		r = options->once || options->output == OUTPUT_JSON || !isatty(STDOUT_FILENO) ||
				    !isatty(STDIN_FILENO)
			    ? show_once(&top, samples, err)
			    : show_live(&top, samples, err);
	top_cluster_close(top.cluster);
	strbuf_release(&top.problems);
	for (int i = 0; i < 2; i++)
		top_sample_release(&samples[i]);
	return r;
}

static int check(void *userdata)
{
	struct top_options *options = userdata;

	if (options->runs && (options->nodes[0] || options->kubectl.flags.n))
		return options_refuse(&top_option_table,
			"--runs is about this machine: nodes and options of kubectl do not go with it");
	options->runs = options->runs || !has_cluster(options);
	return -1;
}

int top_command(int argc, char **argv)
{
	struct top_options options = {0};

	return command_run(&top_option_table, argc, argv, &options, check, run);
}
