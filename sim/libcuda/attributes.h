/* attributes.h - properties of a GPU that are the same for all GPUs or follow from the model. */
#pragma once

#include "cuda/abi.h"
#include "sim/state/layout.h"

struct pci_place {
	unsigned domain, bus, device;
};

/* attribute_of_gpu() - -EINVAL: a 13.0 driver does not know this attribute. */
int attribute_of_gpu(const struct sim_gpu *gpu, CUdevice_attribute attribute, int *ret_value);
CUdevprop properties_of_gpu(const struct sim_gpu *gpu);
struct pci_place pci_of_gpu(const struct sim_gpu *gpu);
