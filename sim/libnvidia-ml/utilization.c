/* utilization.c - how busy a card was in the last second, and who kept it busy. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libnvidia-ml/session.h"
#include "sim/state/work.h"

/* The card's work. Mapped once per tree, for good: it has no end that anybody waits for. */
static struct sim_work *work_of(const struct session *session)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct sim_work *work;
	static char root[sizeof(session->tree.root)];

	pthread_mutex_lock(&lock);
	if (!work || strcmp(root, session->tree.root) != 0) {
		work = NULL;
		if (sim_work_map(session->tree.root, &work) == 0)
			strcpy(root, session->tree.root);
	}
	pthread_mutex_unlock(&lock);
	return work;
}

/* Percent of the last second; of one process where slot is not NULL. */
static unsigned busy_percent(const struct call *call, const struct sim_process *slot)
{
	const struct sim_processes *processes = session_processes(call->session);
	struct sim_work *work = processes ? work_of(call->session) : NULL;
	unsigned card = (unsigned)(call->card - call->session->state->cards);

	return work ? (unsigned)((sim_card_busy(work, processes, card, slot) * 100 + NS_PER_S / 2) / NS_PER_S)
		    : 0;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *ret_utilization)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	unsigned busy;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_utilization)
		return NVML_ERROR_INVALID_ARGUMENT;
	busy = busy_percent(&call, NULL);
	ret_utilization->gpu = busy > call.card->utilization_percent ? busy : call.card->utilization_percent;
	ret_utilization->memory = call.card->memory_utilization_percent;
	return NVML_SUCCESS;
}

/* A sample exists for a process that ran kernels in the last second. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
	unsigned *count, unsigned long long last_seen)
{
	_cleanup_call_ struct call call = {};
	_cleanup_free_ struct sim_process_view *views = calloc(SIM_MAX_PROCESSES, sizeof(*views));
	nvmlReturn_t r = call_begin_device(&call, device);
	const struct sim_processes *processes;
	unsigned long long now = (unsigned long long)realtime_ns() / 1000;
	size_t all = 0;
	unsigned found = 0;

	if (r != NVML_SUCCESS)
		return r;
	if (!count || (*count > 0 && !samples))
		return NVML_ERROR_INVALID_ARGUMENT;
	processes = session_processes(call.session);
	if (views && processes && last_seen < now)
		all = sim_processes_list(processes, (unsigned)(call.card - call.session->state->cards), views,
			SIM_MAX_PROCESSES);
	for (size_t i = 0; i < all && i < SIM_MAX_PROCESSES; i++) {
		unsigned busy = views[i].pid ? busy_percent(&call, &processes->table->slots[views[i].slot])
					     : 0;

		if (busy == 0)
			continue;
		if (found < *count)
			samples[found] = (nvmlProcessUtilizationSample_t){
				.pid = (unsigned)views[i].pid, .timeStamp = now, .smUtil = busy};
		found++;
	}
	r = found == 0 ? NVML_ERROR_NOT_FOUND : found > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
	*count = found;
	return r;
}
