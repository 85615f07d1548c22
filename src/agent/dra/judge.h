/* judge.h - whether the pods that a claim is reserved for have rights with which the claim's limit would not
 * hold (kube/pod-rights.h). */
#pragma once

#include <stddef.h>

#include "agent/dra/deps.h"

struct claim;
struct error;
struct kube_request;

struct judge {
	const struct dra_deps *deps;
	void (*fn)(void *userdata, int r);
	void *userdata;
	const struct claim *claim;
	struct error *err;
	size_t next; /* the pod whose turn it is */
	struct kube_request *get;
};

/* judge_start() - calls judge->fn once, maybe from within: with 0, or with -EPERM or another errno and a
 * sentence in *err. Pods that the agent has not seen yet are read from the API server, since the kubelet can
 * be faster than the watch. deps, fn and userdata are set by the caller; claim and err must live until then.
 * A claim that the kubelet has prepared is not judged again: a refusal would end containers that have it. */
void judge_start(struct judge *judge, const struct claim *claim, struct error *err);
void judge_cancel(struct judge *judge);
