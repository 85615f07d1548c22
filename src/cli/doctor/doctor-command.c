/* ration doctor: finds faults of the cluster or of this node. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/doctor/cluster.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"
#include "cli/doctor/scheduler-config.h"
#include "cli/kubectl.h"
#include "cli/options.h"

#define OUTPUT_MAX (16u << 20)

/* Returns -1 to go on, or the status to end with. */
static int parse(int argc, char **argv, struct doctor_options *options)
{
	int r = options_parse(&doctor_option_table, argc, argv, options);

	if (r >= 0)
		return r;
	if (options->node && options->scheduler_config)
		return options_refuse(
			&doctor_option_table, "--node and --scheduler-config exclude each other");
	if ((options->root || options->driver_root) && !options->node)
		return options_refuse(&doctor_option_table, "--root and --driver-root need --node");
	if (options->kubeadm && !options->scheduler_config)
		return options_refuse(&doctor_option_table, "--kubeadm needs --scheduler-config");
	if ((options->image || options->args.n) && !options->kubeadm)
		return options_refuse(&doctor_option_table, "--image and --arg need --kubeadm");
	return -1;
}

static int examine(
	const struct doctor_options *options, struct strbuf *out, int *ret_status, struct error *err)
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
	r = options->output == OUTPUT_JSON ? report_json(&report, out) : report_text(&report, out);
	*ret_status = report_status(&report);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

static int run(const struct doctor_options *options)
{
	const struct scheduler_container container = {
		.image = options->image, .args = options->args.words, .n_args = options->args.n};
	_cleanup_strbuf_ struct strbuf out;
	struct error err = {""};
	int r, status = EXIT_SUCCESS;

	strbuf_init(&out, OUTPUT_MAX);
	r = !options->scheduler_config ? examine(options, &out, &status, &err)
	    : options->kubeadm	       ? scheduler_config_kubeadm(&container, &out, &err)
				       : scheduler_config(&out);
	if (r == 0) {
		fputs(strbuf_cstr(&out), stdout);
		r = output_end(&err);
	}
	if (r < 0) {
		complain("ration", err.text);
		return options->scheduler_config && r == -EINVAL ? EXIT_USAGE : EXIT_UNKNOWN;
	}
	return status;
}

int doctor_command(int argc, char **argv)
{
	struct doctor_options options = {0};
	int r;

	kubectl_init(&options.kubectl);
	r = parse(argc, argv, &options);
	if (r < 0)
		r = run(&options);
	option_words_release(&options.args);
	kubectl_release(&options.kubectl);
	return r;
}
