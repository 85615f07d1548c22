/* nvml-library.h - the parts of the substitute for libnvidia-ml that its files share. */
#pragma once

#include "libnvidia-ml-symbols.h"
#include "shim/nvml-abi.h"
#include "shim/shim.h"

/* nvml_started() - NVML_SUCCESS, or what the driver answers before nvmlInit. */
nvmlReturn_t nvml_started(void);
