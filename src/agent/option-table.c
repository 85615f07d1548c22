/* option-table.c - only data: docs/options/dump.c compiles it too. */
#include "agent/options.h"

#include "kube/names.h"

#define TO(kind, member) OPTION_TO(kind, struct options, member)

static const struct option_choice on_bypass[] = {{"report", BYPASS_REPORT}, {"evict", BYPASS_EVICT}, {0}};
static const struct option_choice unknown_functions[] = {
	{"serve", UNKNOWN_SERVE}, {"refuse", UNKNOWN_REFUSE}, {0}};
static const struct option_choice privileged_claims[] = {
	{"refuse", PRIVILEGED_CLAIMS_REFUSE}, {"prepare", PRIVILEGED_CLAIMS_PREPARE}, {0}};
static const struct option_choice policies[] = {{"0", SHARE_FAIR}, {"1", SHARE_PREEMPTIVE},
	{"2", SHARE_WEIGHT}, {"3", SHARE_FIXED}, {"4", SHARE_SOFT}, {"5", SHARE_NATIVE}, {0}};
static const struct option_choice units[] = {
	{"1GiB", 1024}, {"512MiB", 512}, {"256MiB", 256}, {"128MiB", 128}, {0}};
static const struct option_choice log_levels[] = {{"error", LOG_LEVEL_ERROR}, {"warning", LOG_LEVEL_WARNING},
	{"info", LOG_LEVEL_INFO}, {"debug", LOG_LEVEL_DEBUG}, {0}};

