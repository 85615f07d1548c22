/* single.h - one agent per node: two would take the plugin's socket from each other, and each other's pods.
 */
#pragma once

struct error;

/* single_lock() - held until the returned fd is closed, by death if nothing else. -EBUSY with a sentence that
 * names the process that has it; other errors where a lock cannot be had at all (a directory that cannot be
 * written to). */
int single_lock(const char *dir, int *ret_fd, struct error *err);
