/* device-slice.h - a ResourceSlice (resource.k8s.io/v1) of ration's driver: the GPUs that a node offers to
 * ResourceClaims. kube/device-slice.h reads it from JSON. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/claim.h"
#include "model/placement.h"

/* The API server has the same limits (resource/v1 types.go of Kubernetes 1.36). */
#define SLICE_DEVICES_MAX 128
#define SLICE_TAINTS_MAX 16
#define SLICE_ATTRIBUTES_MAX 32

#define ATTRIBUTE_NAME_SIZE 98 /* "domain/identifier" */
#define ATTRIBUTE_TEXT_SIZE 65 /* characters, and the NUL */
#define TAINT_KEY_SIZE 318     /* a label's name */
#define TAINT_VALUE_SIZE 64    /* a label's value */

enum attribute_kind { ATTRIBUTE_TEXT, ATTRIBUTE_VERSION, ATTRIBUTE_NUMBER, ATTRIBUTE_BOOL };

struct device_attribute {
	char name[ATTRIBUTE_NAME_SIZE];
	enum attribute_kind kind;
	char text[ATTRIBUTE_TEXT_SIZE]; /* a text or a version */
	int64_t number;			/* a number; 0 or 1 for a bool */
};

enum taint_effect { TAINT_NONE, TAINT_NO_SCHEDULE, TAINT_NO_EXECUTE };

struct device_taint {
	char key[TAINT_KEY_SIZE];
	char value[TAINT_VALUE_SIZE];
	enum taint_effect effect;
};

/* How much of something the device has, and how much of it a request consumes (its requestPolicy). */
struct device_capacity {
	bool present;
	uint64_t value;
	bool has_default;
	uint64_t by_default; /* what a request without this capacity consumes; without a default, it consumes
				everything */
	uint64_t min, max, step; /* of a request; 0: not set */
};

struct slice_device {
	char name[CLAIM_LABEL_SIZE];
	bool shared; /* allowMultipleAllocations */
	struct device_capacity memory, cores;
	struct device_attribute *attributes;
	size_t n_attributes;
	struct device_taint *taints;
	size_t n_taints;
};

struct device_slice {
	char name[CLAIM_NAME_SIZE]; /* of the object */
	char driver[CLAIM_LABEL_SIZE];
	char pool[CLAIM_NAME_SIZE];
	char node[CLAIM_NAME_SIZE]; /* "" if the slice is not of one node */
	int64_t generation;	    /* of the pool; slices of older generations do not count */
	int64_t pool_slices;	    /* how many slices the pool has in this generation */
	struct slice_device *devices;
	size_t n_devices;
};

void device_slice_init(struct device_slice *slice);
void device_slice_release(struct device_slice *slice); /* accepts NULL */
#define _cleanup_device_slice_ _cleanup_(device_slice_release)

/* device_attribute_find() - the attribute with this identifier of this domain. In the slice, the name of an
 * attribute of the driver's own domain may be without the domain. NULL if the device has no such attribute.
 */
const struct device_attribute *device_attribute_find(const struct device_slice *slice,
	const struct slice_device *device, const char *domain, const char *identifier);

/* device_text() - the text of an attribute of the driver's domain; "" if the device has no such
 * attribute. */
const char *device_text(
	const struct device_slice *slice, const struct slice_device *device, const char *identifier);

/* capacity_consumed() - how much a request consumes, as kube-scheduler computes it. requested: NULL if the
 * request does not name the capacity. -ERANGE if the policy allows no such request. */
int capacity_consumed(
	const struct device_capacity *capacity, const uint64_t *requested, uint64_t *ret_consumed);
