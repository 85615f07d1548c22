/* One container's account, with real processes and threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "account-fixture.h"
#include "grant/owner.h"
#include "grant/reserve.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)

static int set_up(void **state)
{
	return account_set_up((const uint64_t[]){2154 * MIB, GIB}, 2);
}

static void the_limit_can_be_used_to_the_last_page_and_not_further(void **state)
{
	assert_int_equal(account_charge(account, 0, 2154 * MIB - 4096), 0);
	assert_int_equal(account_charge(account, 0, 4097), -ENOMEM);
	assert_int_equal(account_charge(account, 0, 4096), 0);
	assert_int_equal(account_used_bytes(account, 0), 2154 * MIB);
	assert_int_equal(account_charge(account, 0, 1), -ENOMEM);
	assert_int_equal(account_used_bytes(account, 1), 0);
	assert_int_equal(usage->gpus[0].refused, 2);
	assert_int_equal(usage->gpus[0].refused_bytes, 1);
}

static void who_can_make_room_is_not_refused_yet(void **state)
{
	assert_int_equal(account_try(account, 1, GIB + 1), -ENOMEM);
	assert_int_equal(usage->gpus[1].refused, 0);
	assert_int_equal(account_try(account, 1, GIB), 0);
	assert_int_equal(account_charge(account, 1, 4096), -ENOMEM);
	assert_int_equal(usage->gpus[1].refused, 1);
	assert_int_equal(usage->gpus[1].refused_bytes, 4096);
}

static void a_refusal_costs_nothing_lasting(void **state)
{
	for (int i = 0; i < 100; i++)
		assert_int_equal(account_charge(account, 1, GIB + 1), -ENOMEM);
	assert_int_equal(account_charge(account, 1, GIB), 0);
	account_refund(account, 1, GIB);
	assert_int_equal(account_used_bytes(account, 1), 0);
}

static void nobody_gives_back_more_than_it_holds(void **state)
{
	pid_t pid = fork();

	if (pid == 0) {
		account_charge(account, 1, MIB);
		account_refund(account, 1, 500 * MIB);
		_exit(account_held_bytes(account, 1) != 0);
	}
	assert_int_equal(account_charge(account, 1, 500 * MIB), 0);
	waitpid(pid, NULL, 0);
	assert_int_equal(account_used_bytes(account, 1), 500 * MIB);
}

/* How often the usage file was opened since inotify was told to look. */
static size_t opens(int fd)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(fd, buffer, sizeof(buffer));

	return n < 0 ? 0 : (size_t)n / sizeof(struct inotify_event);
}

static void a_keeper_that_maps_nothing_sees_that_a_look_is_wanted(void **state)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	assert_true(inotify_add_watch(fd, usage_path, IN_OPEN) >= 0);
	account_request_sample(account);
	assert_int_equal(opens(fd), 0);
	account_set_path(account, usage_path);
	errno = EDOM;
	account_request_sample(account);
	assert_int_equal(errno, EDOM);
	assert_int_equal(opens(fd), 1);
	assert_int_equal(usage->look_wanted, 2);
	/* A refusal because of overhead alone, which may be stale. */
	atomic_store(&grant->live[1].overhead_bytes, MIB);
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	assert_int_equal(opens(fd), 1);
	account_set_path(account, "/nonexistent/usage");
	account_request_sample(account);
	assert_int_equal(errno, EDOM);
	close(fd);
}

