/* claims.h - the ResourceClaims that are prepared on this node. One claim has one grant, which all containers
 * that use the claim share: the kubelet fixes what they get when it prepares the claim, before it is known
 * which containers these are. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "model/claim.h"
#include "model/shares.h"
#include "node/pods.h"

struct node_registry;

/* One allocated device, as the kubelet is answered. Several may be the same GPU. */
struct claim_device {
	char request[CLAIM_REQUEST_SIZE]; /* without a subrequest */
	char pool[CLAIM_NAME_SIZE], device[CLAIM_LABEL_SIZE], share_id[CLAIM_UID_SIZE];
	char uuid[GPU_UUID_SIZE];
	uint32_t mib, core; /* core 0: the computing power is not limited */
};

/* A container that uses the claim. Of a claim that is used by one pod after the other, those of pods that are
 * gone are forgotten when there are more than this. */
#define CLAIM_USERS_MAX 1024
struct claim_user {
	char pod_uid[CLAIM_UID_SIZE];
	char *container;
};

/* Prepared claims of one GPU and of the node. The agent keeps two files open for each, and compares each with
 * the others. By memory alone, 141 GiB in units of 128 MiB would be 1,128 claims. */
#define CLAIMS_PER_GPU_MAX 256
#define CLAIMS_PER_NODE_MAX 1024

struct node_claim {
	char uid[CLAIM_UID_SIZE], namespace_[CLAIM_LABEL_SIZE], name[CLAIM_NAME_SIZE];
	struct claim_device *devices; /* none: the record of an earlier agent was not readable */
	size_t n_devices;
	struct claim_user *users; /* also those of pods that are gone from the API server since */
	size_t n_users;
	uint32_t weight; /* 0: not set */
	/* The DeviceClass allows containers to ask for no limit (CGPU_DISABLE). All containers that were
	 * known when the claim was prepared have asked for it, so that the claim has no limit: there is no
	 * grant. */
	bool may_disable, unlimited;
	/* What the parts see that serve pods: a pod of one container, placed in units of 1 MiB. Its uid is
	 * the claim's. */
	struct node_pod stand_in;
	int64_t released_ns; /* when the kubelet has unprepared it; 0: it is prepared. It stays until none of
			      * its containers runs. */
	bool lingers;	     /* containers ran after that */
	bool saved;	     /* the record has all of this */
	bool confirmed;	     /* the API server has shown this allocation since it was doubtful: gone.h */
	int64_t look_ns;     /* the agent does not look before then whether the claim is over; 0: no wait */
};

/* node_claim_new() - NULL: out of memory. node_claim_add() - adds a device, before node_claim_complete(),
 * which makes the stand-in. -ENOMEM. */
struct node_claim *node_claim_new(const char *uid, const char *namespace_, const char *name);
void node_claim_free(struct node_claim *claim); /* accepts NULL */
int node_claim_add(struct node_claim *claim, const struct claim_device *device);
int node_claim_complete(struct node_claim *claim);

/* node_claim_use() - this container uses the claim; nothing twice. -ENOMEM, -E2BIG. */
int node_claim_use(struct node_claim *claim, const char *pod_uid, const char *container);

/* node_claim_decide() - what the allocation gives on this node, or -EINVAL with a sentence for the pod's
 * Event: no device of ration's, another pool, a GPU that is gone or unhealthy, more than the GPU has,
 * parameters that cannot be met. policy: in force on the node. -ENOMEM. */
int node_claim_decide(const struct node_registry *node, const struct claim *claim, enum share_policy policy,
	struct node_claim **ret_claim, struct error *err);

/* node_claim_settle() - sets `unlimited`, by the users that are known; for a claim with may_disable, in a
 * cluster that allows it. */
void node_claim_settle(const struct node_registry *node, struct node_claim *claim);

/* node_claim_fits() - the last check. -EAGAIN with a sentence: by the claims that are prepared already, a GPU
 * would be over its total, or GPU or node have as many as they can. -EBUSY with a sentence: a container would
 * have two claims, and it can have only one grant. */
int node_claim_fits(const struct node_registry *node, const struct node_claim *claim, struct error *err);

/* node_claim_holds() - the claim still has the devices that `known` has, whatever its parameters and the
 * health of the GPUs are by now. */
bool node_claim_holds(const struct node_claim *known, const struct claim *claim);

/* node_claim_check_pod() - -EPERM with a sentence for Events: the claim would not limit this pod. */
int node_claim_check_pod(const struct claim *claim, const char *pod, const char *rights, struct error *err);

/* node_claim_same() - the same devices, with the same amounts. */
bool node_claim_same(const struct node_claim *a, const struct node_claim *b);

/* ---- the claims of the node ---- */

struct node_claim *node_claims_by_uid(const struct node_registry *node, const char *uid);

/* node_claims_mib() - what prepared claims have of this GPU together. */
uint64_t node_claims_mib(const struct node_registry *node, const char *uuid);

/* node_claims_put() - takes the claim over, in place of one with the same uid. -ENOMEM: it stays with the
 * caller. */
int node_claims_put(struct node_registry *node, struct node_claim *claim);
void node_claims_remove(struct node_registry *node, const char *uid);

/* node_claim_has_name_of() - both have the same namespace and name; of two claims that were prepared one was
 * deleted while containers ran with it. node_claim_drop_users_of() - pods for which the later claim of its
 * name is reserved do not use this one. */
static inline bool node_claim_has_name_of(const struct node_claim *a, const struct node_claim *b)
{
	return strcmp(a->namespace_, b->namespace_) == 0 && strcmp(a->name, b->name) == 0;
}
void node_claim_drop_users_of(struct node_claim *claim, const struct claim *reserved);

/* node_claims_follow() - the pod is known, or known anew: its containers become users of the prepared claims
 * that it names. node_claims_meet() - the same for all pods and one claim. */
void node_claims_follow(struct node_registry *node, const struct node_pod *pod);
void node_claims_meet(const struct node_registry *node, struct node_claim *claim);

/* node_claims_of() - the claim that this container uses; container NULL: the only one that the pod uses. NULL
 * if the registry has no such claim. */
struct node_claim *node_claims_of(
	const struct node_registry *node, const char *pod_uid, const char *container);

/* node_claims_served() - the pod with this uid, or the stand-in of the claim with this uid; NULL. */
struct node_pod *node_claims_served(const struct node_registry *node, const char *uid);

/* node_claims_reader() - the pod whose Events report on the grant of this uid: the pod itself, or one
 * that uses the claim; NULL if none is known. */
const struct node_pod *node_claims_reader(const struct node_registry *node, const char *uid);

/* node_claims_describe() - what has the grant of this uid, for messages: "ResourceClaim slice", or "container
 * main". */
#define NODE_CLAIM_TEXT_SIZE 120
void node_claims_describe(const struct node_registry *node, const char *uid, const char *container,
	char buf[static NODE_CLAIM_TEXT_SIZE]);

/* node_claims_unlimited() - a pod that uses a prepared claim, has rights past its limit, and has not been
 * reported; NULL if no pod is like this. *ret_claim: the claim. */
struct node_pod *node_claims_unlimited(const struct node_registry *node, const struct node_claim **ret_claim);

/* node_claims_pending() - pods with claims of which no container has started. Theirs may be of ration's
 * driver and not prepared yet. */
size_t node_claims_pending(const struct node_registry *node);
