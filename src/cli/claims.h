/* claims.h - which ResourceClaim holds how much of which GPU, from ResourceSlices and ResourceClaims. Pure,
 * except for claims_fetch().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "model/claim.h"
#include "model/device-slice.h"

/* A device of a slice that counts. */
struct claims_device {
	const struct device_slice *slice;
	const struct slice_device *device;
	uint64_t memory, cores; /* of all shares together */
	size_t n_shares;	/* without those with admin access */
};

/* One device that is allocated to a claim. */
struct claims_share {
	const struct claim *claim;
	const struct claim_result *result;
	struct claims_device *device; /* NULL: no slice that counts has this device */
};

struct claims {
	struct device_slice *slices; /* of ration's driver */
	size_t n_slices;
	struct claim *claims; /* to which devices of ration are allocated */
	size_t n_claims;
	/* After claims_finish(): */
	struct claims_device *devices; /* by pool, then as the slices list them */
	size_t n_devices;
	struct claims_share *shares; /* in the order of the claims */
	size_t n_shares;
	struct table by_name; /* "pool/device" -> struct claims_device */
};

void claims_init(struct claims *claims);
void claims_release(struct claims *claims); /* accepts NULL */
#define _cleanup_claims_ _cleanup_(claims_release)

/* claims_take_slice(), claims_take_claim() - take over the content, and leave an empty struct. Slices of
 * other drivers, and claims without a device of ration, are released. -ENOMEM. */
int claims_take_slice(struct claims *claims, struct device_slice *slice);
int claims_take_claim(struct claims *claims, struct claim *claim);

/* claims_finish() - of each pool, only the slices of its highest generation count, as in kube-scheduler. Call
 * it once, after everything was added. -ENOMEM. */
int claims_finish(struct claims *claims);

/* claims_pool_is_complete() - all slices of the pool's generation are there. kube-scheduler allocates nothing
 * from a pool that is not complete. */
bool claims_pool_is_complete(const struct claims *claims, const char *pool);

/* claims_memory_left(), claims_cores_left() - bytes and percent that are not allocated; 0 also where more is
 * allocated than the device has. */
uint64_t claims_memory_left(const struct claims_device *device);
uint64_t claims_cores_left(const struct claims_device *device);

/* claims_node() - the node that has the share: the node of its slice, else the name of its pool, which is the
 * name of a node for this driver. */
const char *claims_node(const struct claims_share *share);

struct error;
struct kubectl;
struct warnings;

/* claims_fetch() - all slices of ration's driver, or those of one node, and the claims of all namespaces;
 * then claims_finish(). Malformed objects are left out, with a warning. */
int claims_fetch(struct claims *claims, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);
