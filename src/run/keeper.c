#include "run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grant/account.h"
#include "grant/outside.h"
#include "grant/overhead.h"
#include "grant/owner.h"
#include "grant/reserve.h"
#include "grant/usage.h"
#include "model/correction.h"
#include "nvml/nvml.h"
#include "run/power.h"
#include "run/registry.h"

#define ROUND_NS (100 * NS_PER_MS) /* how often the end of a run is checked */
#define DESCRIPTORS_MAX 1024
#define READY "ready"	       /* what the keeper writes to `ration run` */
#define CALLS_END_NS NS_PER_MS /* the time in which calls that are under way usually end */
#define LOOK_NS NS_PER_S       /* without a request: some memory grows by itself (local memory, printf) */

struct keeper {
	char folder[PATH_MAX];
	const char *nvml_library;
	struct grant_file *grant;
	struct usage_file *usage;
	struct account *account;
	struct owner self;
	int usage_fd;
	struct nvml *nvml; /* NULL until it could be opened */
	struct nvml_process processes[NVML_MAX_PROCESSES];
	struct overhead_process known[GRANT_FILE_GPUS_MAX][NVML_MAX_PROCESSES]; /* the run's */
	size_t n_known[GRANT_FILE_GPUS_MAX];
	struct usage_peek_slot before[USAGE_FILE_SLOTS], after[USAGE_FILE_SLOTS];
	int n_after;
	int64_t paused_ns, search_again_ns[GRANT_FILE_GPUS_MAX];
	struct power *power; /* NULL: out of memory */
	struct nvml_process_use uses[NVML_MAX_PROCESSES];
	uint64_t since_us[GRANT_FILE_GPUS_MAX];
};

/* The identity of a process counts, not its number: a process has another number inside a pid namespace of
 * its own. */
static bool is_of_the_run(const struct keeper *keeper, pid_t pid, struct owner *ret_owner)
{
	if (outside_read("/proc", pid, keeper->self.time_namespace, ret_owner) < 0)
		return false;
	for (int i = 0; i < keeper->n_after; i++)
		if (usage_slot_is_of(&keeper->after[i], ret_owner))
			return true;
	return false;
}

static int read_slots(struct keeper *keeper, unsigned gpu, struct usage_peek_slot *ret_slots)
{
	struct usage_peek peek;
	int r = usage_peek(keeper->usage_fd, gpu + 1, &peek);

	return r < 0 ? r : usage_peek_slots(keeper->usage_fd, &peek, gpu, ret_slots);
}

static size_t processes_of_the_run(
	struct keeper *keeper, size_t count, struct overhead_process *ret_processes)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		struct overhead_process *process = &ret_processes[n];

		*process = (struct overhead_process){
			.bytes = keeper->processes[i].bytes, .pid = keeper->processes[i].pid};
		if (!is_of_the_run(keeper, process->pid, &process->owner))
			continue;
		if (overhead_is_ambiguous(&process->owner, keeper->after, (size_t)keeper->n_after))
			process->owner.image = outside_image("/proc", process->pid);
		n++;
	}
	return n;
}

static int look_at_gpu(struct keeper *keeper, unsigned gpu, uint32_t looked_for, struct overhead *ret_found)
{
	_cleanup_free_ struct overhead_process *processes = NULL;
	int n_before;
	size_t count, n;
	bool known;
	int r;

	/* Processes that have ended must hold nothing, even if no process asks for memory. */
	if (keeper->account)
		account_used_bytes(keeper->account, gpu);
	n_before = read_slots(keeper, gpu, keeper->before);
	r = n_before < 0
		    ? n_before
		    : nvml_processes(keeper->nvml, keeper->grant->gpus[gpu].uuid, keeper->processes, &count);
	if (r == 0)
		r = keeper->n_after = read_slots(keeper, gpu, keeper->after);
	if (r < 0) {
		keeper->n_after = 0;
		return r;
	}
	processes = calloc(count + 1, sizeof(*processes));
	if (!processes)
		return -ENOMEM;
	n = processes_of_the_run(keeper, count, processes);
	overhead_recall(processes, n, keeper->known[gpu], keeper->n_known[gpu]);
	overhead_compute(processes, n, keeper->before, (size_t)n_before, keeper->after,
		(size_t)keeper->n_after, ret_found);
	memcpy(keeper->known[gpu], processes, n * sizeof(*processes));
	keeper->n_known[gpu] = n;
	/* The order matters. What dead processes leave to others is counted before their charge may be
	 * dropped. That is dropped before a refused call that waits for this sample looks for room again. */
	grant_file_raise_overhead(keeper->grant, gpu, ret_found->overhead_bytes);
	known = outside_note_dead("/proc", keeper->self.time_namespace, keeper->grant, keeper->after,
			(size_t)keeper->n_after, processes, n, &keeper->search_again_ns[gpu]) &&
		!ret_found->moved && !ret_found->doubtful;
	grant_file_publish_overhead(
		keeper->grant, gpu, ret_found->overhead_bytes, looked_for, ret_found->guessed);
	if (known)
		atomic_store(&keeper->grant->live[gpu].known_for, GRANT_KNOWN | looked_for);
	if (ret_found->context_bytes)
		atomic_store(&keeper->grant->live[gpu].context_bytes, ret_found->context_bytes);
	return 0;
}

