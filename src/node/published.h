/* published.h - the GPUs of this node as the devices of a ResourceSlice (resource.k8s.io/v1). Everything that
 * the API server would refuse is changed or left out here: names, versions, lengths. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/inventory.h"

struct node_registry;

#define PUBLISHED_NAME_SIZE 64 /* a DNS label, with the NUL */
#define PUBLISHED_TEXT_SIZE 65 /* the value of an attribute: at most 64 bytes */

struct published_device {
	char name[PUBLISHED_NAME_SIZE];
	const struct gpu *gpu;
	uint64_t unit_bytes, bytes; /* bytes: whole units; what claims can have of the GPU */
	/* Values of attributes; "" where the value is not known. Versions are semantic versions. */
	char product[PUBLISHED_TEXT_SIZE], bus_id[PUBLISHED_TEXT_SIZE];
	const char *architecture;
	char compute_capability[PUBLISHED_TEXT_SIZE], driver_version[PUBLISHED_TEXT_SIZE];
	char cuda_version[PUBLISHED_TEXT_SIZE];
};

/* published_name() - the name of the device: the UUID in lower case, so that it stays when GPUs get other
 * indices. -EINVAL if that is no DNS label. */
int published_name(const char *uuid, char ret_name[PUBLISHED_NAME_SIZE]);

/* published_version() - "535.104.05" as "535.104.5", and "12.4" as "12.4.0": semver.org knows neither leading
 * zeros nor two numbers. "" for a text that does not begin with a number. */
void published_version(const char *text, char ret_version[PUBLISHED_TEXT_SIZE]);

/* published_devices() - by index, with those that are not healthy. ret_devices has room for NODE_GPUS_MAX.
 * Returns their number. A GPU that is smaller than one unit, or whose UUID makes no name, is left out. */
size_t published_devices(const struct inventory *inventory, struct published_device *ret_devices);

/* published_sort() - on a node whose label says spread, the GPU with the most memory that no prepared claim
 * has comes first, since kube-scheduler takes the first one that fits. Otherwise the order stays: there, any
 * other order gains nothing (docs/measurements/claims.md). */
void published_sort(const struct node_registry *node, struct published_device *devices, size_t n);