static void a_program_knows_whether_its_keeper_lives(void **state)
{
	int said[2], fd = open(usage_path, O_RDONLY | O_CLOEXEC);
	char letter;
	pid_t keeper;

	assert_false(account_is_kept(account));
	account_set_path(account, usage_path);
	assert_false(account_is_kept(account));
	assert_int_equal(pipe(said), 0);
	keeper = fork();
	if (keeper == 0) {
		usage_file_keep(open(usage_path, O_RDONLY | O_CLOEXEC), true);
		if (write(said[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(said[0], &letter, 1), 1);
	errno = EDOM;
	assert_true(account_is_kept(account));
	assert_int_equal(errno, EDOM);
	/* Its successor may come before it goes. */
	usage_file_keep(fd, true);
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	assert_true(account_is_kept(account));
	usage_file_keep(fd, false);
	assert_false(account_is_kept(account));
	usage_file_keep(fd, true);
	assert_true(account_is_kept(account));
	close(fd);
	assert_false(account_is_kept(account));
	account_set_path(account, "/nonexistent/usage");
	assert_false(account_is_kept(account));
	close(said[0]);
	close(said[1]);
}

static void sizes_beyond_all_gpus_are_refused_and_do_not_wrap(void **state)
{
	static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 63, UINT64_C(1) << 44,
		(UINT64_C(1) << 44) + 4096, UINT64_C(1) << 43, (UINT64_C(1) << 43) - 1};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(account_charge(account, 0, sizes[i]), -ENOMEM);
	assert_int_equal(account_used_bytes(account, 0), 0);
}

static void sums_of_sizes_around_powers_of_two_are_exact(void **state)
{
	uint64_t pages = 0;

	for (unsigned k = 0; k <= 27; k++)
		for (int d = -1; d <= 1; d++) {
			uint64_t bytes = (UINT64_C(1) << k) + (uint64_t)d;

			assert_int_equal(account_charge(account, 0, bytes), 0);
			pages += (bytes + 4095) / 4096;
		}
	assert_int_equal(account_held_bytes(account, 0), pages * 4096);
	for (unsigned k = 0; k <= 27; k++)
		for (int d = -1; d <= 1; d++)
			account_refund(account, 0, (UINT64_C(1) << k) + (uint64_t)d);
	assert_int_equal(account_held_bytes(account, 0), 0);
	assert_int_equal(account_used_bytes(account, 0), 0);
}

static void errno_is_kept(void **state)
{
	errno = EXDEV;
	assert_int_equal(account_charge(account, 0, 4096), 0);
	assert_int_equal(account_charge(account, 0, GIB * 3), -ENOMEM);
	account_used_bytes(account, 0);
	account_refund(account, 0, 4096);
	assert_int_equal(errno, EXDEV);
}

/* ---- processes ------------------------------------------------------------------------------------------
 */

/* A child that charges, says so and then waits to be killed, or ends by itself. */
static pid_t child_with(unsigned gpu, uint64_t bytes, bool ends)
{
	int pipe_fd[2];
	char answer = 0;
	pid_t pid;

	assert_int_equal(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0) {
		answer = account_charge(account, gpu, bytes) == 0 ? 'y' : 'n';
		if (write(pipe_fd[1], &answer, 1) != 1 || ends)
			_exit(0);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipe_fd[0], &answer, 1), 1);
	assert_int_equal(answer, 'y');
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void the_limit_holds_over_all_processes(void **state)
{
	pid_t pid = child_with(1, 600 * MIB, false);

	assert_int_equal(account_charge(account, 1, 600 * MIB), -ENOMEM);
	assert_int_equal(account_charge(account, 1, 424 * MIB), 0);
	assert_int_equal(account_used_bytes(account, 1), GIB);
	end_child(pid);
	assert_int_equal(account_used_bytes(account, 1), 424 * MIB);
}

static void memory_of_the_killed_is_there_for_the_next_who_asks(void **state)
{
	end_child(child_with(1, 600 * MIB, false));
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

static void memory_of_a_process_that_nobody_waits_for_is_recovered_too(void **state)
{
	pid_t pid = child_with(1, 600 * MIB, true);
	siginfo_t about;

	assert_int_equal(waitid(P_PID, (id_t)pid, &about, WEXITED | WNOWAIT), 0);
	assert_int_equal(account_used_bytes(account, 1), 0);
	waitpid(pid, NULL, 0);
}

static void a_child_of_fork_has_a_slot_of_its_own_and_its_end_leaves_the_parents_memory_alone(void **state)
{
	assert_int_equal(account_charge(account, 1, 100 * MIB), 0);
	end_child(child_with(1, 200 * MIB, false));
	assert_int_equal(usage->slots_used, 2);
	assert_int_equal(account_used_bytes(account, 1), 100 * MIB);
	/* The child must not refund what is its parent's. */
	if (fork() == 0) {
		account_refund(account, 1, 100 * MIB);
		_exit(0);
	}
	wait(NULL);
	assert_int_equal(account_used_bytes(account, 1), 100 * MIB);
}

static void slots_of_the_dead_are_used_again(void **state)
{
	for (int i = 0; i < 50; i++)
		end_child(child_with(1, 600 * MIB, false));
	assert_int_equal(usage->slots_used, 1);
}

static void memory_of_a_program_that_another_replaced_is_recovered(void **state)
{
	int pipe_fd[2];
	char answer;
	pid_t pid;

	assert_int_equal(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0) {
		account_charge(account, 1, 600 * MIB);
		dup2(pipe_fd[1], 1);
		execlp("sh", "sh", "-c", "echo; while :; do sleep 1; done", NULL);
	}
	assert_int_equal(read(pipe_fd[0], &answer, 1), 1);
	assert_int_equal(account_used_bytes(account, 1), 0);
	assert_int_equal(account_charge(account, 1, GIB), 0);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	end_child(pid);
}

static void *hold_and_wait(void *at)
{
	account_charge(account, 1, 300 * MIB);
	*(volatile char *)at = 1;
	while (pause() < 0)
		continue;
	return NULL;
}

static void a_process_whose_first_thread_has_ended_lives(void **state)
{
	char *ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char stat_path[64], text[256];
	pid_t pid = fork();
	FILE *file;

	if (pid == 0) {
		pthread_t thread;

		pthread_create(&thread, NULL, hold_and_wait, ready);
		pthread_exit(NULL);
	}
	snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", (int)pid);
	do {
		usleep(1000);
		file = fopen(stat_path, "r");
		assert_non_null(fgets(text, sizeof(text), file));
		fclose(file);
	} while (!*(volatile char *)ready || !strstr(text, ") Z"));
	assert_int_equal(account_used_bytes(account, 1), 300 * MIB);
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	end_child(pid);
	assert_int_equal(account_used_bytes(account, 1), 0);
	munmap(ready, 4096);
}

/* As if a process with that owner had charged pages and were no longer, or not visibly, there. */
static void put_slot(unsigned slot, uint64_t owner, uint64_t start_ticks, uint32_t pages)
{
	struct owner self;

	owner_self(&self);
	usage->slots[slot].owner = owner;
	self.start_ticks = start_ticks;
	self.image = 0;
	owner_sign(&usage->slots[slot], owner, &self);
	usage->slots[slot].gpus[1] = pages;
	usage->gpus[1].total += pages;
	if (usage->slots_used <= slot)
		usage->slots_used = slot + 1;
}

static uint64_t word_of_pid(pid_t pid)
{
	struct owner self;

	owner_self(&self);
	return owner_word((uint32_t)pid, OWNER_NAMESPACE(self.word)) | UINT64_C(1) << OWNER_GENERATION_SHIFT;
}

static void a_pid_that_was_given_to_another_process_does_not_keep_memory(void **state)
{
	put_slot(0, word_of_pid(getppid()), 1, 256); /* started in the first second of the machine: not it */
	assert_int_equal(account_used_bytes(account, 1), 0);
}

static void a_living_process_of_which_the_start_is_not_known_keeps_its_memory(void **state)
{
	put_slot(0, word_of_pid(getppid()), 0, 256);
	assert_int_equal(account_used_bytes(account, 1), MIB);
}

static void a_process_of_another_pid_namespace_is_taken_for_alive(void **state)
{
	put_slot(0, word_of_pid(4000000) ^ UINT64_C(1) << OWNER_PID_BITS, 1, 256);
	assert_int_equal(account_used_bytes(account, 1), MIB);
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
}

static void a_process_that_the_keeper_says_is_dead_is_recovered_and_its_successor_is_not(void **state)
{
	uint64_t word = word_of_pid(1) ^ UINT64_C(1) << OWNER_PID_BITS; /* of another namespace */

	put_slot(700, word, 0, 256);
	usage->gpus[1].total = 256;
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	owner_note_dead(grant, 700, word + (UINT64_C(1) << OWNER_GENERATION_SHIFT));
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	owner_note_dead(grant, 701, word);
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	owner_note_dead(grant, 700, word);
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

static void processes_of_unknown_namespaces_do_not_judge_each_other(void **state)
{
	const struct owner self = {.word = owner_word((uint32_t)getpid(), 0), .sees_proc = true};

	/* No process has this number here; one of another sandbox without /proc may. */
	put_slot(700, owner_word(4000000, 0), 0, 256);
	assert_false(owner_is_dead((void *)&self, &usage->slots[700], owner_word(4000000, 0)));
}

static void the_start_that_a_former_owner_wrote_is_not_its_successors(void **state)
{
	uint64_t first = word_of_pid(getppid());

	put_slot(0, first, 1, 256);
	usage->slots[0].owner = first + (UINT64_C(1) << OWNER_GENERATION_SHIFT);
	assert_int_equal(account_used_bytes(account, 1), MIB);
}

static void as_many_processes_as_there_are_slots_and_not_one_more(void **state)
{
	for (unsigned i = 0; i < USAGE_FILE_SLOTS; i++)
		put_slot(i, word_of_pid(1), 0, 0);
	assert_int_equal(account_charge(account, 1, 4096), -EUSERS);
	put_slot(700, word_of_pid(4000000), 0, 256); /* no such process */
	assert_int_equal(account_charge(account, 1, GIB), 0);
	assert_int_equal(OWNER_PID(usage->slots[700].owner), getpid());
}

/* ---- threads, fork, descriptors -------------------------------------------------------------------------
 */

static void *hammer(void *rounds)
{
	for (int i = 0; i < *(int *)rounds; i++)
		if (account_charge(account, 1, 8192) == 0)
			account_refund(account, 1, 8192);
	return NULL;
}

static void threads_take_turns_and_lose_nothing(void **state)
{
	pthread_t threads[8];
	int rounds = 20000;

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, hammer, &rounds);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(usage->gpus[1].total, 0);
	assert_int_equal(usage->gpus[1].recounts, 0);
}

static void fork_while_threads_charge_hangs_nobody(void **state)
{
	pthread_t threads[3];
	int rounds = 100000, status;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, hammer, &rounds);
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(20);
			_exit(account_charge(account, 1, 8192) == 0 ? 0 : 1);
		}
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(account_used_bytes(account, 1), 0);
}

static void a_program_that_closes_all_descriptors_loses_nothing(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int bad = account_charge(account, 1, MIB);

		for (int fd = 0; fd < 1024; fd++)
			close(fd);
		bad |= account_charge(account, 1, MIB);
		_exit(bad || account_used_bytes(account, 1) != 2 * MIB);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* ---- overhead -------------------------------------------------------------------------------------------
 */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void overhead_counts_against_the_limit(void **state)
{
	grant_file_set_overhead(grant, 1, 300 * MIB, atomic_load(&usage->look_wanted));
	assert_int_equal(account_used_bytes(account, 1), 300 * MIB);
	assert_int_equal(account_charge(account, 1, 724 * MIB + 1), -ENOMEM);
	assert_int_equal(account_charge(account, 1, 724 * MIB), 0);
	grant_file_set_overhead(grant, 1, 2 * GIB, atomic_load(&usage->look_wanted));
	assert_int_equal(account_used_bytes(account, 1), GIB);
	assert_int_equal(account_charge(account, 1, 1), -ENOMEM);
}

static void a_raised_limit_holds_at_the_next_call(void **state)
{
	assert_int_equal(account_charge(account, 1, GIB), 0);
	assert_int_equal(account_charge(account, 1, MIB), -ENOMEM);
	grant_file_set_limit(grant, 1, 2 * GIB);
	assert_int_equal(account_charge(account, 1, GIB), 0);
	assert_int_equal(account_charge(account, 1, 1), -ENOMEM);
	assert_int_equal(account_used_bytes(account, 1), 2 * GIB);
}

static void a_limit_below_what_is_used_refuses_and_takes_nothing_away(void **state)
{
	assert_int_equal(account_charge(account, 1, GIB), 0);
	grant_file_set_limit(grant, 1, 400 * MIB);
	assert_int_equal(account_used_bytes(account, 1), 400 * MIB);
	assert_int_equal(account_held_bytes(account, 1), GIB);
	assert_int_equal(account_charge(account, 1, 1), -ENOMEM);
	account_refund(account, 1, GIB - 300 * MIB);
	assert_int_equal(account_used_bytes(account, 1), 300 * MIB);
	assert_int_equal(account_charge(account, 1, 100 * MIB), 0);
	assert_int_equal(account_charge(account, 1, 1), -ENOMEM);
}

static uint64_t seen_under_way;

static void *keep(void *context)
{
	while (atomic_load(&usage->look_wanted) == 0)
		usleep(100);
	seen_under_way = USAGE_MOVES_UNDER_WAY(usage->slots[0].moves);
	grant_file_set_overhead(grant, 1, 0, atomic_load(&usage->look_wanted));
	return NULL;
}

static void a_refusal_that_stale_overhead_would_cause_waits_for_the_keeper(void **state)
{
	pthread_t keeper;

	grant_file_set_overhead(grant, 1, 300 * MIB, atomic_load(&usage->look_wanted));
	pthread_create(&keeper, NULL, keep, NULL);
	/* The keeper may be late on a busy machine: only then this is refused. */
	while (account_charge(account, 1, GIB) != 0)
		assert_true(atomic_load(&grant->live[1].overhead_generation) <= 2);
	pthread_join(keeper, NULL);
	assert_int_equal(account_used_bytes(account, 1), GIB);
}

static void without_a_keeper_a_refusal_waits_5_ms_and_one_that_overhead_does_not_cause_not_at_all(
	void **state)
{
	int64_t begin = now_ns();

	grant_file_set_overhead(grant, 1, 300 * MIB, atomic_load(&usage->look_wanted));
	assert_int_equal(account_charge(account, 1, GIB), -ENOMEM);
	assert_in_range(now_ns() - begin, 5000000, 500000000);
	assert_int_equal(usage->look_wanted, 1);
	assert_int_equal(account_charge(account, 1, GIB + 1), -ENOMEM);
	assert_int_equal(usage->look_wanted, 1);
}

/* Its first sample shows nothing, since calls began or ended meanwhile; the second one does. */
static void *keep_slowly(void *context)
{
	for (uint32_t wanted = 1; wanted <= 2; wanted++) {
		while (atomic_load(&usage->look_wanted) < wanted)
			usleep(100);
		usleep(30000);
		grant_file_set_overhead(grant, 1, wanted == 1 ? 300 * MIB : 0, wanted);
		if (wanted == 2)
			atomic_store(&grant->live[1].known_for, GRANT_KNOWN | wanted);
	}
	return NULL;
}

static void while_a_keeper_lives_a_refusal_waits_for_a_sample_that_knows(void **state)
{
	int fd = open(usage_path, O_RDONLY | O_CLOEXEC);
	pthread_t keeper;

	account_set_path(account, usage_path);
	usage_file_keep(fd, true);
	grant_file_set_overhead(grant, 1, 300 * MIB, 0);
	atomic_store(&grant->live[1].known_for, GRANT_KNOWN);
	pthread_create(&keeper, NULL, keep_slowly, NULL);
	assert_int_equal(account_enter_charged(account, 1, GIB), 0);
	account_leave(account);
	pthread_join(keeper, NULL);
	assert_int_equal(usage->gpus[1].refused, 0);
	close(fd);
}

/* A keeper that runs at once on the waker's processor: its sample is complete before the wake-up returns. */
struct prompt_keeper {
	unsigned samples, under_way; /* under_way: samples that found a call under way */
	unsigned blind;		     /* the first so many samples know nothing, whatever they find */
};

static struct prompt_keeper *prompt_keeper;

static void sample_at_once(struct prompt_keeper *keeper)
{
	uint32_t wanted = atomic_load(&usage->look_wanted);
	bool under_way = USAGE_MOVES_UNDER_WAY(atomic_load(&usage->slots[0].moves)) > 0;
	bool knows = !under_way && keeper->samples >= keeper->blind;

	keeper->samples++;
	keeper->under_way += under_way;
	grant_file_set_overhead(grant, 1, knows ? 0 : 300 * MIB, wanted);
	if (knows)
		atomic_store(&grant->live[1].known_for, GRANT_KNOWN | wanted);
}

/* (The linker puts this in the place of syscall(): meson.build.) */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Not sanitized: like syscall() it reads six arguments, of which a caller may have passed fewer. */
__attribute__((no_sanitize_address)) long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex && prompt_keeper && a[0] == (long)&usage->look_wanted)
		sample_at_once(prompt_keeper);
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void refuse_for_overhead(struct prompt_keeper *keeper)
{
	int fd = open(usage_path, O_RDONLY | O_CLOEXEC), r;

	account_set_path(account, usage_path);
	usage_file_keep(fd, true);
	grant_file_set_overhead(grant, 1, 300 * MIB, 0);
	atomic_store(&grant->live[1].known_for, GRANT_KNOWN);
	prompt_keeper = keeper;
	r = account_enter_charged(account, 1, GIB);
	prompt_keeper = NULL;
	assert_int_equal(r, 0);
	account_leave(account);
	close(fd);
}

static void a_keeper_that_runs_as_soon_as_it_is_woken_finds_no_call_under_way(void **state)
{
	struct prompt_keeper keeper = {.blind = 0};

	refuse_for_overhead(&keeper);
	assert_int_equal(keeper.under_way, 0);
	assert_int_equal(keeper.samples, 1);
}

static void nor_does_it_when_it_is_woken_again(void **state)
{
	struct prompt_keeper keeper = {.blind = 2};

	refuse_for_overhead(&keeper);
	assert_int_equal(keeper.under_way, 0);
	assert_int_equal(keeper.samples, 3);
}

/* ---- calls under way ------------------------------------------------------------------------------------
 */

static void a_call_is_seen_while_it_is_under_way_and_afterwards(void **state)
{
	uint64_t begun;

	assert_int_equal(account_enter(account), 0);
	begun = usage->slots[0].moves >> 32;
	assert_int_equal(USAGE_MOVES_UNDER_WAY(usage->slots[0].moves), 1);
	assert_int_equal(account_enter_charged(account, 1, MIB), 0);
	assert_int_equal(USAGE_MOVES_UNDER_WAY(usage->slots[0].moves), 2);
	account_leave(account);
	account_leave(account);
	assert_int_equal(usage->slots[0].moves, (begun + 1) << 32);
	/* A refused one has begun nothing that goes on, but has been there. */
	assert_int_equal(account_enter_charged(account, 1, GIB), -ENOMEM);
	assert_int_equal(usage->slots[0].moves, (begun + 2) << 32);
	assert_int_equal(usage->gpus[1].refused, 1);
	account_is_loose(account);
	assert_int_equal(usage->slots[0].moves, (begun + 2) << 32 | USAGE_MOVES_LOOSE);
}

static void calls_of_a_dead_owner_are_not_under_way_in_its_slot(void **state)
{
	put_slot(0, word_of_pid(4000000), 0, 0);
	usage->slots[0].moves = UINT64_C(9) << 32 | 3;
	assert_int_equal(account_enter(account), 0);
	assert_int_equal(OWNER_PID(usage->slots[0].owner), getpid());
	assert_int_equal(usage->slots[0].moves, UINT64_C(11) << 32 | 1);
}

static void *end_pause(void *context)
{
	usleep(3000);
	assert_int_equal(USAGE_MOVES_UNDER_WAY(usage->slots[0].moves), 0);
	atomic_store(&grant->live[0].pause, 0);
	return NULL;
}

static void a_call_waits_while_the_keeper_pauses_the_container_and_not_for_a_dead_keeper(void **state)
{
	int64_t begin, least = INT64_MAX; /* of some tries: others have to get a processor, too */
	pthread_t keeper;

	assert_int_equal(account_join(account), 0);
	for (int i = 0; i < 10 && least >= GRANT_PAUSE_NS; i++) {
		int64_t took;

		atomic_store(&grant->live[0].pause, (uint64_t)(100 + i));
		begin = now_ns();
		pthread_create(&keeper, NULL, end_pause, NULL);
		assert_int_equal(account_enter(account), 0);
		took = now_ns() - begin;
		account_leave(account);
		pthread_join(keeper, NULL);
		assert_true(took >= 3000000);
		least = took < least ? took : least;
	}
	assert_true(least < GRANT_PAUSE_NS);

	atomic_store(&grant->live[0].pause, 78);
	begin = now_ns();
	account_enter(account);
	account_leave(account);
	assert_in_range(now_ns() - begin, GRANT_PAUSE_NS, 20 * GRANT_PAUSE_NS);
	begin = now_ns();
	for (int i = 0; i < 1000; i++) {
		account_enter(account);
		account_leave(account);
	}
	assert_in_range(now_ns() - begin, 0, 100 * GRANT_PAUSE_NS); /* of 1000 */
}

static void *end_pause_late(void *context)
{
	usleep(3 * GRANT_PAUSE_NS / 1000);
	atomic_store(&grant->live[0].pause, 0);
	return NULL;
}

static void a_call_waits_longer_for_a_keeper_that_lives(void **state)
{
	int fd = open(usage_path, O_RDONLY | O_CLOEXEC);
	int64_t begin;
	pthread_t keeper;

	account_set_path(account, usage_path);
	usage_file_keep(fd, true);
	assert_int_equal(account_join(account), 0);
	atomic_store(&grant->live[0].pause, 77);
	begin = now_ns();
	pthread_create(&keeper, NULL, end_pause_late, NULL);
	assert_int_equal(account_enter(account), 0);
	assert_in_range(now_ns() - begin, 3 * GRANT_PAUSE_NS, 50 * GRANT_PAUSE_NS);
	account_leave(account);
	pthread_join(keeper, NULL);
	close(fd);
}

static void whoever_waits_for_a_sample_is_not_in_its_way(void **state)
{
	pthread_t keeper;

	grant_file_set_overhead(grant, 1, 300 * MIB, atomic_load(&usage->look_wanted));
	assert_int_equal(account_join(account), 0);
	pthread_create(&keeper, NULL, keep, NULL);
	while (account_enter_charged(account, 1, GIB) != 0)
		assert_true(atomic_load(&grant->live[1].overhead_generation) <= 2);
	pthread_join(keeper, NULL);
	assert_int_equal(seen_under_way, 0);
	account_leave(account);
}

/* A container can write what it likes: calls end, and nothing outside the file is touched. */
static void garbage_in_the_usage_file_neither_crashes_nor_hangs(void **state)
{
	uint64_t seed = 42, *words = (uint64_t *)usage->gpus;
	size_t count = (sizeof(*usage) - offsetof(struct usage_file, gpus)) / sizeof(*words);

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < count; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			words[i] = seed % 3 ? seed ^ seed >> 29 : 0;
		}
		usage->slots_used = (uint32_t)seed;
		/* A recount of somebody who may live is waited for one second: in one round only. */
		for (unsigned gpu = 0; gpu < 2 && round > 0; gpu++)
			usage->gpus[gpu].total &= ~(UINT64_C(1) << 32);
		if (account_charge(account, 1, MIB) == 0)
			account_refund(account, 1, MIB);
		account_used_bytes(account, 1);
		account_share(account, 0, (int64_t)MIB, -(int64_t)MIB);
	}
}

