/* client.c - the first process of a run. It has no memory of the GPU itself: it starts workers, kills them,
 * replaces them, and says on standard output how far it is; standard input tells it to go on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/campaign/client.h"

#define STUCK_NS (30 * NS_PER_S)
#define UNBORN_NS                                                                                            \
	(5 * NS_PER_S) /* a slot whose process was never started, since who wanted it was killed             \
			*/

struct plan {
	unsigned processes;
	unsigned seconds_ms;
	unsigned kill_ms;	    /* a worker is killed about so often; 0: none */
	unsigned namespace_percent; /* of the workers that live in a pid namespace of their own */
};

static struct board *board;
static struct plan plan;
static struct caller self; /* only its random numbers */
static unsigned kills, in_namespaces;

static void say(const char *word, long number)
{
	printf("%s %ld\n", word, number);
	fflush(stdout);
}

/* ---- workers --------------------------------------------------------------------------------------------
 */

/* A new pid namespace begins with the next child. The one between sees the child's number as the first
 * process does, and waits for it; with it all of the namespace ends. */
static void live_in_namespace(int number, bool own_proc)
{
	struct slot *slot = &board->slots[number];
	char text[16];
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "%d", number);
	pid = unshare(CLONE_NEWPID | (own_proc ? CLONE_NEWNS : 0)) < 0 ? -1 : fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (own_proc) {
			mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
			mount("proc", "/proc", "proc", 0, NULL);
		}
		execl("/proc/self/exe", "campaign-client", "worker", text, "inside", NULL);
		_exit(127);
	}
	if (pid < 0)
		worker_forget(board, slot);
	else
		atomic_store(&slot->pid, pid);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void start(unsigned number)
{
	struct slot *slot = &board->slots[number];
	bool in_namespace = caller_random(&self, 100) < plan.namespace_percent;
	bool own_proc = caller_random(&self, 2);

	atomic_store(&slot->taken, 1);
	if (!in_namespace) {
		atomic_store(&slot->pid, worker_start((int)number));
		return;
	}
	in_namespaces++;
	if (fork() == 0)
		live_in_namespace((int)number, own_proc);
}

/* A process that has ended and that its parent, a worker, has not waited for yet is gone as well. While other
 * threads of it still end, its memory is there. */
static bool is_there(pid_t pid)
{
	char path[32], text[512] = "", *after_name, state = 'X';
	long threads = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	after_name = strrchr(text, ')');
	/* state, and num_threads, the 17th field behind it: proc_pid_stat(5) */
	if (!after_name ||
		sscanf(after_name, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld",
			&state, &threads) != 2)
		return false;
	return (state != 'Z' && state != 'X') || threads > 1;
}

/* Those that have ended, orphans among them. A slot is free once nobody of that number is there. */
static void reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		struct slot *slot = &board->slots[i];
		int32_t pid = atomic_load(&slot->pid);

		if (atomic_load(&slot->taken) && pid > 0 && !is_there(pid))
			worker_forget(board, slot);
	}
}

static void kill_one(void)
{
	unsigned first = (unsigned)caller_random(&self, SLOTS_MAX);

	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		int32_t pid = atomic_load(&board->slots[(first + i) % SLOTS_MAX].pid);

		if (pid <= 0)
			continue;
		kill(pid, SIGKILL);
		kills++;
		return;
	}
}

static void mix(void)
{
	int64_t end = monotonic_ns() + plan.seconds_ms * NS_PER_MS, next_kill = 0;

	while (monotonic_ns() < end) {
		reap();
		for (unsigned i = 0; i < plan.processes; i++)
			if (!atomic_load(&board->slots[i].taken))
				start(i);
		if (plan.kill_ms && monotonic_ns() > next_kill) {
			if (next_kill)
				kill_one();
			next_kill = monotonic_ns() +
				    (int64_t)caller_random(&self, 2 * plan.kill_ms) * NS_PER_MS;
		}
		usleep(5000);
	}
}

/* ---- what the others are told ---------------------------------------------------------------------------
 */

/* What each thread of the process does: the system call with its arguments and the program
 * counter (proc_pid_syscall(5)). */
