/* options.h - the command line of ration-agent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/container/unknown.h"
#include "agent/gpu/watchdog.h"
#include "base/log.h"
#include "base/options.h"
#include "model/shares.h"

/* Claims of pods that their limit would not hold. */
enum privileged_claims { PRIVILEGED_CLAIMS_REFUSE, PRIVILEGED_CLAIMS_PREPARE };

struct options {
	const char *node_name;	      /* NULL only with uninstall */
	const char *driver_root;      /* as the agent sees it */
	const char *host_driver_root; /* as the container runtime sees it */
	const char *kubelet_dir;
	const char *plugin_dir;
	const char *pod_resources_socket;
	const char *cri_socket;
	const char *cdi_dir;
	const char *checkpoint;
	const char *state_dir;
	const char *shim_dir; /* what containers of isolated nodes get in place of the driver */
	const char *proc;     /* the host's processes */
	enum on_bypass on_bypass;
	enum unknown_functions unknown_functions;
	const char *kubeconfig; /* NULL: see kube_config_load() */
	struct option_address metrics, probes;
	int unit_mib;
	enum share_policy policy; /* if neither node nor cluster sets another */
	bool allow_disable;	  /* CGPU_DISABLE counts */
	enum privileged_claims privileged_claims;
	bool no_fault_lists;   /* the ConfigMaps that declare GPUs faulty are not read */
	const char *uninstall; /* NAMESPACE/DAEMONSET: only run uninstall(); NULL: do not */
	enum log_level log_level;
};

extern const struct option_table agent_option_table;

/* agent_options_parse() - returns -1 to go on, or the exit status, as options_parse(). The strings are
 * argv's, the environment's, or constants. */
int agent_options_parse(int argc, char **argv, struct options *ret_options);