static int look_at_gpus(struct keeper *keeper, uint32_t looked_for, struct overhead *ret_found)
{
	struct overhead all = {0}, found;
	int r = 0;

	for (unsigned i = 0; i < keeper->grant->gpu_count; i++) {
		if (look_at_gpu(keeper, i, looked_for, &found) < 0) {
			r = -EIO;
			continue;
		}
		all.moved |= found.moved;
		all.guessed |= found.guessed;
	}
	*ret_found = all;
	return r;
}

/* True if a process has asked for a sample, and no complete sample was taken since. */
static bool is_asked(const struct keeper *keeper, uint32_t looked_for)
{
	for (unsigned i = 0; i < keeper->grant->gpu_count; i++)
		if (!grant_was_known(keeper->grant, i, looked_for))
			return true;
	return false;
}

/* If the driver cannot report a value, the old one stays; the limit of what is charged works without it. */
static void look(struct keeper *keeper, uint32_t looked_for)
{
	struct overhead found;
	struct error ignored;
	int r;

	/* This is done early, because it may take longer than a program waits for a sample. */
	if (!keeper->nvml && nvml_open(&keeper->nvml, keeper->nvml_library, &ignored) < 0) {
		usage_file_keep(keeper->usage_fd, false);
		return;
	}
	if (atomic_load(&keeper->usage->slots_used) == 0)
		return;
	r = look_at_gpus(keeper, looked_for, &found);
	if (r == 0 && overhead_wants_pause(
			      &found, is_asked(keeper, looked_for), monotonic_ns() - keeper->paused_ns)) {
		keeper->paused_ns = monotonic_ns();
		atomic_store(&keeper->grant->live[0].pause, (uint64_t)keeper->paused_ns);
		nanosleep(&(struct timespec){.tv_nsec = CALLS_END_NS}, NULL);
		r = look_at_gpus(keeper, looked_for, &found);
		atomic_store(&keeper->grant->live[0].pause, 0);
	}
	usage_file_keep(keeper->usage_fd, r == 0);
}

/* Sums the living processes over all GPUs of the run. */
static uint64_t who_lives(struct keeper *keeper)
{
	uint32_t slots = atomic_load(&keeper->usage->slots_used);
	uint64_t who = 0;

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		const struct usage_slot *slot = &keeper->usage->slots[i];
		uint64_t owner = atomic_load(&slot->owner);

		if (OWNER_PID(owner) && !owner_is_dead(&keeper->self, slot, owner))
			who += correction_who((int64_t)OWNER_PID(owner));
	}
	return who;
}

static void look_at_use(struct keeper *keeper, unsigned gpu)
{
	const char *uuid = keeper->grant->gpus[gpu].uuid;
	struct correction_gpu said = {0};
	struct owner ignored;
	uint32_t percent = 0;
	unsigned of_gpu;
	size_t count;

	if (!power_wants_use(keeper->power, gpu) ||
		nvml_utilization(keeper->nvml, uuid, &keeper->since_us[gpu], &of_gpu, keeper->uses, &count) <
			0)
		return;
	for (size_t i = 0; i < count; i++) {
		said.of_all += keeper->uses[i].percent;
		if (is_of_the_run(keeper, keeper->uses[i].pid, &ignored))
			percent += keeper->uses[i].percent;
	}
	said.of_gpu = of_gpu;
	said.named = (uint32_t)count;
	power_used(keeper->power, gpu, percent, who_lives(keeper), &said);
}

/* Returns when the next sample is due. It counts in steps from `due` on, because the driver's numbers cover a
 * whole number of its own periods. */
static int64_t look_who_used(struct keeper *keeper, int64_t due, int64_t now)
{
	int64_t again = keeper->power ? power_use_ns(keeper->power) : NS_PER_S;

	if (now < due)
		return due;
	for (unsigned i = 0; i < keeper->grant->gpu_count && keeper->nvml && keeper->power; i++)
		look_at_use(keeper, i);
	return now - due < again ? due + again : now + again;
}

