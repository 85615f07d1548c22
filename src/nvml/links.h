/* links.h - how the node's GPUs are connected. */
#pragma once

#include "nvml/nvml.h"

/* The best path between two GPUs without NVLink, as nvidia-smi topo -m names them; the worst first. */
enum nvml_path {
	NVML_PATH_UNKNOWN,
	NVML_PATH_SYS,
	NVML_PATH_NODE,
	NVML_PATH_PHB,
	NVML_PATH_PXB,
	NVML_PATH_PIX,
};

/* By positions in nvml_inventory.gpus; symmetric. */
struct nvml_links {
	struct {
		uint8_t path;	 /* enum nvml_path */
		uint8_t nvlinks; /* active ones between the two; through NVSwitches, what both have of them */
	} between[NVML_MAX_GPUS][NVML_MAX_GPUS];
	unsigned nvlink_gbps; /* nominal, of one NVLink in one direction; 0: there is none */
};

/* nvml_links() - asks the driver; what it does not tell is unknown, or no link. */
void nvml_links(struct nvml *nvml, const struct nvml_inventory *inventory, struct nvml_links *ret_links);
