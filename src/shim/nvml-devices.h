/* nvml-devices.h - which of the driver's handles are the grant's GPUs. */
#pragma once

#include "shim/nvml-abi.h"

/* nvml_device_gpu() - the index in the grant of this handle; -1: another GPU, a part of a GPU, or not a
 * handle. */
int nvml_device_gpu(nvmlDevice_t device);
