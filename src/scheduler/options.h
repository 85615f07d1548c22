/* options.h - the command line of ration-scheduler.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/options.h"
#include "core/registry/registry.h"

struct scheduler_options {
	const char *kubeconfig, *context; /* NULL: see kube_config_load() */
	struct option_address listen, probes, metrics, webhook_listen;
	const char *scheduler_lease; /* NAMESPACE/NAME */
	const char *webhook;	     /* NAMESPACE/SERVICE; NULL: no webhook */
	const char *uninstall;	     /* NAMESPACE/DEPLOYMENT: only run uninstall(); NULL: do not */
	uint32_t best_nodes;	     /* 0: all */
	enum node_order node_order;
	uint32_t max_pods_per_gpu;		/* 0: the contract's number */
	int job_mixing;				/* 1: allowed */
	uint32_t gang_timeout, gang_keep_after; /* s */
	enum log_level log_level;
};

extern const struct option_table scheduler_option_table;

/* scheduler_options_parse() - returns -1 to go on, or the exit status, as options_parse(). The texts are
 * argv's and constants. */
int scheduler_options_parse(int argc, char **argv, struct scheduler_options *ret_options);
