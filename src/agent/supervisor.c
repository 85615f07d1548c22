#include "agent/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/dra/deps.h"
#include "agent/kubelet/core-plugin.h"
#include "agent/kubelet/front.h"
#include "agent/kubelet/plugin.h"
#include "agent/options.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "net/loop.h"

/* If this many workers in a row live less than a second, they are in a crash loop: from then on the next one
 * waits. */
#define YOUNG_NS (1 * NS_PER_S)
#define YOUNG_DEATHS 5
#define FIRST_WAIT_NS (1 * NS_PER_S)
#define LAST_WAIT_NS (8 * NS_PER_S)
#define WATCH_NS (5 * NS_PER_S)
#define LOCK_AGAIN_NS (100 * NS_PER_MS)
#define STOP_WITHIN_NS (8 * NS_PER_S) /* shorter than the time that the chart gives the pod */

struct supervisor {
	const struct options *options;
	worker_fn run;
	notify_fn notify;
	struct loop *loop;
	struct front *fronts[PLUGINS];
	struct loop_timer *timer; /* starts the worker; when stopping, ends it */
	struct loop_timer *watch; /* checks whether the worker still answers */
	struct dra_kept *kept;	  /* shared with the workers */
	int lock_fd;
	bool may_run, waits_for_lock, stopping;
	bool may_notify; /* the supervisor is stopping, and there is time for a notification */
	struct {
		pid_t pid; /* 0: there is no worker */
		int64_t started_ns, died_ns;
		unsigned int respawns;
		unsigned int young_deaths; /* workers in a row that died young */
		int64_t wait_ns;	   /* the wait in a crash loop */
	} worker;
};

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* No file of the supervisor may stay open here, or its sockets would outlive it in this process. */
static void close_all_but(int *fds, size_t n)
{
	int first = STDERR_FILENO + 1;

	qsort(fds, n, sizeof(*fds), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] > first)
			close_range((unsigned int)first, (unsigned int)fds[i] - 1, 0);
		if (fds[i] >= first)
			first = fds[i] + 1;
	}
	close_range((unsigned int)first, UINT_MAX, 0);
}

/* ends NULL: runs notify. */
static int child_main(const struct supervisor *s, const struct relay_ends *ends, pid_t parent)
{
	int fds[PLUGINS + 2];
	size_t n = 0;
	sigset_t none;

	/* Without a pid namespace of its own, the kernel does not end this process with its parent. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return EXIT_FAILURE;
	if (ends) {
		memcpy(fds, ends->fds, sizeof(ends->fds));
		n = PLUGINS;
		fds[n++] = s->kept->plugin.fd;
		fds[n++] = s->kept->registration.fd;
	}
	close_all_but(fds, n);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return ends ? s->run(s->options, *ends, s->kept, s->worker.respawns) : s->notify(s->options);
}

static void close_all(const int *fds)
{
	for (int i = 0; i < PLUGINS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Takes all of them over in any case. */
static bool attach_all(struct supervisor *s, const int *fds)
{
	bool attached = true;

	for (int i = 0; i < PLUGINS; i++)
		attached &= front_attach(s->fronts[i], fds[i]) == 0;
	return attached;
}

/* The descriptors of a plugin without a pair are -1. */
static int make_pairs(int *ours, struct relay_ends *theirs)
{
	int pair[2], r = 0;

	for (int i = 0; i < PLUGINS; i++) {
		ours[i] = theirs->fds[i] = -1;
		if (r == 0)
			r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
		if (r == 0) {
			ours[i] = pair[0];
			theirs->fds[i] = pair[1];
		}
	}
	return r;
}

static void supervisor_start(struct supervisor *s)
{
	struct relay_ends theirs;
	pid_t parent = getpid();
	int ours[PLUGINS];

	s->worker.respawns += s->worker.died_ns != 0;
	s->worker.pid = make_pairs(ours, &theirs) == 0 ? fork() : -1;
	if (s->worker.pid < 0) {
		log_error("cannot start the worker: %s; trying again", strerror(errno));
		s->worker.pid = 0;
		loop_timer_set(s->timer, FIRST_WAIT_NS);
		close_all(ours);
		close_all(theirs.fds);
		return;
	}
	if (s->worker.pid == 0)
		exit(child_main(s, &theirs, parent));
	close_all(theirs.fds);
	s->worker.started_ns = monotonic_ns();
	if (!attach_all(s, ours)) {
		log_error("cannot talk to the worker: out of memory");
		kill(s->worker.pid, SIGKILL);
	}
	if (s->worker.died_ns)
		log_info("worker %d was started %.1f ms after the end of the one before", (int)s->worker.pid,
			(double)(s->worker.started_ns - s->worker.died_ns) / NS_PER_MS);
}

/* The scheduler must learn that this node does not serve, whatever happened to the worker. */
static void supervisor_notify(struct supervisor *s)
{
	pid_t parent = getpid();

	s->may_notify = false;
	s->worker.pid = fork();
	if (s->worker.pid == 0)
		exit(child_main(s, NULL, parent));
	if (s->worker.pid > 0)
		return;
	log_error("cannot tell the scheduler that this agent goes: %s", strerror(errno));
	s->worker.pid = 0;
	loop_quit(s->loop, EXIT_FAILURE);
}

/* There is one agent per node: two would take the plugin's socket, and pods, from each other. The lock is
 * held until the fd is closed, at the latest when the process dies. -EBUSY with a sentence that names the
 * process that has it; other errors if a lock is impossible (a directory that cannot be written). */
static int lock_node(const char *dir, int *ret_fd, struct error *err)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], text[32] = "";
	ssize_t n;

	snprintf(path, sizeof(path), "%s/agent.lock", dir);
	fs_mkdir_parents(dir, 0755);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = errno == EWOULDBLOCK ? EBUSY : errno;

		n = read(fd, text, sizeof(text) - 1);
		text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
		return error_set(
			err, r, "another ration-agent (process %s by its own count) holds %s", text, path);
	}
	/* The text is only for users: the lock belongs to the kernel. */
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) < 0)
		text[0] = '\0';
	*ret_fd = TAKE_FD(&fd);
	return 0;
}

