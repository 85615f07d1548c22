#include "agent/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/parse.h"
#include "model/units.h"

enum {
	OPT_NODE_NAME = 256,
	OPT_DRIVER_ROOT,
	OPT_HOST_DRIVER_ROOT,
	OPT_PLUGIN_DIR,
	OPT_POD_RESOURCES,
	OPT_CRI,
	OPT_CDI_DIR,
	OPT_CHECKPOINT,
	OPT_STATE_DIR,
	OPT_SHIM_DIR,
	OPT_ALLOW_DISABLE,
	OPT_NO_FAULT_LISTS,
	OPT_KUBECONFIG,
	OPT_METRICS,
	OPT_PROBES,
	OPT_ON_BYPASS,
	OPT_UNKNOWN_FUNCTIONS,
	OPT_PROC,
	OPT_POLICY,
	OPT_UNIT,
	OPT_UNINSTALL,
	OPT_LOG_LEVEL,
	OPT_VERSION,
};

static const struct option LONG_OPTIONS[] = {
	{"node-name", required_argument, NULL, OPT_NODE_NAME},
	{"driver-root", required_argument, NULL, OPT_DRIVER_ROOT},
	{"host-driver-root", required_argument, NULL, OPT_HOST_DRIVER_ROOT},
	{"plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR},
	{"pod-resources-socket", required_argument, NULL, OPT_POD_RESOURCES},
	{"cri-socket", required_argument, NULL, OPT_CRI},
	{"cdi-dir", required_argument, NULL, OPT_CDI_DIR},
	{"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
	{"state-dir", required_argument, NULL, OPT_STATE_DIR},
	{"shim-dir", required_argument, NULL, OPT_SHIM_DIR},
	{"allow-disable", no_argument, NULL, OPT_ALLOW_DISABLE},
	{"no-fault-lists", no_argument, NULL, OPT_NO_FAULT_LISTS},
	{"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
	{"metrics", required_argument, NULL, OPT_METRICS},
	{"probes", required_argument, NULL, OPT_PROBES},
	{"on-bypass", required_argument, NULL, OPT_ON_BYPASS},
	{"unknown-functions", required_argument, NULL, OPT_UNKNOWN_FUNCTIONS},
	{"proc", required_argument, NULL, OPT_PROC},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"unit", required_argument, NULL, OPT_UNIT},
	{"uninstall", required_argument, NULL, OPT_UNINSTALL},
	{"log-level", required_argument, NULL, OPT_LOG_LEVEL},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const char HELP[] =
	"Usage: ration-agent --node-name NAME [OPTION]...\n"
	"Serves the GPUs of this node to the kubelet as aliyun.com/gpu-mem.\n"
	"\n"
	"  --node-name NAME             this node in the API server (default: $NODE_NAME)\n"
	"  --driver-root DIR            where the driver's files lie, as seen from here (/)\n"
	"  --host-driver-root DIR       the same as seen by the container runtime (driver root)\n"
	"  --plugin-dir DIR             the kubelet's plugin directory\n"
	"                               (/var/lib/kubelet/device-plugins)\n"
	"  --pod-resources-socket PATH  (/var/lib/kubelet/pod-resources/kubelet.sock)\n"
	"  --cri-socket PATH            the container runtime (/run/containerd/containerd.sock)\n"
	"  --cdi-dir DIR                where the runtime looks for CDI files (/var/run/cdi)\n"
	"  --checkpoint PATH            (plugin directory/kubelet_internal_checkpoint)\n"
	"  --state-dir DIR              what survives a restart of the agent, and the grants of\n"
	"                               containers on isolated nodes (/run/ration)\n"
	"  --shim-dir DIR               the libraries that containers of isolated nodes get in the\n"
	"                               driver's place (" SHIM_DIR ")\n"
	"  --allow-disable              containers with CGPU_DISABLE=true get the whole card\n"
	"  --no-fault-lists             do not read the ConfigMaps in kube-system that declare cards\n"
	"                               faulty (<node>-device-status, unhealthy-gpu-<node>)\n"
	"  --kubeconfig PATH            (default: $KUBECONFIG, or the service account)\n"
	"  --metrics ADDR:PORT          where Prometheus finds /metrics, or none (127.0.0.1:39996)\n"
	"  --probes ADDR:PORT           /healthz and /readyz for the kubelet, or none (none)\n"
	"  --on-bypass report|evict     what becomes of pods that use a card past their limit (report)\n"
	"  --unknown-functions serve|refuse\n"
	"                               isolated pods while the driver has functions that are not limited (serve)\n"
	"  --proc DIR                   where the host's processes are shown (/proc)\n"
	"  --policy 0..5                how computing power is divided on isolated nodes where neither\n"
	"                               the node's annotation ration.dev/policy nor the ConfigMap\n"
	"                               kube-system/ration-policy says it (5: not at all)\n"
	"  --unit UNIT                  in what gpu-mem counts where the ConfigMap kube-system/ration-policy\n"
	"                               does not say it: 1GiB, 512MiB, 256MiB or 128MiB (1GiB)\n"
	"  --uninstall NS/DAEMONSET     end all agents for good, take what they wrote out of the cluster,\n"
	"                               and end: the chart's pre-delete hook\n"
	"  --log-level LEVEL            error, warning, info or debug (info)\n"
	"  --version, --help\n";

static int option_set_address(
	struct listen_address *to, const char *option, const char *where, struct error *err)
{
	const char *colon = strrchr(where, ':');
	size_t len = colon ? (size_t)(colon - where) : 0;
	struct in_addr address;
	uint32_t port;

	to->text[0] = '\0';
	if (strcmp(where, "none") == 0)
		return 1;
	if (!len || len >= sizeof(to->text) || parse_u32(colon + 1, 65535, &port) < 0)
		return error_set(err, EINVAL, "%s %s: must be ADDRESS:PORT or none", option, where);
	memcpy(to->text, where, len);
	to->text[len] = '\0';
	if (inet_pton(AF_INET, to->text, &address) != 1)
		return error_set(err, EINVAL, "%s %s: %s is no IPv4 address", option, where, to->text);
	to->port = (uint16_t)port;
	return 1;
}

static int option_set_on_bypass(struct options *o, const char *what, struct error *err)
{
	if (strcmp(what, "report") != 0 && strcmp(what, "evict") != 0)
		return error_set(err, EINVAL, "--on-bypass %s: must be report or evict", what);
	o->on_bypass = strcmp(what, "evict") == 0 ? BYPASS_EVICT : BYPASS_REPORT;
	return 1;
}

static int option_set_unknown_functions(struct options *o, const char *what, struct error *err)
{
	if (strcmp(what, "serve") != 0 && strcmp(what, "refuse") != 0)
		return error_set(err, EINVAL, "--unknown-functions %s: must be serve or refuse", what);
	o->unknown_functions = strcmp(what, "refuse") == 0 ? UNKNOWN_REFUSE : UNKNOWN_SERVE;
	return 1;
}

/* Those that are taken as they are; NULL for the others. */
static const char **option_text(struct options *o, int option)
{
	switch (option) {
	case OPT_NODE_NAME:
		return &o->node_name;
	case OPT_DRIVER_ROOT:
		return &o->driver_root;
	case OPT_HOST_DRIVER_ROOT:
		return &o->host_driver_root;
	case OPT_PLUGIN_DIR:
		return &o->plugin_dir;
	case OPT_POD_RESOURCES:
		return &o->pod_resources_socket;
	case OPT_CRI:
		return &o->cri_socket;
	case OPT_CDI_DIR:
		return &o->cdi_dir;
	case OPT_CHECKPOINT:
		return &o->checkpoint;
	case OPT_STATE_DIR:
		return &o->state_dir;
	case OPT_SHIM_DIR:
		return &o->shim_dir;
	case OPT_PROC:
		return &o->proc;
	case OPT_UNINSTALL:
		return &o->uninstall;
	default:
		return NULL;
	}
}

static int option_set_kubeconfig(struct options *o, const char *path, struct error *err)
{
	struct stat st;

	o->kubeconfig = path;
	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
		return error_set(err, EINVAL,
			"--kubeconfig %s: a pipe can be read once, and every worker reads it: name a file",
			path);
	return 1;
}

static int option_set_policy(struct options *o, const char *policy, struct error *err)
{
	if (share_policy_parse(policy, &o->policy) < 0)
		return error_set(err, EINVAL, "--policy %s: must be one of 0, 1, 2, 3, 4, 5", policy);
	return 1;
}

static int option_set_unit(struct options *o, const char *unit, struct error *err)
{
	if (unit_parse(unit, &o->unit_mib) < 0)
		return error_set(err, EINVAL, "--unit %s: must be one of 1GiB, 512MiB, 256MiB, 128MiB", unit);
	return 1;
}

static int option_set_log_level(struct options *o, const char *level, struct error *err)
{
	if (log_level_parse(level, &o->log_level) < 0)
		return error_set(
			err, EINVAL, "--log-level %s: must be one of error, warning, info, debug", level);
	return 1;
}

static int option_set(struct options *o, int option, struct error *err)
{
	const char **text = option_text(o, option);

	if (text) {
		*text = optarg;
		return 1;
	}
	switch (option) {
	case OPT_ALLOW_DISABLE:
		o->allow_disable = true;
		return 1;
	case OPT_NO_FAULT_LISTS:
		o->no_fault_lists = true;
		return 1;
	case OPT_KUBECONFIG:
		return option_set_kubeconfig(o, optarg, err);
	case OPT_METRICS:
		return option_set_address(&o->metrics, "--metrics", optarg, err);
	case OPT_PROBES:
		return option_set_address(&o->probes, "--probes", optarg, err);
	case OPT_ON_BYPASS:
		return option_set_on_bypass(o, optarg, err);
	case OPT_UNKNOWN_FUNCTIONS:
		return option_set_unknown_functions(o, optarg, err);
	case OPT_POLICY:
		return option_set_policy(o, optarg, err);
	case OPT_UNIT:
		return option_set_unit(o, optarg, err);
	case OPT_LOG_LEVEL:
		return option_set_log_level(o, optarg, err);
	case OPT_VERSION:
		puts("ration-agent " RATION_VERSION);
		return 0;
	case 'h':
		fputs(HELP, stdout);
		return 0;
	default:
		return error_set(err, EINVAL, "see ration-agent --help");
	}
}

int options_parse(int argc, char **argv, struct options *ret_options, struct error *err)
{
	struct options o = {
		.node_name = getenv("NODE_NAME"),
		.driver_root = "/",
		.plugin_dir = "/var/lib/kubelet/device-plugins",
		.pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock",
		.cri_socket = "/run/containerd/containerd.sock",
		.cdi_dir = "/var/run/cdi",
		.state_dir = "/run/ration",
		.proc = "/proc",
		.shim_dir = SHIM_DIR,
		.metrics = {"127.0.0.1", 39996},
		.unit_mib = UNIT_MIB_DEFAULT,
		.policy = SHARE_NATIVE,
		.log_level = LOG_LEVEL_INFO,
	};
	int option, r;

	while ((option = getopt_long(argc, argv, "h", LONG_OPTIONS, NULL)) != -1) {
		r = option_set(&o, option, err);
		if (r <= 0)
			return r;
	}
	if (optind < argc)
		return error_set(
			err, EINVAL, "unexpected argument %s: see ration-agent --help", argv[optind]);
	if (!o.uninstall && (!o.node_name || !o.node_name[0]))
		return error_set(err, EINVAL, "--node-name (or $NODE_NAME) is missing");
	if (!o.host_driver_root)
		o.host_driver_root = o.driver_root;
	*ret_options = o;
	return 1;
}
