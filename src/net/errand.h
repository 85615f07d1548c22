/* errand.h - one piece of work at a time in a thread of its own, for what may take anything from microseconds
 * to seconds while the loop owes others an answer in milliseconds. Thread and loop share no state and no
 * lock: what the work needs belongs to the one or to the other. */
#pragma once

#include <stdbool.h>

struct errand;
struct loop;

typedef void (*errand_fn)(void *userdata);

/* errand_new() - work is called in the thread, done in the loop after it. The thread starts with the first
 * errand_start(), and waits between two. */
int errand_new(struct loop *loop, errand_fn work, errand_fn done, void *userdata, struct errand **ret_errand);

/* errand_start() - from then on all that `work` uses is the thread's, until `done` is called, never from
 * within. -EBUSY: one at a time; -EAGAIN: no thread to be had. */
int errand_start(struct errand *errand);
bool errand_is_busy(const struct errand *errand);

/* errand_free() - accepts NULL. Waits for work that is under way, at most 1 s, and calls nothing. False: it
 * goes on until the process ends, with all that it uses. */
bool errand_free(struct errand *errand);
