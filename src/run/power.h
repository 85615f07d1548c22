/* power.h - the part of a run's keeper that controls its computing power. It computes the run's own share
 * from all living runs, by the same function as all other keepers, and writes it into the run's grant. No
 * keeper is in charge, so none can be missing: a run whose keeper was killed goes on with its last share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "grant/grant.h"

struct correction_gpu;
struct power;

/* power_new() - for the run in this folder; grant and usage_fd stay with the caller. */
int power_new(const char *folder, struct grant_file *grant, int usage_fd, struct power **ret_power);

void power_free(struct power *power); /* accepts NULL */

/* power_round() - detects which runs live and which have work, and writes the resulting share. Returns in how
 * many nanoseconds to call again. */
int64_t power_round(struct power *power);

/* power_wants_use() - whether power_used() would change anything. */
bool power_wants_use(const struct power *power, unsigned gpu);

/* power_use_ns() - in how many nanoseconds to ask the driver again for the use of the GPUs. */
int64_t power_use_ns(const struct power *power);

/* power_used() - by the driver's count the run used this percentage of the GPU; `who`: its processes, as for
 * correction_processes(). */
void power_used(
	struct power *power, unsigned gpu, uint32_t percent, uint64_t who, const struct correction_gpu *said);
