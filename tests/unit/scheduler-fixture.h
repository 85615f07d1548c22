/* scheduler-fixture.h - the scheduler's state without sockets: the test is the API server, kube-scheduler and
 * the clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

/* A call of kube-scheduler's. */
struct http_call {
	bool gone;    /* its connection is closed */
	char *answer; /* NULL: not answered yet */
};

/* The world around the scheduler under test. */
struct world {
	struct scheduler scheduler;
	int64_t now_ns; /* both clocks; a test moves it forward */
	bool alone;	/* no connection of the last caller is open any more */
};
extern struct world world;

/* world_begin() - a share node "n" with one GPU "GPU-n-0" of `units` units, all lists read. world_end() -
 * checks the sums of the ledger, and that every call is answered. */
int world_begin(uint32_t units);
int world_end(void);

/* world_pod_known() - the watch shows a pod "default/<uid>" that is not bound and asks for 3 units. */
void world_pod_known(const char *uid);

/* world_lose_lease() - another scheduler owns the ledger from now on. */
void world_lose_lease(void);

/* world_bind() - kube-scheduler posts the bind of "default/<uid>" to node "n". */
void world_bind(struct http_call *call, const char *uid);

/* world_asked() - how many requests to the API server are not answered yet; the next one has this method, and
 * this text in its path. world_answer() - answers the next one, the oldest. result < 0: there is no answer.
 */
size_t world_asked(const char *method, const char *path);
void world_answer(int result, long status, const char *body);

/* world_pass() - so much time passes, and what is due happens. */
void world_pass(int64_t ns);

/* world_used() - units that are used on the GPU. */
uint32_t world_used(void);
