/* looker.h - asks the driver who holds memory of a card, in a thread of its own: a call of NVML's can take
 * anything from microseconds to seconds (a card that is being reset), and the loop owes the kubelet an answer
 * in milliseconds. A thread and not a process, since the driver's library costs each process its memory and
 * its start anew. Thread and loop share no state and no lock: what is asked belongs to the one or to the
 * other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct looker;
struct loop;
struct nvml;
struct nvml_process;

/* result: as nvml_processes(); the list is valid during the call only. */
typedef void (*looker_fn)(void *userdata, int result, const struct nvml_process *list, size_t count);

int looker_new(struct loop *loop, looker_fn fn, void *userdata, struct looker **ret_looker);

/* looker_free() - accepts NULL. Waits for an answer that is on its way, at most 1 s; false: the driver does
 * not answer, and still has the library. */
bool looker_free(struct looker *looker);

/* looker_ask() - nvml is the looker's until fn is called, never from within. -EBUSY: one question at a time;
 * -EAGAIN: no thread to be had. */
int looker_ask(struct looker *looker, struct nvml *nvml, const char *uuid);

bool looker_is_busy(const struct looker *looker);
