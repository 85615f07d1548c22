/* Processes that use a GPU. Of the driver's lists only processes of this container are shown: those in its
 * usage file. The memory of each is the driver's number, contexts included. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/nvml-library.h"
#include "shim/session.h"

#define PROCESSES_MAX 4096
#define TRIES 5 /* a list may grow between two calls */

typedef nvmlReturn_t (*list_function)(nvmlDevice_t, unsigned *, void *);

/* Every layout except nvmlProcessUtilizationInfo_v1_t begins with the pid. */
static unsigned pid_at(const char *entry, size_t pid_offset)
{
	unsigned pid;

	memcpy(&pid, entry + pid_offset, sizeof(pid));
	return pid;
}

/* Moves the entries of this container to the front, clears the others and returns how many are left. */
static unsigned keep_ours(void *list, unsigned count, size_t size, size_t pid_offset)
{
	char *entries = list;
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!session_has_process(pid_at(entries + i * size, pid_offset)))
			continue;
		memmove(entries + kept++ * size, entries + i * size, size);
	}
	memset(entries + kept * size, 0, (count - kept) * size);
	return kept;
}

/* Returns the driver's complete list. The caller frees *ret_list. */
static nvmlReturn_t whole_list(
	list_function function, nvmlDevice_t device, size_t size, void **ret_list, unsigned *ret_count)
{
	unsigned count = 0;
	nvmlReturn_t r = function(device, &count, NULL);

	for (int i = 0; i < TRIES && r == NVML_ERROR_INSUFFICIENT_SIZE && count <= PROCESSES_MAX; i++) {
		void *list = calloc(count += 8, size);

		if (!list)
			return NVML_ERROR_MEMORY;
		r = function(device, &count, list);
		if (r == NVML_SUCCESS) {
			*ret_list = list;
			*ret_count = count;
			return r;
		}
		free(list);
	}
	*ret_list = NULL;
	*ret_count = 0;
	return r;
}

/* NVML's rule: *count is the room on entry and the number on return. Too little room is an error that returns
 * the needed number. No room is allowed if there is nothing to list. */
static nvmlReturn_t list(void *driver, nvmlDevice_t device, unsigned *count, void *infos, size_t size)
{
	list_function function = (list_function)driver;
	unsigned found = 0, kept;
	void *all = NULL;
	nvmlReturn_t r;

	/* A library that was not started does not read its arguments. */
	if (nvml_started() != NVML_SUCCESS || !count || (*count > 0 && !infos))
		return function(device, count, infos);
	r = whole_list(function, device, size, &all, &found);
	if (r != NVML_SUCCESS)
		return r;
	kept = found ? keep_ours(all, found, size, 0) : 0;
	if (kept <= *count && kept)
		memcpy(infos, all, kept * size);
	r = kept <= *count ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
	*count = kept;
	free(all);
	return r;
}

/* The size of an entry in the lists of version 3. It is 24 bytes, as in version 2, but 32 in drivers of
 * nvml.h 12.2.81 and 12.2.128 (535 before 535.104). Those drivers have the first of these functions and lack
 * the second, which nvml.h 12.2.140 added when it restored the shorter entry. Programs built for such a
 * driver expect its behaviour. */
static size_t entry_size_v3(void)
{
	return shim_driver_has(SYMBOL_nvmlDeviceGetConfComputeMemSizeInfo) &&
			       !shim_driver_has(SYMBOL_nvmlDeviceGetRunningProcessDetailList)
		       ? sizeof(nvmlProcessDetail_v1_t)
		       : sizeof(nvmlProcessInfo_v2_t);
}

/* Returns the list of version 3 or, on drivers before 510, of version 2, which has the same entries. The
 * program finds version 3 here whatever the driver has, and then requests no other version. */
static nvmlReturn_t list_v3(
	size_t v3, size_t v2, nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(shim_resolve(shim_driver_has(v3) ? v3 : v2), device, count, infos, entry_size_v3());
}

HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list(
		(void *)DRIVER(nvmlDeviceGetComputeRunningProcesses), device, count, infos, sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list((void *)DRIVER(nvmlDeviceGetComputeRunningProcesses_v2), device, count, infos,
		sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list_v3(SYMBOL_nvmlDeviceGetComputeRunningProcesses_v3,
		SYMBOL_nvmlDeviceGetComputeRunningProcesses_v2, device, count, infos);
}

HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list(
		(void *)DRIVER(nvmlDeviceGetGraphicsRunningProcesses), device, count, infos, sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list((void *)DRIVER(nvmlDeviceGetGraphicsRunningProcesses_v2), device, count, infos,
		sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list_v3(SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v3,
		SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v2, device, count, infos);
}

HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list((void *)DRIVER(nvmlDeviceGetMPSComputeRunningProcesses), device, count, infos,
		sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list((void *)DRIVER(nvmlDeviceGetMPSComputeRunningProcesses_v2), device, count, infos,
		sizeof(*infos));
}

HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list_v3(SYMBOL_nvmlDeviceGetMPSComputeRunningProcesses_v3,
		SYMBOL_nvmlDeviceGetMPSComputeRunningProcesses_v2, device, count, infos);
}

/* The driver fills the caller's own array. If the array is too small for all processes of the GPU, the caller
 * gets the driver's error and number, and makes it larger than necessary. */
HOOK nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(
	nvmlDevice_t device, nvmlProcessDetailList_v1_t *details)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetRunningProcessDetailList)(device, details);

	if (r == NVML_SUCCESS && details->procArray)
		details->numProcArrayEntries = keep_ours(
			details->procArray, details->numProcArrayEntries, sizeof(*details->procArray), 0);
	return r;
}

HOOK nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *samples, unsigned *count, unsigned long long last_seen)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetProcessUtilization)(device, samples, count, last_seen);

	if (r != NVML_SUCCESS || !samples)
		return r;
	*count = keep_ours(samples, *count, sizeof(*samples), 0);
	return *count ? NVML_SUCCESS
		      : NVML_ERROR_NOT_FOUND; /* the driver's answer if no process has run since then */
}

HOOK nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetProcessesUtilizationInfo)(device, info);

	if (r != NVML_SUCCESS || !info->procUtilArray)
		return r;
	info->processSamplesCount = keep_ours(info->procUtilArray, info->processSamplesCount,
		sizeof(*info->procUtilArray), offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
	return info->processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

HOOK nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned *count, unsigned *pids)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetAccountingPids)(device, count, pids);

	if (r == NVML_SUCCESS && pids)
		*count = keep_ours(pids, *count, sizeof(*pids), 0);
	return r;
}

/* The answer for a process outside the container: the same as for a process that does not exist. */
static nvmlReturn_t not_there(void)
{
	nvmlReturn_t r = nvml_started();

	return r == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : r;
}

HOOK nvmlReturn_t nvmlDeviceGetAccountingStats(
	nvmlDevice_t device, unsigned pid, nvmlAccountingStats_t *stats)
{
	if (!session_has_process(pid))
		return not_there();
	return DRIVER(nvmlDeviceGetAccountingStats)(device, pid, stats);
}

HOOK nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
	nvmlReturn_t r = nvml_started();

	if (r != NVML_SUCCESS)
		return r;
	if (stats && !session_has_process(stats->pid))
		return NVML_ERROR_NOT_FOUND;
	return DRIVER(nvmlDeviceGetAccountingStats_v2)(device, stats);
}

/* The driver is asked about a process that never exists, for its errors. */
static nvmlReturn_t no_process(char *name, unsigned length)
{
	char unused[64];
	nvmlReturn_t r = DRIVER(nvmlSystemGetProcessName)(
		0, name ? unused : NULL, length < sizeof(unused) ? length : sizeof(unused));

	return r == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : r;
}

HOOK nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	if (pid != (unsigned)getpid() && !session_has_process(pid))
		return no_process(name, length);
	return DRIVER(nvmlSystemGetProcessName)(pid, name, length);
}
