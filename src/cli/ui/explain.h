/* explain.h - `ration why` for one pod, with its output in a pipe. */
#pragma once

struct kubectl;

struct explain {
	const struct kubectl *kubectl;
	const char *namespace_, *name;
};

/* explain_run() - a task_fn: explain is the userdata. The status is that of `ration why`. */
int explain_run(void *explain, int fd);
