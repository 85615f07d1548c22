/* Turns: calls of unknown cost, one at a time in a container, also when processes die in theirs. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "account-fixture.h"

#define PROCESSES 4
#define TURNS 500

/* What the processes of a test share. */
static struct shared {
	_Atomic int inside, most, done;
} * shared;

static int set_up(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return account_set_up((const uint64_t[]){UINT64_C(1) << 30}, 1);
}

static int tear_down(void **state)
{
	munmap(shared, sizeof(*shared));
	return account_tear_down(state);
}

static void take_turns(void)
{
	for (int i = 0; i < TURNS; i++) {
		int inside;

		if (account_begin_turn(account, 0, ACCOUNT_TURN_CODE) < 0)
			_exit(1);
		inside = atomic_fetch_add(&shared->inside, 1) + 1;
		if (inside > atomic_load(&shared->most))
			atomic_store(&shared->most, inside);
		atomic_fetch_sub(&shared->inside, 1);
		account_end_turn(account, 0, ACCOUNT_TURN_CODE);
		atomic_fetch_add(&shared->done, 1);
	}
	_exit(0);
}

static void processes_take_turns_one_at_a_time(void **state)
{
	int status;

	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			take_turns();
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(atomic_load(&shared->done), PROCESSES * TURNS);
	assert_int_equal(atomic_load(&shared->most), 1);
}

static void the_turns_of_pools_and_of_code_do_not_wait_for_each_other(void **state)
{
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_CODE), 0);
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_POOL), 0);
	account_end_turn(account, 0, ACCOUNT_TURN_POOL);
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_POOL), 0);
}

/* The child is waited for only afterwards: a dead process that its parent has not asked about is dead too. */
static void a_process_that_was_killed_in_its_turn_has_it_no_more(void **state)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (account_begin_turn(account, 0, ACCOUNT_TURN_CODE) == 0)
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	while (atomic_load(&usage->gpus[0].turns[ACCOUNT_TURN_CODE]) == 0)
		usleep(1000);
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_CODE), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Its slot has another owner then. */
static void an_heir_of_the_slot_does_not_inherit_the_turn(void **state)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(account_begin_turn(account, 0, ACCOUNT_TURN_POOL) == 0 ? 0 : 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_not_equal(atomic_load(&usage->gpus[0].turns[ACCOUNT_TURN_POOL]), 0);
	assert_int_equal(account_join(account), 0);
	assert_int_equal(atomic_load(&usage->slots_used), 1);
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_POOL), 0);
}

static void nonsense_in_the_file_is_no_turn(void **state)
{
	atomic_store(&usage->gpus[0].turns[ACCOUNT_TURN_POOL], UINT64_MAX);
	assert_int_equal(account_begin_turn(account, 0, ACCOUNT_TURN_POOL), 0);
}

/* What is under way, and what asked for a sample, counts until a sample has seen it. */
static void what_no_sample_knows_is_counted(void **state)
{
	uint32_t wanted;

	assert_int_equal(account_unsampled(account, 0), 0);
	assert_int_equal(account_enter(account), 0);
	assert_int_equal(account_unsampled(account, 0), 1);
	account_leave(account);
	assert_int_equal(account_unsampled(account, 0), 0);
	account_request_sample(account);
	wanted = account_request_sample(account);
	assert_int_equal(account_unsampled(account, 0), 2);
	grant_file_set_overhead(grant, 0, 0, wanted);
	assert_int_equal(account_unsampled(account, 0), 0);
}

static void room_is_what_is_neither_charged_nor_overhead(void **state)
{
	grant_file_set_overhead(grant, 0, UINT64_C(256) << 20, 0);
	assert_int_equal(account_charge(account, 0, UINT64_C(512) << 20), 0);
	assert_true(account_has_room(account, 0, UINT64_C(256) << 20));
	assert_false(account_has_room(account, 0, (UINT64_C(256) << 20) + 1));
	assert_false(account_has_room(account, 0, UINT64_MAX));
}

#define TURN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TURN_TEST(processes_take_turns_one_at_a_time),
		TURN_TEST(the_turns_of_pools_and_of_code_do_not_wait_for_each_other),
		TURN_TEST(a_process_that_was_killed_in_its_turn_has_it_no_more),
		TURN_TEST(an_heir_of_the_slot_does_not_inherit_the_turn),
		TURN_TEST(nonsense_in_the_file_is_no_turn),
		TURN_TEST(what_no_sample_knows_is_counted),
		TURN_TEST(room_is_what_is_neither_charged_nor_overhead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
