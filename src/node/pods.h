/* pods.h - the pods of this node as the API server shows them: by the watch, and by a GET when the kubelet is
 * faster than the watch. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/table.h"
#include "model/facts.h"

struct power_facts;

/* What the spec of a container says about its GPU besides the request. */
struct container_spec {
	char *name, *image;
	/* NVIDIA_DRIVER_CAPABILITIES from the spec, else from the image. NULL: neither sets it, or the image
	 * is unknown. */
	char *capabilities;
	bool capabilities_by_spec;
	/* CGPU_DISABLE is set by value (contract, section 3). The cluster may not allow it. */
	bool asks_for_no_limit;
};

/* A container of the pod uses this ResourceClaim (of any driver); both are names. */
struct pod_claim {
	char *claim, *container;
};

/* What the Pod object shows besides struct pod_facts; replaced as a whole each time the object is read. */
struct pod_shown {
	bool may_return;      /* another pod can get its name later */
	bool is_static;	      /* from a file or URL of the node, shown by a mirror pod */
	struct error problem; /* why it has no placement; "" if it needs none or has a valid one */
	bool is_impossible;   /* `problem` is in the request: no scheduler could place the pod */
	char *owner;	      /* its controller, as "Deployment/web"; NULL if no controller owns it */
	struct container_spec *containers; /* init containers, too */
	size_t n_containers;
	struct pod_claim *claims; /* as far as they exist: those of a template come later */
	size_t n_claims;
	/* It names claims, and has rights with which their limit would not hold: the sentence. "": it has
	 * not. */
	struct error rights;
	struct power_facts *power; /* see below */
	size_t n_power;
	uint64_t runs; /* bit i: request.containers[i] runs, by its status */
	uint64_t idle; /* bit i: it has a status, by which it does not run */
};

struct node_pod {
	struct pod_facts facts;
	struct pod_shown shown;
	bool watched;	  /* the watch has shown it and will tell its end */
	int64_t asked_ns; /* when a GET showed it, if the watch has not */
	/* Its annotation must say that its devices are given; a write of that is under way. */
	struct {
		bool wanted, busy;
	} assign;
	/* By placement.resizes: the size that its limits have; the size that exceeded its GPU. */
	struct {
		uint32_t applied, refused;
	} size;
	/* Events that were posted about it, once each. */
	struct {
		bool refusal; /* why its containers do not start */
		bool wait;    /* the orphan that it waits for (room.h) */
		bool gpu;     /* the GPU of its placement that the node does not have */
		bool rights;  /* shown.rights */
		bool weight;  /* its weight is invalid */
	} reported;
};

struct node_pods {
	struct table by_uid;
	struct table by_name; /* "namespace/name" -> the latest pod of that name */
	/* Paths of the node that pods with claims may not mount, besides those that are the same on each
	 * node; up to a NULL. NULL: none. */
	const char *const *host_paths;
};

void node_pods_init(struct node_pods *pods);
void node_pods_release(struct node_pods *pods);

/* node_pods_put() - the pod exists and looks like this. The content of `facts` is moved. NULL (-ENOMEM): it
 * stays with the caller. Pointers to pods are valid until node_pods_remove(). */
struct node_pod *node_pods_put(struct node_pods *pods, struct pod_facts *facts);
void node_pods_remove(struct node_pods *pods, const char *uid);

/* node_pods_asked() - a GET by name has shown this pod: it now has that name, whatever an older event of the
 * watch says. */
void node_pods_asked(struct node_pods *pods, struct node_pod *pod, int64_t now_ns);

/* node_pod_container() - NULL for a container that its spec does not have. */
struct container_spec *node_pod_container(const struct node_pod *pod, const char *name);

/* node_pod_asks_for_no_limit() - asks_for_no_limit of this container. */
bool node_pod_asks_for_no_limit(const struct node_pod *pod, const char *container);

/* pod_shown_release() - leaves it empty. */
void pod_shown_release(struct pod_shown *shown);

struct node_pod *node_pods_by_uid(const struct node_pods *pods, const char *uid);
struct node_pod *node_pods_by_name(const struct node_pods *pods, const char *namespace_, const char *name);

/* node_pod_is_idle() - this container of the pod has a status by which it does not run. */
bool node_pod_is_idle(const struct node_pod *pod, const char *container);

/* node_pods_stray() - a pod that only a GET has shown, more than 10 s ago; NULL if the registry has no such
 * pod. While the watch is open, that time is long enough: the pod's end was told before the agent knew the
 * pod, or the pod is on another node. */
struct node_pod *node_pods_stray(const struct node_pods *pods, int64_t now_ns);

/* Facts about the computing power of a pod's containers besides their percentages: the
 * variable ALIYUN_COM_GPU_SCHD_WEIGHT, and which containers have ended. Only containers with such a fact have
 * an entry. */
struct request;

struct power_facts {
	char *container;
	uint32_t weight;     /* 0: none */
	bool weight_refused; /* it has the variable, but its value is not a weight */
	bool ended;
};

void power_facts_free(struct power_facts *list, size_t n); /* accepts NULL */

/* power_facts_find() - NULL if the container has no entry. */
const struct power_facts *power_facts_find(const struct power_facts *list, size_t n, const char *container);

/* power_facts_counts() - whether this container of the pod may run now. Init containers run one after the
 * other, and the main containers run when all of those have ended. */
bool power_facts_counts(
	const struct power_facts *list, size_t n, const struct request *request, const char *container);
