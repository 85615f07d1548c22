#include "cli/doctor/scheduler-config.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "kube/names.h"

#define TEXT_MAX 300
#define FOLDER "/etc/kubernetes/ration"
#define PATCHES "/etc/kubernetes/patches"

/* The extender is the chart's; tests/component/test_doctor_config.py compares them. */
static const char config[] =
	"# The cluster's own kube-scheduler, with a ration-scheduler beside it (printed by ration doctor).\n"
	"apiVersion: kubescheduler.config.k8s.io/v1\n"
	"kind: KubeSchedulerConfiguration\n"
	"clientConnection:\n"
	"  kubeconfig: /etc/kubernetes/scheduler.conf\n"
	"leaderElection:\n"
	"  leaderElect: true\n"
	"# A sample of nodes would make a pod unschedulable although another node has a GPU for it.\n"
	"percentageOfNodesToScore: 100\n"
	"# A pod that is requeued because a GPU is free waits this long before it is tried again.\n"
	"podInitialBackoffSeconds: 1\n"
	"podMaxBackoffSeconds: 1\n"
	"profiles:\n"
	"- schedulerName: " DEFAULT_SCHEDULER_NAME "\n"
	"- schedulerName: " SCHEDULER_NAME "\n"
	"extenders:\n"
	"- urlPrefix: http://127.0.0.1:" SCHEDULER_PORT "\n"
	"  filterVerb: filter\n"
	"  prioritizeVerb: prioritize\n"
	"  preemptVerb: preempt\n"
	"  bindVerb: bind\n"
	"  # One step of our score outweighs all in-tree scores together: our order decides.\n"
	"  weight: 150\n"
	"  nodeCacheCapable: true\n"
	"  # The extender is called only for pods with these resources; without its answer such a pod would have no GPU.\n"
	"  ignorable: false\n"
	"  httpTimeout: 10s\n"
	"  managedResources:\n"
	"  - {name: " RESOURCE_GPU_MEM ", ignoredByScheduler: false}\n"
	"  - {name: " RESOURCE_GPU_CORE ", ignoredByScheduler: false}\n"
	"  - {name: " RESOURCE_GPU ", ignoredByScheduler: false}\n"
	"  - {name: " RESOURCE_GPU_COUNT ", ignoredByScheduler: false} # no container can ask for it\n";

int scheduler_config(struct strbuf *out)
{
	return strbuf_adds(out, config);
}

static const char before_config[] =
	"#!/bin/sh\n"
	"# Gives the GPU ledger to the kube-scheduler of this control plane node (kubeadm 1.25 or later). Run it\n"
	"# as root on each of them, after\n"
	"#   helm upgrade --install ack-ai-installer deploy/charts/ack-ai-installer -n " NAMESPACE_SYSTEM
	" \\\n"
	"#     --set global.imageRegistry=REGISTRY,scheduler.defaultScheduler=true\n"
	"# Later upgrades keep it with: kubeadm upgrade apply|node --patches " PATCHES "\n"
	"set -eu\n"
	"mkdir -p " FOLDER " " PATCHES "\n"
	"cat >" FOLDER "/scheduler.yaml <<'END'\n";

/* kubeadm's flags stay in force. With --config, only --kubeconfig is ignored (kube-scheduler 1.36.3,
 * app/options/options.go); the file names the kubeconfig instead. */
static const char before_image[] = "END\n"
				   "cat >" PATCHES "/kube-scheduler0+json.yaml <<'END'\n"
				   "- {op: add, path: /spec/containers/0/command/-, value: --config=" FOLDER
				   "/scheduler.yaml}\n"
				   "END\n"
				   "cat >" PATCHES "/kube-scheduler1+strategic.yaml <<'END'\n"
				   "spec:\n"
				   "  containers:\n"
				   "  - name: kube-scheduler\n"
				   "    volumeMounts:\n"
				   "    - {name: ration, mountPath: " FOLDER ", readOnly: true}\n"
				   "  - name: ration-scheduler\n";

