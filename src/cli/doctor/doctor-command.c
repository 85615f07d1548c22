/* ration doctor: the options, and which of its looks is asked for. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/doctor/cluster.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"
#include "cli/doctor/scheduler-config.h"
#include "cli/kubectl.h"

#define OUTPUT_MAX (16u << 20)

struct options {
	struct kubectl kubectl;
	bool json, node, scheduler_config, kubeadm;
	const char *root, *driver_root;
	struct scheduler_container container;
};

enum {
	OPTION_NODE = 256,
	OPTION_ROOT,
	OPTION_DRIVER_ROOT,
	OPTION_SCHEDULER_CONFIG,
	OPTION_KUBEADM,
	OPTION_IMAGE,
	OPTION_ARG
};

static const struct option own_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"node", no_argument, NULL, OPTION_NODE},
	{"root", required_argument, NULL, OPTION_ROOT},
	{"driver-root", required_argument, NULL, OPTION_DRIVER_ROOT},
	{"scheduler-config", no_argument, NULL, OPTION_SCHEDULER_CONFIG},
	{"kubeadm", no_argument, NULL, OPTION_KUBEADM},
	{"image", required_argument, NULL, OPTION_IMAGE},
	{"arg", required_argument, NULL, OPTION_ARG},
	{"help", no_argument, NULL, 'h'},
};

static const char usage[] =
	"Usage: ration doctor [-o json] [FLAG...]\n"
	"       ration doctor --node [--root DIR] [--driver-root DIR] [-o json]\n"
	"       ration doctor --scheduler-config [--kubeadm --image IMAGE [--arg ARG]...]\n"
	"\n"
	"Hold a cluster, or the node it runs on, against what shared GPUs need, and tell for each fault the command that mends it.\n"
	"\n"
	"  -o, --output json  {\"checks\": [...], \"findings\": [...]}\n"
	"      --node         look at this machine instead of a cluster, as root; kubectl is not needed\n"
	"      --root DIR     where the node's / is, for who runs in a container (default: /)\n"
	"      --driver-root DIR\n"
	"                     where the driver's files are on the node (default: /)\n"
	"      --scheduler-config\n"
	"                     print the KubeSchedulerConfiguration with which the cluster's own kube-scheduler\n"
	"                     has the ledger, so that pods need no schedulerName\n"
	"      --kubeadm      as a script that sets up a control plane node which kubeadm made\n"
	"      --image IMAGE  of ration-scheduler in it, in a registry that the node reaches\n"
	"      --arg ARG      one more option of ration-scheduler, e.g. --arg=--job-mixing=allow\n"
	"  -h, --help         this text\n"
	"\n"
	"Everything goes through kubectl (or the program that $KUBECTL names), and is read only. $KUBECONFIG and\n"
	"kubectl's flags are honoured: --kubeconfig, --context, --cluster, --user, --server, --token, --as,\n"
	"--as-group, --as-uid, --certificate-authority, --client-certificate, --client-key,\n"
	"--tls-server-name, --request-timeout, --cache-dir, --insecure-skip-tls-verify.\n"
	"\n"
	"Exit status: 0 without findings (notes are none), 1 with, 2 for wrong arguments, 3 when something could not be looked at.\n";

/* Returns -1 to go on, or the status to end with. */
static int option_take(int c, void *userdata)
{
	struct options *options = userdata;

	switch (c) {
	case 'o':
		options->json = true;
		return strcmp(optarg, "json") == 0 ? -1 : complain_usage(usage, "--output must be json");
	case OPTION_NODE:
		options->node = true;
		return -1;
	case OPTION_ROOT:
		options->root = optarg;
		return *optarg == '/' ? -1 : complain_usage(usage, "--root is no absolute path");
	case OPTION_DRIVER_ROOT:
		options->driver_root = optarg;
		return *optarg == '/' ? -1 : complain_usage(usage, "--driver-root is no absolute path");
	case OPTION_SCHEDULER_CONFIG:
		options->scheduler_config = true;
		return -1;
	case OPTION_KUBEADM:
		options->kubeadm = true;
		return -1;
	case OPTION_IMAGE:
		options->container.image = optarg;
		return -1;
	case OPTION_ARG:
		if (options->container.n_args == SCHEDULER_ARGS_MAX)
			return complain_usage(usage, "--arg is there more than 16 times");
		options->container.args[options->container.n_args++] = optarg;
		return -1;
	}
	return -1;
}

static int options_parse(int argc, char **argv, struct options *options)
{
	const struct kubectl_options own = {.own = own_options,
		.n_own = ARRAY_SIZE(own_options),
		.letters = "o:h",
		.usage = usage,
		.take = option_take,
		.userdata = options};
	int r = kubectl_parse_options(&options->kubectl, &own, argc, argv);

	if (r >= 0)
		return r;
	if (options->node && options->scheduler_config)
		return complain_usage(usage, "either --node or --scheduler-config");
	if ((options->root || options->driver_root) && !options->node)
		return complain_usage(usage, "--root and --driver-root belong to --node");
	if ((options->kubeadm && !options->scheduler_config) ||
		((options->container.image || options->container.n_args) && !options->kubeadm))
		return complain_usage(
			usage, "--kubeadm belongs to --scheduler-config, --image and --arg to --kubeadm");
	return optind < argc
		       ? complain_usage(usage, "there is nothing to name: the whole cluster is looked at")
		       : -1;
}

static int print(const struct strbuf *out, struct error *err)
{
	fputs(strbuf_cstr(out), stdout);
	if (fflush(stdout) == EOF || ferror(stdout))
		return error_set(err, EIO, "the output cannot be written");
	return 0;
}

static int examine(const struct options *options, struct strbuf *out, int *ret_status, struct error *err)
{
	_cleanup_report_ struct report report;
	int r = 0;

	report_init(&report);
#ifndef __linux__
	if (options->node)
		return error_set(err, ENOSYS, "`ration doctor --node` needs Linux: run it on the node");
#endif
	if (options->node)
		machine_examine(options->root ? options->root : "/",
			options->driver_root ? options->driver_root : "/", &report);
	else
		r = cluster_examine(&options->kubectl, &report, err);
	if (r < 0)
		return r;
	r = options->json ? report_json(&report, out) : report_text(&report, out);
	*ret_status = report_status(&report);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

static int print_scheduler_config(const struct options *options, struct strbuf *out, struct error *err)
{
	if (options->kubeadm)
		return scheduler_config_kubeadm(&options->container, out, err);
	return scheduler_config(out);
}

static int run(const struct options *options)
{
	_cleanup_strbuf_ struct strbuf out;
	struct error err = {""};
	int r, status = EXIT_SUCCESS;

	strbuf_init(&out, OUTPUT_MAX);
	r = options->scheduler_config ? print_scheduler_config(options, &out, &err)
				      : examine(options, &out, &status, &err);
	if (r == 0)
		r = print(&out, &err);
	if (r < 0) {
		complain("ration", err.text);
		return options->scheduler_config && r == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN;
	}
	return status;
}

int doctor_command(int argc, char **argv)
{
	struct options options = {0};
	int r;

	kubectl_init(&options.kubectl);
	r = options_parse(argc, argv, &options);
	if (r < 0)
		r = run(&options);
	kubectl_release(&options.kubectl);
	return r;
}
