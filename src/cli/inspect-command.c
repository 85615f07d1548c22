#include "cli/commands.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/complain.h"
#include "cli/inspect-read.h"
#include "cli/inspect-text.h"
#include "cli/inspect.h"
#include "cli/kubectl.h"

#define WATCH_SECONDS 2
#define OUTPUT_MAX (256u << 20)
#define NODE_NAME_MAX 253

enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON };

struct options {
	const char *program, *invocation;
	struct kubectl kubectl;
	enum output output;
	bool details, topology;
	bool watch;
	const char *node; /* NULL: all */
};

enum { OPTION_VERSION = 256, OPTION_TOPOLOGY };

static const struct option own_options[] = {
	{"details", no_argument, NULL, 'd'},
	{"topology", no_argument, NULL, OPTION_TOPOLOGY},
	{"output", required_argument, NULL, 'o'},
	{"watch", no_argument, NULL, 'w'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPTION_VERSION},
};

static const char usage[] =
	"Usage: %s [-d | --topology] [-o json|wide] [-w] [FLAG...] [NODE]\n"
	"\n"
	"Show how much GPU memory of each card is allocated, in units of the node (GiB where not said otherwise).\n"
	"\n"
	"  NODE                 only this node\n"
	"  -d, --details        the pods of each node, and what they have of each card\n"
	"      --topology       nodes that give whole cards: how these are connected, and who has which\n"
	"  -o, --output FORMAT  wide: with mode, unit, card models and health; json: everything\n"
	"  -w, --watch          again whenever it changes (asked every 2 seconds), until Ctrl-C\n"
	"  -h, --help           this text\n"
	"      --version        the version\n"
	"\n"
	"The API server is asked through kubectl (or the program that $KUBECTL names). $KUBECONFIG and these of its\n"
	"flags are honoured: --kubeconfig, --context, --cluster, --user, --server, --token, --as, --as-group,\n"
	"--as-uid, --certificate-authority, --client-certificate, --client-key, --tls-server-name,\n"
	"--request-timeout, --cache-dir, --insecure-skip-tls-verify.\n";

static void tell_warning(void *userdata, const char *text)
{
	const struct options *options = userdata;

	warn(options->program, text);
}

static int usage_error(const struct options *options, const char *text)
{
	if (text)
		complain(options->program, text);
	fprintf(stderr, usage, options->invocation);
	return EXIT_USAGE;
}

static int output_parse(const char *text, enum output *ret_output)
{
	if (strcmp(text, "wide") == 0)
		*ret_output = OUTPUT_WIDE;
	else if (strcmp(text, "json") == 0)
		*ret_output = OUTPUT_JSON;
	else
		return -EINVAL;
	return 0;
}

/* What comes after the options: at most one node. */
static int node_parse(int argc, char **argv, struct options *options)
{
	if (optind == argc)
		return 0;
	if (optind + 1 < argc)
		return usage_error(options, "more than one node is named");
	if (!*argv[optind] || strlen(argv[optind]) > NODE_NAME_MAX)
		return usage_error(options, "a node's name has 1 to 253 characters");
	options->node = argv[optind];
	return 0;
}

/* Returns -1 to go on, or the status to end with. */
static int option_take(int c, void *userdata)
{
	struct options *options = userdata;

	switch (c) {
	case 'd':
		options->details = true;
		return -1;
	case OPTION_TOPOLOGY:
		options->topology = true;
		return -1;
	case 'w':
		options->watch = true;
		return -1;
	case 'o':
		if (output_parse(optarg, &options->output) < 0)
			return usage_error(options, "--output must be json or wide");
		return -1;
	case 'h':
		printf(usage, options->invocation);
		return EXIT_SUCCESS;
	case OPTION_VERSION:
		printf("%s " RATION_VERSION "\n", options->program);
		return EXIT_SUCCESS;
	case '?':
		return usage_error(options, NULL);
	}
	return -1;
}

