/* fiber.h - programs in virtual time: each has a clock of its own that moves when it sleeps or works, and who
 * is the least far goes on. clock_gettime() and clock_nanosleep() of what is linked here are theirs (linker
 * option --wrap), so the code that is played need not know. Deterministic. */
#pragma once

#include <stdint.h>

#define FIBERS_MAX 64

typedef void fiber_main(void *argument);

/* fiber_start() - begins at this time, in ns. `swap` is called when it goes on and when it pauses: to bring
 * in what the code takes for its process's own. NULL: nothing. */
void fiber_start(int64_t at, fiber_main *main, void *argument, void (*swap)(void *argument));

/* fibers_run() - until that time; then all of them are gone. */
void fibers_run(int64_t until);

/* fiber_now() - of the one that runs. fiber_sleep() - it takes so long. */
int64_t fiber_now(void);
void fiber_sleep(int64_t ns);
