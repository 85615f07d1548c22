#include "sim/libcuda/attributes.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"

#define LAST_ATTRIBUTE 148 /* of CUDA 13.0 */

/* Numbers as in CUdevice_attribute. Attributes that are not listed are 0 (a limit of textures, a missing
 * feature). */
static const struct {
	int attribute, value;
} constants[] = {
	{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, /* threads per block, block x y z */
	{5, 2147483647}, {6, 65535}, {7, 65535},  /* grid x y z */
	{8, 49152},				  /* shared memory per block */
	{9, 65536}, {10, 32},			  /* constant memory, warp */
	{11, 2147483647}, {12, 65536},		  /* pitch, registers per block */
	{14, 512}, {15, 1}, {19, 1},		  /* texture alignment, overlap, can map host memory */
	{21, 131072}, {22, 131072}, {23, 65536}, {24, 16384}, {25, 16384}, {26, 16384}, /* textures */
	{27, 32768}, {28, 32768}, {29, 2048},						/* layered */
	{30, 512}, {31, 1}, {32, 1},  /* surface alignment, concurrent kernels, ECC */
	{37, 5120}, {38, 41943040},   /* bus width, L2 */
	{39, 2048}, {40, 3}, {41, 1}, /* threads per multiprocessor, copy engines, unified addressing */
	{51, 32},		      /* texture pitch alignment */
	{78, 1}, {79, 1}, {80, 1},    /* priorities, L1 */
	{81, 98304}, {82, 65536},
	{83, 1},		       /* shared memory and registers per multiprocessor, managed memory */
	{87, 2}, {89, 1}, {90, 1},     /* double ratio, concurrent managed access, preemption */
	{91, 1},		       /* registered pointers */
	{95, 1}, {96, 1}, {97, 98304}, /* cooperative launches, shared memory opt-in */
	{99, 1}, {102, 1}, {103, 1},   /* host register, virtual memory management, its fd handles */
	{106, 32}, {115, 1},	       /* blocks per multiprocessor, memory pools */
	{122, 1}, {123, 1}, {126, 1},  /* 64-bit memory operations, sync domains */
	{129, 1}, {134, 0},	       /* unified function pointers, host NUMA node */
};

struct pci_place pci_of_gpu(const struct sim_gpu *gpu)
{
	struct pci_place place = {};

	sscanf(gpu->bus_id, "%8x:%2x:%2x", &place.domain, &place.bus, &place.device);
	return place;
}

static int computed(const struct sim_gpu *gpu, CUdevice_attribute attribute, int *ret_value)
{
	switch (attribute) {
	case 13:
		*ret_value = (int)gpu->sm_clock_mhz * 1000;
		return 0;
	case 16:
		*ret_value = (int)gpu->sm_count;
		return 0;
	case 20:
		*ret_value = (int)gpu->compute_mode;
		return 0;
	case 33:
		*ret_value = (int)pci_of_gpu(gpu).bus;
		return 0;
	case 34:
		*ret_value = (int)pci_of_gpu(gpu).device;
		return 0;
	case 36:
		*ret_value = (int)gpu->memory_clock_mhz * 1000;
		return 0;
	case 50:
		*ret_value = (int)pci_of_gpu(gpu).domain;
		return 0;
	case 75:
		*ret_value = (int)gpu->compute_major;
		return 0;
	case 76:
		*ret_value = (int)gpu->compute_minor;
		return 0;
	case 131:
		*ret_value = gpu->numa_node;
		return 0;
	default:
		return -ENOENT;
	}
}

int attribute_of_gpu(const struct sim_gpu *gpu, CUdevice_attribute attribute, int *ret_value)
{
	if (attribute < 1 || attribute > LAST_ATTRIBUTE)
		return -EINVAL;
	if (computed(gpu, attribute, ret_value) == 0)
		return 0;
	*ret_value = 0;
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++)
		if (constants[i].attribute == attribute)
			*ret_value = constants[i].value;
	return 0;
}

CUdevprop properties_of_gpu(const struct sim_gpu *gpu)
{
	return (CUdevprop){
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = {1024, 1024, 64},
		.maxGridSize = {2147483647, 65535, 65535},
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = 65536,
		.clockRate = (int)gpu->sm_clock_mhz * 1000,
		.textureAlign = 512,
	};
}
