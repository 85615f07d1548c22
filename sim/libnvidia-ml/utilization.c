/* utilization.c - how busy a GPU was in the last sample periods, and which processes used it.
 *
 * NVML's header says of nvmlUtilization_t: percent of time over the past sample period during which one or
 * more kernels was executing, each period between 1 second and 1/6 second. It says of
 * nvmlDeviceGetProcessUtilization: one sample per process that had some utilisation since lastSeenTimeStamp
 * (0: in all that the driver keeps), with the CPU timestamp in microseconds at which it was recorded, and
 * NVML_ERROR_NOT_FOUND if there is no such sample.
 *
 * Kernels of different processes never run at the same time here, so the percentages of the processes add up
 * to at most the GPU's.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libnvidia-ml/session.h"
#include "sim/state/account.h"

#define CLOCKS_APART_NS NS_PER_MS
#define RATE_PERIODS 6 /* the GPU's rate is over a second, the longest period that the header allows */

/* Returns the GPU's work. It is mapped once per tree and never unmapped, because no caller waits for its
 * end. */
static struct sim_work *work_of(const struct session *session, bool *ret_writable)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct sim_work *work;
	static bool writable;
	static char root[sizeof(session->tree.root)];

	pthread_mutex_lock(&lock);
	if (!work || strcmp(root, session->tree.root) != 0) {
		work = NULL;
		if (sim_work_map(session->tree.root, &work, &writable) == 0)
			strcpy(root, session->tree.root);
	}
	pthread_mutex_unlock(&lock);
	*ret_writable = writable;
	return work;
}

/* Returns the GPU's work, up to date if we may write it; NULL if there is no such file. */
static struct sim_work *look(const struct call *call, unsigned *ret_gpu)
{
	const struct sim_processes *processes = session_processes(call->session);
	bool writable;
	struct sim_work *work = processes ? work_of(call->session, &writable) : NULL;

	*ret_gpu = (unsigned)(call->gpu - call->session->state->gpus);
	if (work && writable)
		sim_work_look(work, processes, *ret_gpu);
	return work;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *ret_utilization)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	int64_t now = monotonic_ns(), since = (now / SIM_SAMPLE_NS - RATE_PERIODS) * SIM_SAMPLE_NS, at;
	struct sim_work *work;
	unsigned busy = 0, gpu;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_utilization)
		return NVML_ERROR_INVALID_ARGUMENT;
	work = look(&call, &gpu);
	if (work)
		busy = (sim_account_permille(&work->gpus[gpu].total, since, now, &at) + 5) / 10;
	ret_utilization->gpu = busy > call.gpu->utilization_percent ? busy : call.gpu->utilization_percent;
	ret_utilization->memory = call.gpu->memory_utilization_percent;
	return NVML_SUCCESS;
}

struct seen {
	pid_t pid;
	unsigned percent;
	unsigned long long at_us; /* CLOCK_REALTIME */
};

/* Lists the processes of the GPU that are visible in the caller's pid namespace and ran kernels after
 * `since_us`. Fills at most max entries and returns the total number. */
static unsigned list(
	const struct call *call, unsigned long long since_us, struct seen *ret_seen, unsigned max)
{
	const struct sim_processes *processes = session_processes(call->session);
	int64_t now = monotonic_ns(), offset = realtime_ns() - now, since = 0;
	unsigned gpu, found = 0;
	struct sim_work *work = look(call, &gpu);

	if (since_us > (unsigned long long)(now + offset) / 1000)
		return 0;
	/* The clocks are read one after the other, and microseconds are rounded. */
	if ((int64_t)(since_us * 1000) > offset + CLOCKS_APART_NS)
		since = (int64_t)(since_us * 1000) - offset - CLOCKS_APART_NS;
	for (size_t i = 0; work && i < sim_accounts(work); i++) {
		const struct sim_account *account = &work->accounts[i];
		pid_t pid = 0;
		int64_t at = 0;
		unsigned permille = account->gpu == gpu ? sim_account_permille(account, since, now, &at) : 0;

		if (at == 0 || !sim_account_slot(processes, account, &pid) || pid == 0)
			continue;
		if (found < max)
			ret_seen[found] = (struct seen){
				pid, permille / 10, (unsigned long long)(at + offset) / 1000};
		found++;
	}
	return found;
}

/* NVML's rule for lists; the caller frees *ret_seen. */
static nvmlReturn_t list_into(const struct call *call, unsigned long long since_us, bool room,
	unsigned *count, struct seen **ret_seen)
{
	unsigned max = room ? *count : 0;
	struct seen *seen = calloc(SIM_MAX_ACCOUNTS, sizeof(*seen));

	if (!seen)
		return NVML_ERROR_MEMORY;
	*count = list(call, since_us, seen, SIM_MAX_ACCOUNTS);
	*ret_seen = seen;
	return *count == 0    ? NVML_ERROR_NOT_FOUND
	       : *count > max ? NVML_ERROR_INSUFFICIENT_SIZE
			      : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
	unsigned *count, unsigned long long last_seen)
{
	_cleanup_call_ struct call call = {};
	_cleanup_free_ struct seen *seen = NULL;
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = list_into(&call, last_seen, samples != NULL, count, &seen);
	for (unsigned i = 0; r == NVML_SUCCESS && i < *count; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){
			.pid = (unsigned)seen[i].pid, .timeStamp = seen[i].at_us, .smUtil = seen[i].percent};
	return r;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
	_cleanup_call_ struct call call = {};
	_cleanup_free_ struct seen *seen = NULL;
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != NVML_PROCESSES_UTILIZATION_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = list_into(&call, info->lastSeenTimeStamp, info->procUtilArray != NULL, &info->processSamplesCount,
		&seen);
	for (unsigned i = 0; r == NVML_SUCCESS && i < info->processSamplesCount; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.pid = (unsigned)seen[i].pid, .timeStamp = seen[i].at_us, .smUtil = seen[i].percent};
	return r;
}
