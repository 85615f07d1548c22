/* process.h - identifies a process, even if its pid was used again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* process_start_ticks() - when the process started (/proc/PID/stat, field 22). -ESRCH: there is none, or it
 * has ended and waits for its parent. */
int process_start_ticks(pid_t pid, uint64_t *ret_ticks);

/* process_is_alive() - the process with this start time lives; start_ticks 0: any process with this pid. */
bool process_is_alive(pid_t pid, uint64_t start_ticks);