/* Returns whether this is the only agent here, as far as it can know. */
static bool supervisor_lock(struct supervisor *s)
{
	struct error err = {""};
	int r = lock_node(s->options->state_dir, &s->lock_fd, &err);

	if (r == -EBUSY) {
		if (!s->waits_for_lock)
			log_warning(
				"%s: waiting until it ends. Two agents on one node are a mistake, unless one is just being replaced",
				err.text);
		s->waits_for_lock = true;
		return false;
	}
	if (r < 0)
		log_warning("%s: going on without making sure that no other agent runs here", err.text);
	return true;
}

static void on_timer(void *userdata)
{
	struct supervisor *s = userdata;

	if (s->stopping) {
		s->may_notify = false;
		if (!s->worker.pid) /* kill(0) would reach the whole process group */
			return;
		log_warning("the worker does not end: killing it");
		kill(s->worker.pid, SIGKILL);
		return;
	}
	if (!s->may_run)
		s->may_run = supervisor_lock(s);
	if (s->may_run)
		supervisor_start(s);
	else
		loop_timer_set(s->timer, LOCK_AGAIN_NS);
}

/* How long the next worker must wait: not at all, unless workers die one after the other. */
static int64_t supervisor_wait(struct supervisor *s)
{
	bool young = s->worker.died_ns - s->worker.started_ns < YOUNG_NS;

	s->worker.young_deaths = young ? s->worker.young_deaths + 1 : 0;
	if (s->worker.young_deaths < YOUNG_DEATHS)
		return s->worker.wait_ns = 0;
	s->worker.wait_ns = s->worker.wait_ns ? s->worker.wait_ns * 2 : FIRST_WAIT_NS;
	if (s->worker.wait_ns > LAST_WAIT_NS)
		s->worker.wait_ns = LAST_WAIT_NS;
	return s->worker.wait_ns;
}

