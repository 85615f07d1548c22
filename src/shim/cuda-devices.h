/* cuda-devices.h - which of the driver's devices are the grant's GPUs.
 *
 * A CUdevice is the driver's and stays what it is: it occurs in too many structures to be translated. It is
 * also the grant's number of the GPU, since the driver is told which GPUs to show, and in which order
 * (cuda-visible.h). Where a driver shows others nevertheless, these cannot be reached: they are not counted,
 * and what is asked of them is an invalid device.
 */
#pragma once

#include <stdbool.h>

#include "cuda/abi.h"

#define CUDA_DEVICES_MAX 64

/* cuda_devices_find() - compare the driver's devices with the grant's GPUs; after each successful cuInit.
 * Returns how many are granted. */
int cuda_devices_find(void);

/* cuda_is_started() - whether cuInit has succeeded. Until then the driver refuses a call without reading what
 * its arguments point to, and a hook must not read them either: what allocates without a context is answered
 * by cuda_refuse_device(), since another thread may just be starting the driver; the rest is passed on. (A
 * child of fork() is not told. There a pointer that leads nowhere is still read; NULL never is.) */
bool cuda_is_started(void);

/* cuda_device_gpu() - the index in the grant of this device; -1: not granted, or cuInit was not called. */
int cuda_device_gpu(CUdevice device);

/* cuda_current_gpu() - of the calling thread's current context; -1: there is none, or not of a granted GPU.
 */
int cuda_current_gpu(void);

/* cuda_location_device() - the device whose memory a location names. False: memory of the machine, no place,
 * or a type of location that is unknown here. */
bool cuda_location_device(CUmemLocation location, CUdevice *ret_device);

/* cuda_location_is_host() - whether it names the machine's memory. */
bool cuda_location_is_host(CUmemLocation location);

/* cuda_managed_gpu() - the GPU that pays for managed memory without a GPU of its own, in full, as for that
 * of cuMemAllocManaged: that of the current context, and without one the first of the grant. */
int cuda_managed_gpu(void);

/* cuda_location_gpu() - the GPU that pays for memory of this type at this location; -1: memory of the
 * machine, for which no GPU pays. Not CUDA_SUCCESS: a device that is not granted, or a type of location that
 * is unknown here. */
CUresult cuda_location_gpu(CUmemLocation location, CUmemAllocationType type, int *ret_gpu);

/* cuda_refuse_device() - what the driver says of a device that it does not have: also that cuInit was not
 * called. */
CUresult cuda_refuse_device(void);