static const struct option_row rows[] = {
	{"node-name", 0, "NAME", TO(TEXT, node_name),
		.help = "this node's name in the API server; default: $NODE_NAME"},
	{"driver-root", 0, "DIR", TO(TEXT, driver_root), .standard = "/", .source = COMPLETE_FOLDERS,
		.help = "the directory in which the NVIDIA driver is installed, as the agent sees it"},
	{"host-driver-root", 0, "DIR", TO(TEXT, host_driver_root), .source = COMPLETE_FOLDERS,
		.help = "the same directory as the container runtime sees it; default: the driver root"},
	{"kubelet-dir", 0, "DIR", TO(TEXT, kubelet_dir), .standard = "/var/lib/kubelet",
		.source = COMPLETE_FOLDERS,
		.help = "the kubelet's directory; in the mode dra the agent has sockets in its plugins and plugins_registry"},
	{"plugin-dir", 0, "DIR", TO(TEXT, plugin_dir), .standard = "/var/lib/kubelet/device-plugins",
		.source = COMPLETE_FOLDERS, .help = "the kubelet's directory of device plugins"},
	{"pod-resources-socket", 0, "PATH", TO(TEXT, pod_resources_socket),
		.standard = "/var/lib/kubelet/pod-resources/kubelet.sock", .source = COMPLETE_FILES,
		.help = "the socket of the kubelet's PodResources service"},
	{"cri-socket", 0, "PATH", TO(TEXT, cri_socket), .standard = "/run/containerd/containerd.sock",
		.source = COMPLETE_FILES, .help = "the socket of the container runtime"},
	{"cdi-dir", 0, "DIR", TO(TEXT, cdi_dir), .standard = "/var/run/cdi", .source = COMPLETE_FOLDERS,
		.help = "the directory in which the container runtime reads CDI files"},
	{"checkpoint", 0, "PATH", TO(TEXT, checkpoint), .source = COMPLETE_FILES,
		.help = "the kubelet's record of the devices that it gave; default: kubelet_internal_checkpoint in the plugin directory"},
	{"state-dir", 0, "DIR", TO(TEXT, state_dir), .standard = "/run/ration", .source = COMPLETE_FOLDERS,
		.help = "the directory for the grants (limits) of containers on cgpu and core_mem nodes, and for what the agent must know after its restart"},
	{"shim-dir", 0, "DIR", TO(TEXT, shim_dir), .standard = SHIM_DIR, .source = COMPLETE_FOLDERS,
		.help = "the directory with the libraries that containers on cgpu and core_mem nodes get in place of the driver's"},
	{"allow-disable", 0, NULL, TO(FLAG, allow_disable),
		.help = "let containers set CGPU_DISABLE=true, with which they have no limit"},
	{"no-fault-lists", 0, NULL, TO(FLAG, no_fault_lists),
		.help = "do not read the ConfigMaps in " NAMESPACE_SYSTEM
			" that declare GPUs faulty (NODE-device-status, unhealthy-gpu-NODE)"},
	{"kubeconfig", 0, "FILE", TO(TEXT, kubeconfig), .source = COMPLETE_FILES,
		.help = "how to reach the API server; default: $KUBECONFIG, then the pod's service account, then ~/.kube/config"},
	{"metrics", 0, "ADDRESS:PORT", TO(ADDRESS, metrics), .max = 1, .standard = "127.0.0.1:39996",
		.help = "the address on which to serve /metrics for Prometheus; none: do not serve it"},
	{"probes", 0, "ADDRESS:PORT", TO(ADDRESS, probes), .max = 1, .standard = "none",
		.help = "the address on which to serve /healthz and /readyz for the kubelet; none: do not serve them"},
	{"on-bypass", 0, "report|evict", TO(CHOICE, on_bypass), .choices = on_bypass, .standard = "report",
		.help = "what to do about a pod that uses a GPU past its limit: report it by an Event, or also evict it"},
	{"privileged-claims", 0, "refuse|prepare", TO(CHOICE, privileged_claims),
		.choices = privileged_claims, .standard = "refuse",
		.help = "what to do in the mode dra about the claim of a pod that it would not limit, because the pod is privileged or mounts what belongs to the node: refuse it, or prepare it"},
	{"unknown-functions", 0, "serve|refuse", TO(CHOICE, unknown_functions), .choices = unknown_functions,
		.standard = "serve",
		.help = "whether a cgpu or core_mem node takes pods (serve) or not (refuse) if its driver has functions that this version does not limit"},
	{"proc", 0, "DIR", TO(TEXT, proc), .standard = "/proc", .source = COMPLETE_FOLDERS,
		.help = "the proc file system that shows the processes of the host"},
	{"policy", 0, "0..5", TO(CHOICE, policy), .choices = policies, .standard = "5",
		.help = "how the computing power of a GPU is divided on cgpu and core_mem nodes, if neither the node's annotation " ANNOTATION_NODE_POLICY
			" nor the ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_POLICY
			" sets it: 0 fair-share, 1 preemptive, 2 weight-preemptive, 3 fixed, 4 soft, 5 native (only containers with a percentage are limited)"},
	{"unit", 0, "UNIT", TO(CHOICE, unit_mib), .choices = units, .standard = "1GiB",
		.help = "the unit of " RESOURCE_GPU_MEM ", if the ConfigMap " NAMESPACE_SYSTEM
			"/" CONFIG_MAP_POLICY " does not set it: 1GiB, 512MiB, 256MiB or 128MiB"},
	{"uninstall", 0, "NAMESPACE/DAEMONSET", TO(TEXT, uninstall),
		.help = "delete this DaemonSet, remove from the cluster what its agents wrote, and exit; the chart's pre-delete hook uses it"},
	{"log-level", 0, "LEVEL", TO(CHOICE, log_level), .choices = log_levels, .standard = "info",
		.help = "log messages of this level and above: error, warning, info or debug"},
};

static const struct option_variable variables[] = {
	{"NODE_NAME", "the node's name, if --node-name is not given"},
	{"KUBECONFIG", "the kubeconfig, if --kubeconfig is not given"},
};

const struct option_table agent_option_table = {.program = "ration-agent",
	.usage = "--node-name NAME [OPTION]...",
	.summary =
		"The device plugin of a GPU node: reports the GPUs of this node to the kubelet as " RESOURCE_GPU_MEM
		" or another resource of the node's mode, and prepares for each container its devices, libraries and limits.",
	OPTION_ROWS(rows),
	OPTION_VARIABLES(variables),
	.version = "ration-agent"};
