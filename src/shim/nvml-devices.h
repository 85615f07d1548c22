/* nvml-devices.h - which of the driver's handles are the grant's cards. */
#pragma once

#include "shim/nvml-abi.h"

/* nvml_device_card() - the index in the grant of this handle; -1: another card, a part of one, or no handle.
 */
int nvml_device_card(nvmlDevice_t device);
