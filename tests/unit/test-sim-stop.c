#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "sim/state/claim.h"
#include "sim/state/memory.h"

#define WORKERS 3
#define STOPS 1000
#define KILL_EACH 20
#define ROUNDS_OF_OTHERS 5
#define CAPACITY 1000
#define GPU 2
#define HANGS_NS (30 * NS_PER_S)

/* What the workers and the test tell each other. */
struct notes {
	_Atomic uint64_t rounds[WORKERS], held[WORKERS];
	_Atomic bool end;
	_Atomic unsigned at_end;
};

static char dir[] = "/tmp/test-sim-stop-XXXXXX";
static struct sim_processes processes;
static struct notes *notes;

static int set_up(void **state)
{
	_cleanup_free_ struct sim_process_table *table = calloc(1, sizeof(*table));
	char path[256];

	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/state", dir);
	mkdir(path, 0755);
	sim_processes_prepare(table);
	snprintf(path, sizeof(path), "%s/state/processes", dir);
	assert_int_equal(fs_write_atomic(path, 0666, table, sizeof(*table)), 0);
	assert_int_equal(sim_processes_open(dir, &processes), 0);
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return notes == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"/state/processes", "/state", ""};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, names[i]);
		remove(path);
	}
	return munmap(notes, sizeof(*notes));
}

/* Takes what it can get of pieces of random size, and gives back half of what it has. */
static void work(unsigned number)
{
	struct sim_processes own;
	struct sim_process *slot;
	unsigned seed = (unsigned)getpid();
	uint64_t held = 0;

	if (sim_processes_open(dir, &own) < 0 || sim_processes_claim(&own, &slot) < 0)
		_exit(1);
	while (!atomic_load(&notes->end)) {
		uint64_t bytes = (uint64_t)(rand_r(&seed) % (CAPACITY / 2)) + 1;

		if (sim_memory_take(&own, slot, GPU, bytes, CAPACITY) == 0) {
			held += bytes;
		} else {
			bytes = held / 2 + held % 2;
			sim_memory_give(&own, slot, GPU, bytes);
			held -= bytes;
		}
		if (held != sim_process_bytes(slot, GPU))
			_exit(2);
		atomic_store(&notes->held[number], held);
		atomic_fetch_add(&notes->rounds[number], 1);
	}
	atomic_fetch_add(&notes->at_end, 1);
	pause();
	_exit(0);
}

static pid_t start(unsigned number)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		work(number);
	return pid;
}

static void wait_for_rounds(unsigned number, uint64_t rounds, const char *what)
{
	int64_t begun = monotonic_ns();

	while (atomic_load(&notes->rounds[number]) < rounds) {
		if (monotonic_ns() - begun > HANGS_NS)
			fail_msg("worker %u does not go on: %s", number, what);
		usleep(50);
	}
}

static void others_go_on(unsigned stopped)
{
	uint64_t rounds[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		rounds[i] = atomic_load(&notes->rounds[i]);
	for (unsigned i = 0; i < WORKERS; i++)
		if (i != stopped)
			wait_for_rounds(i, rounds[i] + ROUNDS_OF_OTHERS, "another process is stopped");
}

/* A sum is of one moment if no process has taken memory meanwhile. */
static void check_sum(void)
{
	uint64_t version = sim_claim_read(processes.table, GPU);
	uint64_t used = sim_processes_used(&processes, GPU);

	if (sim_claim_read(processes.table, GPU) == version)
		assert_true(used <= CAPACITY);
}

static void stop(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static void replace(unsigned number, pid_t *pid)
{
	assert_int_equal(kill(*pid, SIGKILL), 0);
	assert_int_equal(waitpid(*pid, NULL, 0), *pid);
	*pid = start(number);
	wait_for_rounds(number, atomic_load(&notes->rounds[number]) + 1, "it has just begun");
}

/* Processes are stopped, and some of them then killed, wherever they are in a call. */
static void stopped_process_holds_up_nobody_and_sums_stay_right(void **state)
{
	pid_t pids[WORKERS];
	uint64_t sum = 0;
	unsigned seed = 1;

	for (unsigned i = 0; i < WORKERS; i++)
		pids[i] = start(i);
	for (unsigned i = 0; i < WORKERS; i++)
		wait_for_rounds(i, 1, "it has just begun");
	for (unsigned i = 0; i < STOPS; i++) {
		unsigned number = (unsigned)rand_r(&seed) % WORKERS;

		stop(pids[number]);
		others_go_on(number);
		check_sum();
		if (i % KILL_EACH == 0)
			replace(number, &pids[number]);
		else
			assert_int_equal(kill(pids[number], SIGCONT), 0);
	}
	atomic_store(&notes->end, true);
	for (int64_t begun = monotonic_ns(); atomic_load(&notes->at_end) < WORKERS; usleep(50))
		assert_true(monotonic_ns() - begun < HANGS_NS);
	for (unsigned i = 0; i < WORKERS; i++)
		sum += atomic_load(&notes->held[i]);
	assert_int_equal(sim_processes_used(&processes, GPU), sum);
	assert_true(sum <= CAPACITY);
	for (unsigned i = 0; i < WORKERS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	assert_int_equal(sim_processes_used(&processes, GPU), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_process_holds_up_nobody_and_sums_stay_right),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
