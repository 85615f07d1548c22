/* task.h - work in a child process, because kubectl takes seconds and the server must answer meanwhile. The
 * child writes its answer into a pipe. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/strbuf.h"

struct task {
	pid_t pid; /* -1: no child */
	int fd;	   /* to wait for with poll() */
	int64_t deadline_ns;
	struct strbuf out; /* what the child has written so far */
};

/* Runs in the child; writes to fd. The result is the child's exit status. */
typedef int task_fn(void *userdata, int fd);

void task_init(struct task *task);

/* task_start() - at most max bytes of answer, within timeout_ns. Negative errno if no child can be started.
 */
int task_start(struct task *task, task_fn *fn, void *userdata, size_t max, int64_t timeout_ns);

/* task_read() - call it when fd is readable, or the deadline is over. 0: go on waiting. 1: the child has
 * ended with this exit status. -EMSGSIZE, -ETIMEDOUT, -ECHILD (it was killed): the child is ended. */
int task_read(struct task *task, int64_t now_ns, int *ret_status);

/* task_stop() - ends the child, and forgets its answer. Harmless without a child. */
void task_stop(struct task *task);
