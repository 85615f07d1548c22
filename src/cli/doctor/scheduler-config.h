/* scheduler-config.h - the configuration with which the cluster's own kube-scheduler owns the ledger. */
#pragma once

#include <stddef.h>

struct error;
struct strbuf;

#define SCHEDULER_ARGS_MAX 16

/* The container with ration-scheduler. */
struct scheduler_container {
	const char *image;
	char *const *args; /* more options of ration-scheduler */
	size_t n_args;	   /* at most SCHEDULER_ARGS_MAX */
};

/* scheduler_config() - the KubeSchedulerConfiguration: the profiles default-scheduler and ack-co-scheduler,
 * and the extender as the chart ack-co-scheduler has it. */
int scheduler_config(struct strbuf *out);

/* scheduler_config_kubeadm() - a shell script for a control plane node of kubeadm. The script writes that
 * file and kubeadm's patches of the static pod, with this container in it, and lets kubeadm create the pod
 * again. -EINVAL with a sentence if a text is not an image or an option. */
int scheduler_config_kubeadm(
	const struct scheduler_container *container, struct strbuf *out, struct error *err);
