/* process.h - a process, told from a later one with the same pid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* process_start_ticks() - when it started (/proc/PID/stat, field 22). -ESRCH: there is none, or it has ended
 * and waits for its parent. */
int process_start_ticks(pid_t pid, uint64_t *ret_ticks);

/* process_is_alive() - the one that started then; start_ticks 0: any with this pid. */
bool process_is_alive(pid_t pid, uint64_t start_ticks);
