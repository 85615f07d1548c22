/* graph-params.h - checks node parameters of the driver's interface, and converts them into tasks. */
#pragma once

#include "sim/libcuda/task.h"

CUresult task_of_kernel(const CUDA_KERNEL_NODE_PARAMS *params, struct task *ret_task);
CUresult task_of_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *params, struct task *ret_task);
CUresult task_of_memset(const CUDA_MEMSET_NODE_PARAMS *params, struct task *ret_task);
CUresult task_of_memcpy(const CUDA_MEMCPY3D *params, struct task *ret_task);
