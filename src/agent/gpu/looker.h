/* looker.h - asks the driver, in a thread of its own, which processes hold memory of a GPU and which used it.
 *
 * A call of NVML takes from microseconds to seconds (while a GPU is being reset), and the loop must answer
 * the kubelet within milliseconds. It is a thread, because another process would load the driver's library a
 * second time. Thread and loop share no lock: the question and the answer belong to one of them at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct looker;
struct loop;
struct nvml;
struct nvml_process;
struct nvml_process_use;

/* A question about a GPU. use: ask also which processes used it (nvml_utilization(), with since_us). */
struct looker_question {
	const char *uuid;
	bool use;
	uint64_t since_us;
};

/* result and use_result are those of nvml_processes() and nvml_utilization(). A list is empty if its result
 * is negative. The lists are valid only during the call of looker_fn. */
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

/* looker_free() - accepts NULL. Waits at most 1 s for the answer to an open question; false: the driver did
 * not answer, and the thread still uses the library. */
bool looker_free(struct looker *looker);

/* looker_ask() - the looker owns nvml until fn is called, which is after this function has returned. -EBUSY:
 * a question is open already; -EAGAIN: no thread could be started. */
int looker_ask(struct looker *looker, struct nvml *nvml, const struct looker_question *question);

bool looker_is_busy(const struct looker *looker);
