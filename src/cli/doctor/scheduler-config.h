/* scheduler-config.h - what gives the ledger to the cluster's own kube-scheduler. */
#pragma once

#include <stddef.h>

struct error;
struct strbuf;

#define SCHEDULER_ARGS_MAX 16

/* The container with ration-scheduler. */
struct scheduler_container {
	const char *image;
	char *const *args; /* more options of it */
	size_t n_args;	   /* at most SCHEDULER_ARGS_MAX */
};

/* scheduler_config() - the KubeSchedulerConfiguration: the profiles default-scheduler and ack-co-scheduler,
 * and the extender as the chart ack-co-scheduler has it. */
int scheduler_config(struct strbuf *out);

/* scheduler_config_kubeadm() - a script for a control plane node that kubeadm made: writes that file and
 * kubeadm's patches of the static pod, with this container in it, and has kubeadm make the pod anew. -EINVAL
 * with a sentence if the texts can be no image or no options. */
int scheduler_config_kubeadm(
	const struct scheduler_container *container, struct strbuf *out, struct error *err);
