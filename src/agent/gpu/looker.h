/* looker.h - asks the driver who holds memory of a GPU, and who used it, in a thread of its own: a call of
 * NVML's can take anything from microseconds to seconds (a GPU that is being reset), and the loop owes the
 * kubelet an answer in milliseconds. A thread and not a process, since the driver's library costs each
 * process its memory and its start anew. Thread and loop share no state and no lock: what is asked belongs to
 * the one or to the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct looker;
struct loop;
struct nvml;
struct nvml_process;
struct nvml_process_use;

/* What is asked of the driver. use: who used the GPU, too (nvml_utilization(), with since_us). */
struct looker_question {
	const char *uuid;
	bool use;
	uint64_t since_us;
};

/* result, use_result: as nvml_processes() and nvml_utilization(); the lists are empty where these are
 * negative, and valid during the call only. */
struct looker_answer {
	int result, use_result;
	const struct nvml_process *list;
	size_t count;
	const struct nvml_process_use *uses;
	size_t n_uses;
	unsigned gpu_percent;
	uint64_t since_us;
};
typedef void (*looker_fn)(void *userdata, const struct looker_answer *answer);

int looker_new(struct loop *loop, looker_fn fn, void *userdata, struct looker **ret_looker);

/* looker_free() - accepts NULL. Waits for an answer that is on its way, at most 1 s; false: the driver does
 * not answer, and still has the library. */
bool looker_free(struct looker *looker);

/* looker_ask() - nvml is the looker's until fn is called, never from within. -EBUSY: one question at a time;
 * -EAGAIN: no thread to be had. */
int looker_ask(struct looker *looker, struct nvml *nvml, const struct looker_question *question);

bool looker_is_busy(const struct looker *looker);
