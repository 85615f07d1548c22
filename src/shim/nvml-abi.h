/* nvml-abi.h - the functions of NVIDIA's management library that the shim answers itself.
 *
 * Facts: NVML API reference (docs.nvidia.com/deploy/nvml-api) and the ctypes declarations of
 * nvidia-ml-py 13.615. NVIDIA's names, so that they can be looked up. Each version of a name is a function of
 * its own.
 */
#pragma once

#include <stdint.h>

typedef int nvmlReturn_t;
enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};

nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInitWithFlags(unsigned int);
const char *nvmlErrorString(nvmlReturn_t);
