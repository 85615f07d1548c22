/* main.c - starts ration-agent: the command line, then the uninstall hook or the supervisor. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/container/delivery.h"
#include "agent/node/leave.h"
#include "agent/options.h"
#include "agent/supervisor.h"
#include "agent/uninstall.h"
#include "base/error.h"
#include "base/log.h"
#include "net/loop.h"

/* One for each container with a grant, one for each process that holds memory of a GPU, and some more. */
#define DESCRIPTORS 4096
#define DESCRIPTORS_MAX 65536

/* descriptors_reserve() - raises the limit of open files to the system's maximum, at most 64 Ki, and makes
 * the kernel allocate its table for the first `n` of them now. Call it before the first thread. If the table
 * grows while a process has several threads, open() waits until every processor has switched tasks
 * (expand_fdtable() in fs/file.c calls synchronize_rcu()). That took 13 to 24 ms each time, measured with
 * Linux 6.18. Failures are ignored. */
static void descriptors_reserve(unsigned int n)
{
	struct rlimit limit;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_cur < limit.rlim_max && limit.rlim_cur < DESCRIPTORS_MAX) {
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)(n < limit.rlim_cur ? n : limit.rlim_cur) - 1);
	if (fd >= 0)
		close(fd);
}

/* glibc keeps what was freed at the end of the heap, 128 KiB of it and more, and a heap for each thread. The
 * agent needs most memory while it starts, then little for long. */
static void heap_stays_small(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 4 << 10);
	mallopt(M_TRIM_THRESHOLD, 32 << 10);
}

static void on_signal(void *userdata, int signo)
{
	struct agent *agent = userdata;

	log_info("stopping (signal %d)", signo);
	/* A second signal means that the sender does not want to wait. */
	if (agent->leave || leave_start(agent->loop, agent->client, &agent->node, true, &agent->leave) < 0)
		loop_quit(agent->loop, 0);
}

/* The process that does the agent's work, until a signal ends it. */
static int worker_run(
	const struct options *options, struct relay_ends ends, struct dra_kept *kept, unsigned int respawns)
{
	struct agent agent = {.options = *options, .relays = ends, .kept = kept, .respawns = respawns};
	char checkpoint[4096];
	struct error err = {""};
	int r;

	descriptors_reserve(DESCRIPTORS);
	if (!options->checkpoint) {
		snprintf(checkpoint, sizeof(checkpoint), "%s/kubelet_internal_checkpoint",
			options->plugin_dir);
		agent.options.checkpoint = checkpoint;
	}
	r = loop_new(&agent.loop);
	if (r == 0)
		r = loop_add_signal(agent.loop, SIGTERM, on_signal, &agent);
	if (r == 0)
		r = loop_add_signal(agent.loop, SIGINT, on_signal, &agent);
	if (r < 0)
		error_set(&err, -r, "cannot create the event loop");
	else
		r = agent_start(&agent, &err);
	if (r == 0)
		r = loop_run(agent.loop);
	else
		log_error("%s", err.text);
	if (r == 0 && agent.uninstalled)
		delivery_clear(agent.delivery);
	agent_stop(&agent);
	loop_free(agent.loop);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options options;
	int r = agent_options_parse(argc, argv, &options);

	if (r >= 0)
		return r;
	heap_stays_small();
	log_open("ration-agent", options.log_level);
	signal(SIGPIPE, SIG_IGN);
	if (options.uninstall)
		return uninstall(&options);
	return supervise(&options, worker_run, leave_alone);
}
