/* options.h - the command line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/delivery/unknown.h"
#include "agent/looks/watchdog.h"
#include "base/log.h"
#include "model/shares.h"

struct error;

struct listen_address {
	char text[64]; /* IPv4; "": none */
	uint16_t port;
};

struct options {
	const char *node_name;
	const char *driver_root;      /* as we see it */
	const char *host_driver_root; /* as the container runtime sees it */
	const char *plugin_dir;
	const char *pod_resources_socket;
	const char *cri_socket;
	const char *cdi_dir;
	const char *checkpoint;
	const char *state_dir;
	const char *shim_dir; /* what containers of isolated nodes get in the driver's place */
	const char *proc;     /* the host's processes */
	enum on_bypass on_bypass;
	enum unknown_functions unknown_functions;
	const char *kubeconfig; /* NULL: see kube_config_load() */
	struct listen_address metrics, probes;
	uint32_t unit_mib;
	enum share_policy policy; /* where neither node nor cluster says another */
	bool allow_disable;	  /* CGPU_DISABLE is honoured */
	bool no_fault_lists;	  /* the ConfigMaps that declare GPUs faulty are not read */
	const char *uninstall;	  /* NAMESPACE/DAEMONSET: run uninstall() and nothing else; NULL: no */
	enum log_level log_level;
};

/* options_parse() - 1: run; 0: everything asked for was printed (--help, --version); -EINVAL with a sentence.
 * The strings are argv's, the environment's, or constants. */
int options_parse(int argc, char **argv, struct options *ret_options, struct error *err);