static void keep(struct keeper *keeper)
{
	int64_t looked = 0, use_due = 0, known_ns = 0, next;
	uint32_t wanted = 0, now;

	for (;;) {
		int64_t begin = monotonic_ns();
		struct timespec round;

		if (begin - known_ns >= ROUND_NS && !registry_is_alive(keeper->folder))
			return;
		known_ns = begin - known_ns >= ROUND_NS ? begin : known_ns;
		now = atomic_load(&keeper->usage->look_wanted);
		if (now != wanted || begin - looked > LOOK_NS) {
			wanted = now;
			look(keeper, now);
			looked = monotonic_ns();
		}
		use_due = look_who_used(keeper, use_due, begin);
		next = keeper->power ? power_round(keeper->power) : ROUND_NS;
		next = use_due - begin < next ? use_due - begin : next;
		round = (struct timespec){.tv_nsec = next < ROUND_NS ? next : ROUND_NS};
		if (syscall(SYS_futex, &keeper->usage->look_wanted, FUTEX_WAIT, wanted, &round, NULL, 0) <
				0 &&
			errno != ETIMEDOUT && errno != EAGAIN && errno != EINTR)
			nanosleep(&round, NULL); /* a seccomp filter forbids it */
	}
}

static int prepare(struct keeper *keeper, const char *folder, const char *nvml_library, const char **ret_why)
{
	char path[PATH_MAX];
	int fd, r;

	keeper->nvml_library = nvml_library;
	snprintf(keeper->folder, sizeof(keeper->folder), "%s", folder);
	/* systemd-tmpfiles removes nothing from a locked folder. */
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		flock(fd, LOCK_SH | LOCK_NB);
	snprintf(path, sizeof(path), "%.4000s/grant", folder);
	r = grant_file_map_keeper(path, &keeper->grant, ret_why);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%.4000s/usage", folder);
	keeper->usage_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (keeper->usage_fd < 0) {
		*ret_why = strerror(errno);
		return -errno;
	}
	usage_file_keep(keeper->usage_fd, true);
	r = usage_file_map(path, &keeper->usage, ret_why);
	if (r == 0)
		keeper->account = account_open(keeper->grant, keeper->usage);
	owner_self(&keeper->self);
	keeper->self.grant = keeper->grant;
	keeper->self.usage = keeper->usage;
	if (r == 0)
		power_new(keeper->folder, keeper->grant, keeper->usage_fd, &keeper->power);
	return r;
}

int keeper_main(const char *folder, const char *nvml_library)
{
	_cleanup_free_ struct keeper *keeper = calloc(1, sizeof(*keeper));
	const char *why = "there is no memory";

	prctl(PR_SET_NAME, KEEPER_NAME);
	if (!keeper || prepare(keeper, folder, nvml_library, &why) < 0) {
		puts(why);
		return EXIT_FAILURE;
	}
	puts(READY);
	fflush(stdout);
	dup2(STDIN_FILENO, STDOUT_FILENO); /* closes the pipe; `ration run` waits for its end */
	keep(keeper);
	power_free(keeper->power);
	registry_remove(folder);
	return EXIT_SUCCESS;
}

/* Closes all files of the caller. Otherwise a reader at the other end of the caller's pipes would wait for
 * this process, too. */
static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	setsid();
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	/* Available since Linux 5.11; seccomp filters of containers forbid unknown calls. */
	if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 1; i < SIGRTMIN; i++)
		signal(i, SIG_DFL);
	signal(SIGHUP, SIG_IGN); /* so that it outlives the session */
	if (chdir("/") < 0)
		errno = 0;
}

/* The keeper executes a program of its own. A fork is not enough, because the driver's library, which the
 * caller has open, does not survive fork(). */
static void become_keeper(const char *folder, const char *nvml_library, int report)
{
	detach();
	dup2(report, STDOUT_FILENO);
	execl("/proc/self/exe", KEEPER_NAME, "keeper", folder, nvml_library, NULL);
	dprintf(STDOUT_FILENO, "%s\n", strerror(errno));
	_exit(1);
}

/* Reads the one line that the keeper writes. Returns when the keeper has closed its end of the pipe, or has
 * died. */
static void read_line(int fd, char *line, size_t size)
{
	size_t length = 0;
	ssize_t n;

	while (length < size - 1) {
		n = read(fd, line + length, size - 1 - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	line[length] = 0;
	line[strcspn(line, "\n")] = 0;
}

int keeper_start(const char *folder, const char *nvml_library, struct error *err)
{
	char line[256];
	int report[2];
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0)
		return error_set(err, errno, "cannot start the keeper: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		/* The process forks twice, so that the program does not find a child that it never started.
		 */
		if (fork() == 0)
			become_keeper(folder, nvml_library, report[1]);
		_exit(0);
	}
	close(report[1]);
	if (pid < 0) {
		close(report[0]);
		return error_set(err, errno, "cannot start the keeper: %s", strerror(errno));
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	read_line(report[0], line, sizeof(line));
	close(report[0]);
	if (strcmp(line, READY) == 0)
		return 0;
	return error_set(
		err, EIO, "cannot start the keeper: %s", *line ? line : "it ended before it was ready");
}
