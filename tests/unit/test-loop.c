/* The event loop: who may remove whom, and when. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/loop.h"

struct fixture {
	struct loop *loop;
	int fds[2];
	struct loop_io *ios[2];
	struct loop_timer *timers[2];
	int calls[2];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	f->fds[0] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	f->fds[1] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	return loop_new(&f->loop);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	loop_free(f->loop);
	close(f->fds[0]);
	close(f->fds[1]);
	free(f);
	return 0;
}

static void remove_both(void *userdata, int fd, uint32_t events)
{
	struct fixture *f = userdata;

	f->calls[0]++;
	loop_io_remove(f->ios[0]);
	loop_io_remove(f->ios[1]);
}

static void removed_source_is_not_called_in_the_same_wake_up(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(loop_add_io(f->loop, f->fds[0], EPOLLIN, remove_both, f, &f->ios[0]), 0);
	assert_int_equal(loop_add_io(f->loop, f->fds[1], EPOLLIN, remove_both, f, &f->ios[1]), 0);
	loop_run_once(f->loop, 0); /* both are ready */
	loop_run_once(f->loop, 0);
	assert_int_equal(f->calls[0], 1);
}

static void count_0(void *userdata)
{
	((struct fixture *)userdata)->calls[0]++;
}

static void remove_other_timer(void *userdata)
{
	struct fixture *f = userdata;

	f->calls[1]++;
	loop_timer_remove(f->timers[0]);
	f->timers[0] = NULL;
}

static void timer_fires_once_per_setting_and_not_early(void **state)
{
	struct fixture *f = *state;
	int64_t begin = monotonic_ns();

	loop_add_timer(f->loop, count_0, f, &f->timers[0]);
	loop_timer_set(f->timers[0], 20 * NS_PER_MS);
	while (!f->calls[0])
		loop_run_once(f->loop, -1);
	assert_true(monotonic_ns() - begin >= 20 * NS_PER_MS);
	loop_run_once(f->loop, 30);
	assert_int_equal(f->calls[0], 1);
	loop_timer_set(f->timers[0], 0);
	loop_run_once(f->loop, 30);
	assert_int_equal(f->calls[0], 2);
}

static void stopped_timer_does_not_fire(void **state)
{
	struct fixture *f = *state;

	loop_add_timer(f->loop, count_0, f, &f->timers[0]);
	loop_timer_set(f->timers[0], 0);
	loop_timer_stop(f->timers[0]);
	loop_run_once(f->loop, 5);
	assert_int_equal(f->calls[0], 0);
}

static void timer_removed_by_another_in_the_same_walk_does_not_fire(void **state)
{
	struct fixture *f = *state;

	loop_add_timer(f->loop, remove_other_timer, f, &f->timers[1]);
	loop_add_timer(f->loop, count_0, f, &f->timers[0]);
	loop_timer_set(f->timers[1], 0);
	loop_timer_set(f->timers[0], 0);
	loop_run_once(f->loop, 5);
	assert_int_equal(f->calls[1], 1);
	assert_int_equal(f->calls[0], 0);
}

static void on_signal(void *userdata, int signo)
{
	loop_quit(userdata, signo);
}

static void signal_ends_the_run_with_its_code(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(loop_add_signal(f->loop, SIGUSR1, on_signal, f->loop), 0);
	kill(getpid(), SIGUSR1);
	assert_int_equal(loop_run(f->loop), SIGUSR1);
}

static void quit_and_wait_for_the_timer(void *userdata, int fd, uint32_t events)
{
	struct fixture *f = userdata;

	f->calls[1]++;
	loop_timer_set(f->timers[0], 0);
	loop_quit(f->loop, 5);
}

/* Who has ended the run has taken apart what the timer would use. */
static void timer_that_is_due_does_not_fire_once_the_loop_ends(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(loop_add_timer(f->loop, count_0, f, &f->timers[0]), 0);
	assert_int_equal(
		loop_add_io(f->loop, f->fds[0], EPOLLIN, quit_and_wait_for_the_timer, f, &f->ios[0]), 0);
	assert_int_equal(loop_run(f->loop), 5);
	assert_int_equal(f->calls[1], 1);
	assert_int_equal(f->calls[0], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(removed_source_is_not_called_in_the_same_wake_up),
		TEST(timer_fires_once_per_setting_and_not_early),
		TEST(stopped_timer_does_not_fire),
		TEST(timer_removed_by_another_in_the_same_walk_does_not_fire),
		TEST(signal_ends_the_run_with_its_code),
		TEST(timer_that_is_due_does_not_fire_once_the_loop_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