static int options_parse(int argc, char **argv, struct options *options)
{
	const struct kubectl_options own = {.own = own_options,
		.n_own = ARRAY_SIZE(own_options),
		.letters = "do:wh",
		.take = option_take,
		.userdata = options};
	int r = kubectl_parse_options(&options->kubectl, &own, argc, argv);

	if (r >= 0)
		return r;
	r = node_parse(argc, argv, options);
	return r > 0 ? r : -1;
}

static int render(const struct options *options, const struct inspect *inspect, struct strbuf *out)
{
	if (options->output == OUTPUT_JSON)
		return inspect_json(inspect, out);
	if (options->topology)
		return inspect_topology(inspect, out);
	if (options->details)
		return inspect_details(inspect, out);
	return inspect_summary(inspect, options->output == OUTPUT_WIDE, out);
}

static void hint_if_empty(const struct options *options, const struct inspect *inspect)
{
	if (inspect->n_nodes)
		return;
	if (options->topology) {
		complain(options->program,
			options->node
				? "this node gives no whole GPUs: label it ack.node.gpu.schedule=topology"
				: "no node gives whole GPUs: label a GPU node ack.node.gpu.schedule=topology");
		return;
	}
	complain(options->program,
		options->node
			? "this node shares no GPU memory. Label it ack.node.gpu.schedule=share, and see that the DaemonSet gpushare-device-plugin-ds in kube-system runs there."
			: "no node shares GPU memory. Label a GPU node ack.node.gpu.schedule=share, and see that the DaemonSet gpushare-device-plugin-ds in kube-system runs there.");
}

/* Hints and warnings are given the first time only. */
static int run_once(const struct options *options, struct strbuf *out, bool first)
{
	_cleanup_inspect_ struct inspect inspect;
	struct warnings warnings = {.tell = first ? tell_warning : NULL, .userdata = (void *)options};
	struct error err = {""};
	int r;

	inspect_init(&inspect);
	inspect.topology = options->topology;
	r = inspect_fetch(&inspect, &options->kubectl, options->node, &warnings, &err);
	if (r >= 0) {
		r = render(options, &inspect, out);
		if (r < 0)
			error_set(&err, -r, "out of memory");
	}
	if (r < 0)
		complain(options->program, err.text);
	else if (first)
		hint_if_empty(options, &inspect);
	return r;
}

static int print(const struct options *options, const struct strbuf *out, bool clear_screen)
{
	if (clear_screen)
		fputs("\033[H\033[2J", stdout);
	fputs(strbuf_cstr(out), stdout);
	if (fflush(stdout) == EOF || ferror(stdout)) {
		complain(options->program, "the output cannot be written");
		return -EIO;
	}
	return 0;
}

/* Errors are told and outlived: who watches wants to see the cluster come back. */
static int watch(const struct options *options)
{
	_cleanup_strbuf_ struct strbuf shown, now;
	bool first = true;

	strbuf_init(&shown, OUTPUT_MAX);
	strbuf_init(&now, OUTPUT_MAX);
	for (;; sleep(WATCH_SECONDS)) {
		strbuf_clear(&now);
		if (run_once(options, &now, first) < 0)
			continue;
		if (!first && strcmp(strbuf_cstr(&now), strbuf_cstr(&shown)) == 0)
			continue;
		if (print(options, &now, isatty(STDOUT_FILENO)) < 0)
			return EXIT_FAILURE;
		first = false;
		strbuf_clear(&shown);
		strbuf_add(&shown, now.data, now.len);
	}
}

static int run(const struct options *options)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, OUTPUT_MAX);
	if (options->watch)
		return watch(options);
	if (run_once(options, &out, true) < 0 || print(options, &out, false) < 0)
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}

int inspect_command(int argc, char **argv, const char *program, const char *invocation)
{
	struct options options = {.program = program, .invocation = invocation};
	int r;

	kubectl_init(&options.kubectl);
	r = options_parse(argc, argv, &options);
	if (r < 0)
		r = run(&options);
	kubectl_release(&options.kubectl);
	return r;
}
