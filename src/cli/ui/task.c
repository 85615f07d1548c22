#include "cli/ui/task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define CHUNK (256 * 1024)

void task_init(struct task *task)
{
	*task = (struct task){.pid = -1, .fd = -1};
	strbuf_init(&task->out, 0);
}

int task_start(struct task *task, task_fn *fn, void *userdata, size_t max, int64_t timeout_ns)
{
	int fds[2], r;
	pid_t parent = getpid(), pid;

	task_stop(task);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
#ifdef __linux__ /* elsewhere the child ends when it writes */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
		r = getppid() == parent ? fn(userdata, fds[1]) : EXIT_FAILURE;
		fflush(NULL);
		_exit(r);
	}
	r = errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -r;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	strbuf_init(&task->out, max);
	task->pid = pid;
	task->fd = fds[0];
	task->deadline_ns = monotonic_ns() + timeout_ns;
	return 0;
}

/* Returns the status of waitpid(). The pipe is closed first: a child that writes does not wait then. */
static int end(struct task *task)
{
	int status = 0;

	close_ptr(&task->fd);
	while (waitpid(task->pid, &status, 0) < 0 && errno == EINTR)
		;
	task->fd = -1;
	task->pid = -1;
	return status;
}

static int give_up(struct task *task, int r)
{
	kill(task->pid, SIGTERM);
	end(task);
	return r;
}

int task_read(struct task *task, int64_t now_ns, int *ret_status)
{
	_cleanup_free_ char *chunk = malloc(CHUNK);
	ssize_t n;
	int status;

	if (!chunk)
		return give_up(task, -ENOMEM);
	while ((n = read(task->fd, chunk, CHUNK)) > 0)
		if (strbuf_add(&task->out, chunk, (size_t)n) < 0)
			return give_up(task, -EMSGSIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return now_ns < task->deadline_ns ? 0 : give_up(task, -ETIMEDOUT);
	status = end(task);
	if (n < 0 || !WIFEXITED(status))
		return -ECHILD;
	*ret_status = WEXITSTATUS(status);
	return 1;
}

void task_stop(struct task *task)
{
	if (task->pid > 0)
		give_up(task, 0);
	strbuf_release(&task->out);
	task_init(task);
}
