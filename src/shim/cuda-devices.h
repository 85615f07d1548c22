/* cuda-devices.h - which of the driver's devices are the grant's GPUs.
 *
 * A CUdevice keeps the driver's value, because it occurs in too many structures to be translated. It also
 * equals the grant's number of the GPU, because the driver is told which GPUs to show and in which order
 * (cuda-visible.h). If a driver shows others nevertheless, they are unreachable: they are not counted, and
 * calls about them fail as for an invalid device.
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"

#define CUDA_DEVICES_MAX 64

/* cuda_devices_find() - compares the driver's devices with the grant's GPUs, after each successful cuInit.
 * Returns how many are granted. */
int cuda_devices_find(void);

/* cuda_is_started() - whether cuInit has succeeded. Until then the driver refuses a call without reading what
 * its arguments point to, and a hook must not read them either. Allocations without a context are answered by
 * cuda_refuse_device(), since another thread may just be starting the driver. All other calls are passed on.
 * (A child of fork() inherits the answer. In a child a hook may read an invalid pointer, but never NULL.) */
bool cuda_is_started(void);

/* cuda_device_gpu() - the index of this device in the grant; -1: not granted, or cuInit was not called. */
int cuda_device_gpu(CUdevice device);

/* cuda_current_gpu() - the GPU of the calling thread's current context; -1: there is no context, or its GPU
 * is not granted. */
int cuda_current_gpu(void);

/* cuda_location_device() - the device whose memory a location names. False: the location is host memory, no
 * place, or of an unknown type. */
bool cuda_location_device(CUmemLocation location, CUdevice *ret_device);

/* cuda_location_is_host() - whether the location is host memory. */
bool cuda_location_is_host(CUmemLocation location);

/* cuda_managed_gpu() - the GPU that is charged for managed memory without a GPU of its own. It is charged in
 * full, as for cuMemAllocManaged. It is the GPU of the current context, or the first of the grant if there is
 * no context. */
int cuda_managed_gpu(void);

/* cuda_location_gpu() - the GPU that is charged for memory of this type at this location; -1: host memory,
 * which no GPU is charged for. Any result but CUDA_SUCCESS: the device is not granted, or the type of
 * location is unknown. */
CUresult cuda_location_gpu(CUmemLocation location, CUmemAllocationType type, int *ret_gpu);

/* cuda_refuse_device() - the driver's answer for a device that does not exist, or that cuInit was not
 * called. */
CUresult cuda_refuse_device(void);