static void tell_threads(pid_t pid)
{
	char path[64], syscall[256];
	struct dirent *entry;
	FILE *file;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/syscall", pid, entry->d_name);
		file = fopen(path, "re");
		if (!file || !fgets(syscall, sizeof(syscall), file))
			strcpy(syscall, "cannot be read");
		if (file)
			fclose(file);
		syscall[strcspn(syscall, "\n")] = '\0';
		fprintf(stderr, "stuck: process %d, thread %.20s: %s\n", pid, entry->d_name, syscall);
	}
	if (tasks)
		closedir(tasks);
}

/* All that live have come so far. A process that never does is told of, and killed. */
static void stage(enum stage stage)
{
	int64_t begin = monotonic_ns();

	atomic_store(&board->stage, stage);
	for (;;) {
		bool all = true;

		reap();
		for (unsigned i = 0; i < SLOTS_MAX; i++) {
			struct slot *slot = &board->slots[i];

			if (!atomic_load(&slot->taken) || atomic_load(&slot->reached) >= stage)
				continue;
			all = false;
			if (atomic_load(&slot->pid) == 0 && monotonic_ns() - begin > UNBORN_NS) {
				worker_forget(board, slot);
			} else if (monotonic_ns() - begin > STUCK_NS) {
				fprintf(stderr, "stuck: slot %u on its way to stage %d\n", i, (int)stage);
				tell_threads(atomic_load(&slot->pid));
				kill(atomic_load(&slot->pid), SIGKILL);
			}
		}
		if (all)
			return;
		usleep(2000);
	}
}

static long order(enum order order)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		struct slot *slot = &board->slots[i];

		if (!atomic_load(&slot->taken) || atomic_load(&slot->reached) < STAGE_HOLD)
			continue;
		atomic_store(&slot->order, order);
		while (atomic_load(&slot->order) != ORDER_NONE && is_there(atomic_load(&slot->pid)))
			usleep(1000);
		return atomic_load(&slot->pieces);
	}
	return -1;
}

static void print_counts(void)
{
	printf("counts {\"kills\": %u, \"namespaces\": %u, \"forks\": %llu, \"processes\": %llu", kills,
		in_namespaces, (unsigned long long)atomic_load(&board->children),
		(unsigned long long)atomic_load(&board->last_seed));
	for (int i = 0; i < KIND_MAX; i++)
		printf(", \"%s\": [%llu, %llu, %llu]", kind_names[i],
			(unsigned long long)atomic_load(&board->calls[i]),
			(unsigned long long)atomic_load(&board->refused[i]),
			(unsigned long long)atomic_load(&board->failed[i]));
	puts("}");
	fflush(stdout);
}

