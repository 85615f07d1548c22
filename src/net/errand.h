/* errand.h - one piece of work at a time in its own thread, for calls that may take up to seconds while the
 * loop must answer others within milliseconds. Thread and loop share no state and no lock: the data of the
 * work belongs to one or the other. */
#pragma once

#include <stdbool.h>

struct errand;
struct loop;

typedef void (*errand_fn)(void *userdata);

/* errand_new() - `work` is called in the thread, and afterwards `done` in the loop. The thread starts at the
 * first errand_start(), and waits between two of them. */
int errand_new(struct loop *loop, errand_fn work, errand_fn done, void *userdata, struct errand **ret_errand);

/* errand_start() - starts the work. Until `done` is called, everything that `work` uses belongs to the
 * thread. `done` is never called from within. -EBUSY: work is under way. -EAGAIN: no thread can be
 * started. */
int errand_start(struct errand *errand);
bool errand_is_busy(const struct errand *errand);

/* errand_free() - accepts NULL. Waits at most 1 s for work under way, and does not call `done`. False: the
 * work goes on until the process ends, and everything that it uses must stay valid. */
bool errand_free(struct errand *errand);
