#include "agent/gpu/processes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/gpu/watched.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/table.h"
#include "grant/outside.h"

#define KEEP_NS (30 * NS_PER_S) /* then read again, since a process can be moved to another cgroup */
/* A path in /proc/PID/cgroup is PATH_MAX at most, in at most 16 hierarchies. */
#define TEXT_MAX ((size_t)64 << 10)

struct processes {
	char *proc;
	struct table by_pid;
	uint64_t time_namespace; /* the agent's, in which the kernel shows start times */
	int ended_fd;		 /* epoll of all pidfds: reports processes that have ended */
	char *text;		 /* TEXT_MAX bytes */
};

static const char *pid_key(pid_t pid, char *buf, size_t size)
{
	snprintf(buf, size, "%d", (int)pid);
	return buf;
}

/* ---- what /proc says ------------------------------------------------------------------------------------
 */

static ssize_t read_text(const struct processes *processes, pid_t pid, const char *name)
{
	_cleanup_close_ int fd = -1;
	size_t len = 0;
	char path[PATH_MAX];
	ssize_t n;

	if ((size_t)snprintf(path, sizeof(path), "%s/%d/%s", processes->proc, (int)pid, name) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, processes->text + len, TEXT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return -errno;
	processes->text[len] = '\0';
	return (ssize_t)len;
}

static int process_read(const struct processes *processes, pid_t pid, struct process *ret_process)
{
	struct process process = {.pid = pid, .pidfd = -1, .read_ns = monotonic_ns()};
	ssize_t n = read_text(processes, pid, "cgroup");
	int r;

	if (n < 0)
		return (int)n;
	process.verdict = cgroup_parse(processes->text, &process.place);
	r = outside_read(processes->proc, pid, processes->time_namespace, &process.owner);
	if (r == 0)
		*ret_process = process;
	return r;
}

uint64_t process_image(const struct processes *processes, pid_t pid)
{
	return outside_image(processes->proc, pid);
}

bool processes_note_dead(const struct processes *processes, struct watched_part *gpu,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed)
{
	return outside_note_dead(processes->proc, processes->time_namespace, gpu->of->grant, slots, n_slots,
		listed, n_listed, &gpu->look.search_again_ns);
}

void process_name(const struct processes *processes, pid_t pid, char *ret_name)
{
	ssize_t n = read_text(processes, pid, "comm");

	snprintf(ret_name, PROCESS_NAME_SIZE, "%.*s", n > 1 ? (int)n - 1 : 1, n > 1 ? processes->text : "?");
	for (char *at = ret_name; *at; at++)
		if (!isgraph((unsigned char)*at) || strchr("(),\"", *at))
			*at = '?';
}

/* ---- who lives ------------------------------------------------------------------------------------------
 */

int processes_new(const char *proc, struct processes **ret_processes)
{
	struct processes *processes = calloc(1, sizeof(*processes));
	char path[PATH_MAX];

	if (!processes)
		return -ENOMEM;
	table_init(&processes->by_pid);
	processes->proc = strdup(proc);
	processes->text = malloc(TEXT_MAX);
	processes->ended_fd = epoll_create1(EPOLL_CLOEXEC);
	snprintf(path, sizeof(path), "%.4000s/self/ns/time", proc);
	processes->time_namespace = owner_read_namespace(path);
	if (!processes->proc || !processes->text || processes->ended_fd < 0) {
		processes_free(processes);
		return -ENOMEM;
	}
	*ret_processes = processes;
	return 0;
}

static void process_forget(struct processes *processes, struct process *process)
{
	char key[16];

	table_remove(&processes->by_pid, pid_key(process->pid, key, sizeof(key)));
	if (process->pidfd >= 0)
		close(process->pidfd);
	free(process);
}

void processes_free(struct processes *processes)
{
	struct process *process;

	if (!processes)
		return;
	table_for_each (&processes->by_pid, cursor, process)
		process_forget(processes, process);
	table_release(&processes->by_pid);
	close_ptr(&processes->ended_fd);
	free(processes->text);
	free(processes->proc);
	free(processes);
}

uint64_t processes_now(void)
{
	return (uint64_t)clock_read_ns(CLOCK_BOOTTIME) / (uint64_t)(NS_PER_S / sysconf(_SC_CLK_TCK));
}

static void forget_ended(struct processes *processes)
{
	struct epoll_event ended[64];
	char key[16];
	int n;

	do {
		n = epoll_wait(processes->ended_fd, ended, ARRAY_SIZE(ended), 0);
		for (int i = 0; i < n; i++) {
			struct process *process = table_get(
				&processes->by_pid, pid_key((pid_t)ended[i].data.u32, key, sizeof(key)));

			if (process)
				process_forget(processes, process);
		}
	} while (n == ARRAY_SIZE(ended));
}

void processes_begin(struct processes *processes)
{
	int64_t now = monotonic_ns();
	struct process *process;

	forget_ended(processes);
	table_for_each (&processes->by_pid, cursor, process)
		if (process->pidfd < 0 || now - process->read_ns > KEEP_NS)
			process_forget(processes, process);
}

/* Returns -1 if the kernel has no pidfds, or if too many are open. */
static int watch_end(const struct processes *processes, pid_t pid)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)pid};
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd >= 0 && epoll_ctl(processes->ended_fd, EPOLL_CTL_ADD, pidfd, &event) < 0) {
		close(pidfd);
		pidfd = -1;
	}
	return pidfd;
}

/* Opens the pidfd before it reads /proc: as long as the pidfd reports no end, what was read is that
 * process's. */
static struct process *process_meet(struct processes *processes, pid_t pid)
{
	struct process *process = processes->by_pid.count < PROCESSES_MAX ? calloc(1, sizeof(*process))
									  : NULL;
	int pidfd = watch_end(processes, pid);
	char key[16];

	if (!process || process_read(processes, pid, process) < 0) {
		free(process);
		process = NULL;
	}
	if (process && table_set(&processes->by_pid, pid_key(pid, key, sizeof(key)), process) < 0) {
		free(process);
		process = NULL;
	}
	if (process)
		process->pidfd = pidfd;
	else if (pidfd >= 0)
		close(pidfd);
	return process;
}

const struct process *processes_get(struct processes *processes, pid_t pid, uint64_t at)
{
	char key[16];
	struct process *process = table_get(&processes->by_pid, pid_key(pid, key, sizeof(key)));

	if (!process)
		process = process_meet(processes, pid);
	/* A process that started in the same tick may be the old or the new one; the next sample tells. */
	return process && process->owner.start_ticks <= at ? process : NULL;
}