static void await_word(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

/* ---- programs -------------------------------------------------------------------------------------------
 */

/* A process that was not there before: what it gets is what the run may have. */
static int fresh(void)
{
	static CUdeviceptr pieces[4096];
	CUcontext context;
	CUresult r;

	if (!driver_load() || cu.cuInit(0) != CUDA_SUCCESS)
		return 1;
	r = cu.cuCtxCreate_v2(&context, 0, 0);
	say("filled", r == CUDA_SUCCESS ? (long)fill(pieces, 4096) : -(long)r);
	await_word();
	return 0;
}

/* Asks for what is missing until it is there. Returns in how many ms in which it ran itself: of a gap, 10 ms
 * count. */
static unsigned fill_patiently(CUdeviceptr *pieces, unsigned *count, unsigned expected, unsigned *ret_missing)
{
	int64_t waited = 0, before = 0;

	for (;;) {
		int64_t now;

		*count += fill(pieces + *count, expected - *count);
		now = monotonic_ns();
		if (*count == expected || waited > 5 * NS_PER_S)
			return (unsigned)(waited / NS_PER_MS);
		if (before == 0)
			*ret_missing = expected - *count;
		else
			waited += now - before < 10 * NS_PER_MS ? now - before : 10 * NS_PER_MS;
		before = now;
		usleep(1000);
	}
}

/* Takes all of its grant again and again, at last as a program that does not ask twice. */
static int neighbour(unsigned expected)
{
	static CUdeviceptr pieces[4096];
	struct pollfd in = {.fd = 0, .events = POLLIN};
	CUcontext context;
	unsigned count = 0;

	if (!driver_load() || cu.cuInit(0) != CUDA_SUCCESS ||
		cu.cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
		return 1;
	say("ready", 0);
	while (poll(&in, 1, 0) == 0) {
		unsigned missing = 0, ms = fill_patiently(pieces, &count, expected, &missing);

		printf("cycle %u %u %u\n", count, missing, ms);
		fflush(stdout);
		usleep(200000);
		while (count > 0)
			cu.cuMemFree_v2(pieces[--count]);
		usleep(50000);
	}
	await_word();
	say("filled", (long)fill(pieces, 4096));
	await_word();
	return 0;
}

static int make_board(void)
{
	int fd = (int)syscall(SYS_memfd_create, "campaign", 0), life[2];

	if (pipe2(life, O_CLOEXEC) < 0 || dup2(life[0], LIFE_FD) < 0 || fd < 0 ||
		ftruncate(fd, sizeof(*board)) < 0 || dup2(fd, BOARD_FD) < 0)
		return -1;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
	return board == MAP_FAILED ? -1 : 0;
}

static int run(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	say("ready", getpid());
	mix();
	stage(STAGE_HOLD);
	print_counts();
	say("held", 0);
	await_word();
	say("filled", order(ORDER_FILL));
	await_word();
	order(ORDER_EMPTY);
	stage(STAGE_FREE);
	say("freed", 0);
	await_word();
	say("filled", order(ORDER_FILL));
	await_word();
	atomic_store(&board->stage, STAGE_END);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	return fresh();
}

static bool read_options(int argc, char **argv)
{
	static const struct option options[] = {{"seed", 1, NULL, 's'}, {"threads", 1, NULL, 't'},
		{"processes", 1, NULL, 'p'}, {"ms", 1, NULL, 'm'}, {"kill-ms", 1, NULL, 'k'},
		{"namespaces", 1, NULL, 'n'}, {"kinds", 1, NULL, 'c'}, {"budget-mib", 1, NULL, 'b'},
		{"largest-mib", 1, NULL, 'l'}, {"context-mib", 1, NULL, 'x'}, {"nap-us", 1, NULL, 'u'},
		{"forks", 0, NULL, 'f'}, {}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		uint64_t value = optarg && c != 'c' ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 's':
			board->seed = value;
			break;
		case 't':
			board->threads = value < THREADS_MAX ? (uint32_t)value : THREADS_MAX;
			break;
		case 'p':
			plan.processes = value < SLOTS_MAX / 2 ? (unsigned)value : SLOTS_MAX / 2;
			break;
		case 'm':
			plan.seconds_ms = (unsigned)value;
			break;
		case 'k':
			plan.kill_ms = (unsigned)value;
			break;
		case 'n':
			plan.namespace_percent = (unsigned)value;
			break;
		case 'c':
			for (char *word = strtok(optarg, ","); word; word = strtok(NULL, ","))
				for (int i = 0; i < KIND_MAX; i++)
					board->kinds |= (uint32_t)(strcmp(word, kind_names[i]) == 0) << i;
			break;
		case 'b':
			board->budget = value * MIB;
			break;
		case 'l':
			board->largest = value * MIB;
			break;
		case 'x':
			board->context_bytes = value * MIB;
			break;
		case 'u':
			board->nap_us = (uint32_t)value;
			break;
		case 'f':
			board->forks = true;
			break;
		default:
			return false;
		}
	}
	return board->kinds && board->threads && plan.processes && board->largest;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "worker") == 0)
		return worker_main(atoi(argv[2]), argc > 3);
	if (argc == 3 && strcmp(argv[1], "neighbour") == 0)
		return neighbour((unsigned)atoi(argv[2]));
	if (make_board() < 0 || !read_options(argc, argv)) {
		fprintf(stderr, "campaign-client: started by tests/campaign/campaign\n");
		return 2;
	}
	self.random = board->seed * 1000003 + 7;
	return run();
}