static const char after_image[] =
	"    imagePullPolicy: IfNotPresent\n"
	"    command: [ration-scheduler]\n"
	"    args:\n"
	"    - --kubeconfig=/etc/kubernetes/scheduler.conf\n"
	"    - --scheduler-lease=" NAMESPACE_SYSTEM "/" LEASE_KUBE_SCHEDULER "\n"
	"    # It listens on the node's loopback only: a program that reaches it can bind pods.\n"
	"    - --probes=127.0.0.1:39998\n";

static const char after_args[] =
	"    livenessProbe:\n"
	"      httpGet: {host: 127.0.0.1, path: /healthz, port: 39998}\n"
	"      periodSeconds: 5\n"
	"      failureThreshold: 3\n"
	"    startupProbe:\n"
	"      httpGet: {host: 127.0.0.1, path: /healthz, port: 39998}\n"
	"      periodSeconds: 1\n"
	"      failureThreshold: 60\n"
	"    resources:\n"
	"      requests: {cpu: 50m, memory: 64Mi}\n"
	"      limits: {memory: 512Mi}\n"
	"    securityContext:\n"
	"      allowPrivilegeEscalation: false\n"
	"      readOnlyRootFilesystem: true\n"
	"      capabilities: {drop: [ALL]}\n"
	"    volumeMounts:\n"
	"    - {name: kubeconfig, mountPath: /etc/kubernetes/scheduler.conf, readOnly: true}\n"
	"  volumes:\n"
	"  - {name: ration, hostPath: {path: " FOLDER ", type: Directory}}\n"
	"END\n"
	"# The cluster's own settings, so that nothing else of the pod changes.\n"
	"kubectl --kubeconfig=/etc/kubernetes/admin.conf -n " NAMESPACE_SYSTEM
	" get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' >" FOLDER "/kubeadm.yaml\n"
	"# kubeadm takes no --patches beside --config; the version of its file is that of the cluster's.\n"
	"cat >>" FOLDER "/kubeadm.yaml <<END\n"
	"\n---\n"
	"apiVersion: $(sed -n 's/^apiVersion: *//p' " FOLDER "/kubeadm.yaml)\n"
	"kind: InitConfiguration\n"
	"patches: {directory: " PATCHES "}\n"
	"END\n"
	"kubeadm init phase control-plane scheduler --config " FOLDER "/kubeadm.yaml\n"
	"echo 'See it work: kubectl -n " NAMESPACE_SYSTEM " get lease " LEASE_LEDGER " && ration doctor'\n";

/* The text has no character that is special in a shell or in YAML. */
static bool is_plain(const char *text, const char *more)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:_-";
	size_t len = strlen(text);

	for (const char *p = text; *p; p++)
		if (!strchr(letters, *p) && !strchr(more, *p))
			return false;
	return len && len <= TEXT_MAX;
}

int scheduler_config_kubeadm(
	const struct scheduler_container *container, struct strbuf *out, struct error *err)
{
	if (!container->image)
		return error_set(err, EINVAL,
			"--kubeadm needs --image: ration-scheduler's image in a registry that the control plane nodes reach, e.g. --image=registry.example.com/ration-scheduler:" RATION_VERSION);
	if (!is_plain(container->image, "@") || *container->image == '-')
		return error_set(err, EINVAL, "--image is not the name of an image");
	strbuf_adds(out, before_config);
	strbuf_adds(out, config);
	strbuf_adds(out, before_image);
	strbuf_addf(out, "    image: \"%s\"\n", container->image);
	strbuf_adds(out, after_image);
	for (size_t i = 0; i < container->n_args; i++) {
		if (strncmp(container->args[i], "--", 2) != 0 || !is_plain(container->args[i], "="))
			return error_set(err, EINVAL, "--arg is not an option of ration-scheduler");
		strbuf_addf(out, "    - \"%s\"\n", container->args[i]);
	}
	strbuf_adds(out, after_args);
	return out->failed ? error_set(err, -out->failed, "out of memory") : 0;
}