static void a_recount_of_a_stopped_process_is_waited_for_one_second(void **state)
{
	int64_t begin = now_ns();

	assert_int_equal(account_charge(account, 1, MIB), 0);
	put_slot(1, word_of_pid(1), 0, 0);
	usage->gpus[1].total = UINT64_C(7) << 32 | 1;
	assert_int_equal(account_charge(account, 1, MIB), -EBUSY);
	assert_in_range(now_ns() - begin, 900000000, 10000000000);
	assert_int_equal(usage->slots[0].gpus[1], 256);
	/* The stopped one goes on. */
	usage->gpus[1].total = UINT64_C(8) << 32 | 256;
	assert_int_equal(account_charge(account, 1, GIB - MIB), 0);
}

#define FILES(f) cmocka_unit_test_setup_teardown(f, set_up, account_tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FILES(the_limit_can_be_used_to_the_last_page_and_not_further),
		FILES(who_can_make_room_is_not_refused_yet),
		FILES(a_refusal_costs_nothing_lasting),
		FILES(nobody_gives_back_more_than_it_holds),
		FILES(a_keeper_that_maps_nothing_sees_that_a_look_is_wanted),
		FILES(a_program_knows_whether_its_keeper_lives),
		FILES(sizes_beyond_all_gpus_are_refused_and_do_not_wrap),
		FILES(sums_of_sizes_around_powers_of_two_are_exact),
		FILES(errno_is_kept),
		FILES(the_limit_holds_over_all_processes),
		FILES(memory_of_the_killed_is_there_for_the_next_who_asks),
		FILES(memory_of_a_process_that_nobody_waits_for_is_recovered_too),
		FILES(a_child_of_fork_has_a_slot_of_its_own_and_its_end_leaves_the_parents_memory_alone),
		FILES(slots_of_the_dead_are_used_again),
		FILES(memory_of_a_program_that_another_replaced_is_recovered),
		FILES(a_process_whose_first_thread_has_ended_lives),
		FILES(a_pid_that_was_given_to_another_process_does_not_keep_memory),
		FILES(a_living_process_of_which_the_start_is_not_known_keeps_its_memory),
		FILES(a_process_of_another_pid_namespace_is_taken_for_alive),
		FILES(the_start_that_a_former_owner_wrote_is_not_its_successors),
		FILES(as_many_processes_as_there_are_slots_and_not_one_more),
		FILES(threads_take_turns_and_lose_nothing),
		FILES(fork_while_threads_charge_hangs_nobody),
		FILES(a_program_that_closes_all_descriptors_loses_nothing),
		FILES(overhead_counts_against_the_limit),
		FILES(a_raised_limit_holds_at_the_next_call),
		FILES(a_limit_below_what_is_used_refuses_and_takes_nothing_away),
		FILES(a_refusal_that_stale_overhead_would_cause_waits_for_the_keeper),
		FILES(without_a_keeper_a_refusal_waits_5_ms_and_one_that_overhead_does_not_cause_not_at_all),
		FILES(while_a_keeper_lives_a_refusal_waits_for_a_sample_that_knows),
		FILES(a_keeper_that_runs_as_soon_as_it_is_woken_finds_no_call_under_way),
		FILES(nor_does_it_when_it_is_woken_again),
		FILES(a_call_is_seen_while_it_is_under_way_and_afterwards),
		FILES(calls_of_a_dead_owner_are_not_under_way_in_its_slot),
		FILES(a_call_waits_while_the_keeper_pauses_the_container_and_not_for_a_dead_keeper),
		FILES(a_call_waits_longer_for_a_keeper_that_lives),
		FILES(whoever_waits_for_a_sample_is_not_in_its_way),
		FILES(a_process_that_the_keeper_says_is_dead_is_recovered_and_its_successor_is_not),
		FILES(processes_of_unknown_namespaces_do_not_judge_each_other),
		FILES(garbage_in_the_usage_file_neither_crashes_nor_hangs),
		FILES(a_recount_of_a_stopped_process_is_waited_for_one_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