static void supervisor_worker_ended(struct supervisor *s, int status)
{
	char text[100];
	bool stays_away;
	int64_t wait_ns;

	s->worker.died_ns = monotonic_ns();
	s->worker.pid = 0;
	for (int i = 0; i < PLUGINS; i++)
		front_detach(s->fronts[i]);
	stays_away = !front_worker_ready(s->fronts[PLUGIN_OF_MEM]) && WIFEXITED(status);
	if (s->may_notify && WIFSIGNALED(status)) {
		supervisor_notify(s);
		return;
	}
	/* The worker reports that it cannot work from the start. Users see that in the kubelet's
	 * CrashLoopBackOff. */
	if (s->stopping || stays_away || (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)) {
		loop_quit(s->loop, WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		snprintf(text, sizeof(text), "ended with status %d", WEXITSTATUS(status));
	wait_ns = supervisor_wait(s);
	if (wait_ns == 0) {
		log_warning("the worker %s after %.1f s; calls of the kubelet wait for the next one", text,
			(double)(s->worker.died_ns - s->worker.started_ns) / NS_PER_S);
		supervisor_start(s);
		return;
	}
	log_error(
		"the worker %s, as %u before it, and none of them lived for a second: the next one starts in %lld s. Running containers are not touched, new pods with GPUs wait. The lines above say why; if there are no such lines, see the kernel's log (dmesg) and the pod's memory limit",
		text, s->worker.young_deaths - 1, (long long)(wait_ns / NS_PER_S));
	loop_timer_set(s->timer, wait_ns);
}

/* Handles all children: the first process of a container inherits those of other processes. */
static void on_child(void *userdata, int signo)
{
	struct supervisor *s = userdata;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == s->worker.pid)
			supervisor_worker_ended(s, status);
}

static void on_signal(void *userdata, int signo)
{
	struct supervisor *s = userdata;

	if (!s->may_run) {
		log_info("stopping (signal %d)", signo);
		loop_quit(s->loop, EXIT_SUCCESS);
		return;
	}
	if (!s->stopping)
		loop_timer_set(s->timer, STOP_WITHIN_NS);
	s->may_notify = !s->stopping; /* a second signal means that the sender does not want to wait */
	s->stopping = true;
	if (s->worker.pid) {
		kill(s->worker.pid, signo);
		return;
	}
	log_info("stopping (signal %d) while no worker lives", signo);
	supervisor_notify(s);
}

static void on_watch(void *userdata)
{
	struct supervisor *s = userdata;

	bool hangs = false;

	loop_timer_set(s->watch, WATCH_NS);
	for (int i = 0; i < PLUGINS; i++)
		hangs |= front_worker_hangs(s->fronts[i]);
	if (!s->worker.pid || !hangs)
		return;
	log_error(
		"the worker has not answered the kubelet for 30 s, so it is killed; it may hang in the NVIDIA driver: see the kernel's log (dmesg)");
	kill(s->worker.pid, SIGKILL);
}

/* What outlives the workers that serve claims. */
static int supervisor_open_kept(struct supervisor *s)
{
	struct kept_socket *sockets[2];

	s->kept = mmap(NULL, sizeof(*s->kept), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->kept == MAP_FAILED)
		return -errno;
	sockets[0] = &s->kept->plugin;
	sockets[1] = &s->kept->registration;
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		sockets[i]->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (sockets[i]->fd < 0)
			return -errno;
	}
	return 0;
}

static int supervisor_init(struct supervisor *s)
{
	static const char *const endpoints[PLUGINS] = {
		[PLUGIN_OF_MEM] = PLUGIN_ENDPOINT,
		[PLUGIN_OF_CORE] = CORE_PLUGIN_ENDPOINT,
		[PLUGIN_OF_GPU] = GPU_PLUGIN_ENDPOINT,
	};
	int r = supervisor_open_kept(s);

	if (r == 0)
		r = loop_new(&s->loop);
	if (r == 0)
		r = loop_add_signal(s->loop, SIGTERM, on_signal, s);
	if (r == 0)
		r = loop_add_signal(s->loop, SIGINT, on_signal, s);
	if (r == 0)
		r = loop_add_signal(s->loop, SIGCHLD, on_child, s);
	if (r == 0)
		r = loop_add_timer(s->loop, on_timer, s, &s->timer);
	if (r == 0)
		r = loop_add_timer(s->loop, on_watch, s, &s->watch);
	for (int i = 0; i < PLUGINS && r == 0; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", s->options->plugin_dir, endpoints[i]);
		r = front_new(s->loop, path, &s->fronts[i]);
	}
	return r;
}

int supervise(const struct options *options, worker_fn run, notify_fn notify)
{
	struct supervisor s = {.options = options, .run = run, .notify = notify, .lock_fd = -1};
	int r = supervisor_init(&s);

	if (r == 0) {
		loop_timer_set(s.timer, 0);
		loop_timer_set(s.watch, WATCH_NS);
		r = loop_run(s.loop);
	}
	if (r < 0)
		log_error("cannot go on: %s", strerror(-r));
	for (int i = 0; i < PLUGINS; i++)
		front_free(s.fronts[i]);
	loop_free(s.loop);
	if (s.lock_fd >= 0)
		close(s.lock_fd);
	return r < 0 ? EXIT_FAILURE : r;
}
