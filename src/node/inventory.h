/* inventory.h - the GPUs of this node, as the agent promises them: a GPU that was once seen stays in it, so
 * that its units do not vanish under the pods that hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/facts.h"

/* Who declares GPUs faulty from outside (faults.h). */
enum fault_source { FAULTS_DEVICE_STATUS, FAULTS_UNHEALTHY_GPU, FAULT_SOURCES };

/* facts.healthy and details.reason follow from what is said of the GPU: change that by the functions below.
 */
struct gpu {
	struct gpu_facts facts;
	struct gpu_details details;
	char driver_says[GPU_REASON_SIZE]; /* what is wrong with it, "" for nothing; likewise */
	char list_says[FAULT_SOURCES][GPU_REASON_SIZE];
	char told[GPU_REASON_SIZE]; /* details.reason as it was reported last */
	unsigned int minor;	    /* of /dev/nvidia<minor> */
	char bus_id[32]; /* "00000000:00:09.0"; "" where an agent before this one did not remember it */
	uint32_t units;
};

/* A GPU that MIG divides. It is not shared. */
struct mig_gpu {
	unsigned int index;
	char uuid[GPU_UUID_SIZE];
	bool told; /* an Event named it */
};

struct inventory {
	struct gpu gpus[NODE_GPUS_MAX]; /* by index */
	size_t n_gpus;
	struct mig_gpu mig[NODE_GPUS_MAX]; /* none of `gpus`; as the driver listed them last */
	size_t n_mig;
	uint32_t unit_mib;
	char driver_version[80];
};

/* inventory_update() - what the driver shows now: known GPUs (by UUID) take its word for health
 * (driver_says), index and minor number; GPUs it does not show any more become unhealthy; new ones are
 * added, with what the lists say of them. Returns whether anything changed. */
bool inventory_update(struct inventory *inventory, const struct gpu *found, size_t n_found);

/* inventory_set_mig() - the GPUs that MIG divides now; one that was among them keeps `told`. Returns whether
 * the list is another one. */
bool inventory_set_mig(struct inventory *inventory, const struct mig_gpu *gpus, size_t n);

/* inventory_set_links() - how these GPUs are connected: at(userdata, a, b) tells it by their positions in
 * `uuids`; of one that is not among them it is not known any more. nvlink_gbps: of one NVLink, 0 for none.
 * Returns whether that is news. */
typedef struct link (*inventory_link_fn)(const void *userdata, size_t a, size_t b);
bool inventory_set_links(struct inventory *inventory, const char *const *uuids, size_t n,
	inventory_link_fn at, const void *userdata, uint32_t nvlink_gbps);

/* inventory_set_unit() - from now on gpu-mem counts in this; the GPUs' units with it. Returns whether it is
 * another. */
bool inventory_set_unit(struct inventory *inventory, uint32_t unit_mib);

/* inventory_find() - NULL if there is no such GPU. */
const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid);

/* inventory_driver_says(), inventory_list_says() - of one GPU; "" that it is well. Returns whether that is
 * news. */
bool inventory_driver_says(struct inventory *inventory, const char *uuid, const char *what);
bool inventory_list_says(
	struct inventory *inventory, const char *uuid, enum fault_source source, const char *what);

uint32_t inventory_units(const struct inventory *inventory);
