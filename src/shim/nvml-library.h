/* nvml-library.h - declarations that the files of the substitute for libnvidia-ml share. */
#pragma once

#include "libnvidia-ml-symbols.h"
#include "shim/nvml-abi.h"
#include "shim/shim.h"

/* nvml_started() - NVML_SUCCESS, or the driver's answer before nvmlInit. */
nvmlReturn_t nvml_started(void);
