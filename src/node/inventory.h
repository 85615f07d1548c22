/* inventory.h - the GPUs of this node that the agent offers. A GPU that was once seen stays in it, so that
 * its units do not disappear while pods hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/facts.h"

/* Which list declares GPUs faulty from outside (faults.h). */
enum fault_source { FAULTS_DEVICE_STATUS, FAULTS_UNHEALTHY_GPU, FAULT_SOURCES };

/* facts.healthy and details.reason follow from the reports about the GPU: change them only by the functions
 * below. */
struct gpu {
	struct gpu_facts facts;
	struct gpu_details details;
	char driver_says[GPU_REASON_SIZE]; /* what is wrong with it, "" for nothing; also changed by functions
					      only */
	char list_says[FAULT_SOURCES][GPU_REASON_SIZE];
	char told[GPU_REASON_SIZE]; /* details.reason as it was reported last */
	unsigned int minor;	    /* the number in /dev/nvidia<minor> */
	char bus_id[32]; /* "00000000:00:09.0"; "" if an earlier version of the agent did not save it */
	uint32_t units;
	/* As the driver says; not saved. 0, and -1 for the node: not known. */
	unsigned int compute_major, compute_minor; /* CUDA compute capability */
	int numa_node;
};

/* A GPU that MIG divides. It is not shared. */
struct mig_gpu {
	unsigned int index;
	char uuid[GPU_UUID_SIZE];
	bool told; /* an Event has named it */
};

struct inventory {
	struct gpu gpus[NODE_GPUS_MAX]; /* by index */
	size_t n_gpus;
	struct mig_gpu mig[NODE_GPUS_MAX]; /* not among `gpus`; as the driver last listed them */
	size_t n_mig;
	uint32_t unit_mib;
	char driver_version[80];
	unsigned int cuda_major, cuda_minor; /* the newest CUDA that the driver can do; 0: not known */
};

/* inventory_update() - takes over what the driver shows now. Known GPUs (by UUID) take over their health
 * (driver_says), index and minor number. GPUs that the driver no longer shows become unhealthy. New ones are
 * added, with what the lists say of them. Returns whether anything changed. */
bool inventory_update(struct inventory *inventory, const struct gpu *found, size_t n_found);

/* inventory_set_mig() - sets the GPUs that MIG divides now; a GPU that was already among them keeps `told`.
 * Returns whether the list changed. */
bool inventory_set_mig(struct inventory *inventory, const struct mig_gpu *gpus, size_t n);

/* inventory_set_links() - sets how these GPUs are connected: at(userdata, a, b) returns the link by their
 * positions in `uuids`. The links of a GPU that is not among them become unknown. nvlink_gbps: of one NVLink,
 * 0 for none. Returns whether anything changed. */
typedef struct link (*inventory_link_fn)(const void *userdata, size_t a, size_t b);
bool inventory_set_links(struct inventory *inventory, const char *const *uuids, size_t n,
	inventory_link_fn at, const void *userdata, uint32_t nvlink_gbps);

/* inventory_set_unit() - sets the unit of gpu-mem, and with it the units of the GPUs. Returns whether it
 * changed. */
bool inventory_set_unit(struct inventory *inventory, uint32_t unit_mib);

/* inventory_find() - NULL if there is no such GPU. */
const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid);

/* inventory_driver_says(), inventory_list_says() - set the fault of one GPU; "" for none. Return whether it
 * changed. */
bool inventory_driver_says(struct inventory *inventory, const char *uuid, const char *what);
bool inventory_list_says(
	struct inventory *inventory, const char *uuid, enum fault_source source, const char *what);

uint32_t inventory_units(const struct inventory *inventory);
