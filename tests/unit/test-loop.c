/* The event loop: who may remove whom, and when. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
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

/* ---- watches ---- */

static char directory[PATH_MAX];

static int setup_directory(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/ration-loop-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(directory) ? setup(state) : -1;
}

static void make_file(const char *name, char *path)
{
	int fd;

	snprintf(path, PATH_MAX, "%.4000s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static int teardown_directory(void **state)
{
	char path[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%.4000s/%d", directory, i);
		unlink(path);
	}
	rmdir(directory);
	return teardown(state);
}

struct watcher {
	struct loop_watch *watch, **removes; /* removes: what its callback takes away, */
	uint32_t removes_at;		     /* at these events; 0: at any */
	uint32_t seen;
	unsigned int calls;
	char name[32];
};

static void on_watch(void *userdata, const struct inotify_event *event)
{
	struct watcher *w = userdata;

	w->calls++;
	w->seen |= event->mask;
	if (event->len)
		snprintf(w->name, sizeof(w->name), "%.31s", event->name);
	if (w->removes && (!w->removes_at || event->mask & w->removes_at)) {
		loop_watch_remove(*w->removes);
		*w->removes = NULL;
	}
}

static void watch_tells_of_its_file_only(void **state)
{
	struct fixture *f = *state;
	struct watcher of_dir = {0}, of_file = {0};
	char paths[2][PATH_MAX];

	make_file("0", paths[0]);
	assert_int_equal(loop_add_watch(f->loop, directory, IN_CREATE, on_watch, &of_dir, &of_dir.watch), 0);
	assert_int_equal(loop_add_watch(f->loop, paths[0], IN_ATTRIB, on_watch, &of_file, &of_file.watch), 0);
	make_file("1", paths[1]);
	loop_run_once(f->loop, 1000);
	assert_int_equal(of_dir.calls, 1);
	assert_int_equal(of_dir.seen, IN_CREATE);
	assert_string_equal(of_dir.name, "1");
	assert_int_equal(of_file.calls, 0);
	assert_int_equal(chmod(paths[0], 0400), 0);
	loop_run_once(f->loop, 1000);
	assert_int_equal(of_dir.calls, 1);
	assert_int_equal(of_file.seen, IN_ATTRIB);
}

/* One number would belong to both, and the second mask would replace the first one. */
static void a_file_that_is_watched_is_not_watched_again(void **state)
{
	struct fixture *f = *state;
	struct watcher first = {0}, second = {0};
	char path[PATH_MAX];

	assert_int_equal(loop_add_watch(f->loop, directory, IN_CREATE, on_watch, &first, &first.watch), 0);
	assert_int_equal(
		loop_add_watch(f->loop, directory, IN_DELETE, on_watch, &second, &second.watch), -EEXIST);
	assert_null(second.watch);
	make_file("0", path);
	loop_run_once(f->loop, 1000);
	assert_int_equal(first.calls, 1);
	loop_watch_remove(first.watch);
	assert_int_equal(loop_add_watch(f->loop, directory, IN_DELETE, on_watch, &second, &second.watch), 0);
	unlink(path);
	loop_run_once(f->loop, 1000);
	assert_int_equal(second.seen, IN_DELETE);
	assert_int_equal(first.calls, 1);
}

static void watch_of_what_does_not_exist_fails(void **state)
{
	struct fixture *f = *state;
	struct watcher w = {0};

	assert_int_equal(loop_add_watch(f->loop, "/nonexistent", IN_CREATE, on_watch, &w, &w.watch), -ENOENT);
	assert_null(w.watch);
}

/* Both files have changed before the loop looks. */
static void removed_watch_is_not_called_for_an_event_of_before(void **state)
{
	struct fixture *f = *state;
	struct watcher of[2] = {{0}};
	char paths[2][PATH_MAX];

	for (int i = 0; i < 2; i++) {
		char name[] = {(char)('0' + i), '\0'};

		make_file(name, paths[i]);
		assert_int_equal(
			loop_add_watch(f->loop, paths[i], IN_ATTRIB, on_watch, &of[i], &of[i].watch), 0);
	}
	of[0].removes = &of[1].watch;
	assert_int_equal(chmod(paths[0], 0400), 0);
	assert_int_equal(chmod(paths[1], 0400), 0);
	loop_run_once(f->loop, 1000);
	loop_run_once(f->loop, 0);
	assert_int_equal(of[0].calls, 1);
	assert_int_equal(of[1].calls, 0);
}

static void watch_that_the_kernel_removes_says_so_last(void **state)
{
	struct fixture *f = *state;
	struct watcher w = {0};
	char path[PATH_MAX];

	w.removes = &w.watch;
	make_file("0", path);
	assert_int_equal(loop_add_watch(f->loop, path, IN_ATTRIB | IN_ONESHOT, on_watch, &w, &w.watch), 0);
	assert_int_equal(chmod(path, 0400), 0);
	loop_run_once(f->loop, 1000);
	loop_run_once(f->loop, 0);
	assert_int_equal(w.calls, 1); /* it was removed in the first call, so IN_IGNORED did not come */
	w.removes = NULL;
	assert_int_equal(loop_add_watch(f->loop, path, IN_ATTRIB | IN_ONESHOT, on_watch, &w, &w.watch), 0);
	assert_int_equal(chmod(path, 0600), 0);
	loop_run_once(f->loop, 1000);
	loop_run_once(f->loop, 0);
	assert_int_equal(w.seen, IN_ATTRIB | IN_IGNORED);
	assert_int_equal(w.calls, 3);
}

static unsigned long queued_events_max(void)
{
	FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	unsigned long n = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &n), 1);
	fclose(file);
	return n;
}

static void every_watch_hears_that_events_were_lost(void **state)
{
	struct fixture *f = *state;
	unsigned long n = queued_events_max();
	struct watcher of[3] = {{0}};
	char paths[2][PATH_MAX];

	make_file("0", paths[0]);
	make_file("1", paths[1]);
	assert_int_equal(loop_add_watch(f->loop, directory, IN_MOVE, on_watch, &of[2], &of[2].watch), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			loop_add_watch(f->loop, paths[i], IN_ATTRIB, on_watch, &of[i], &of[i].watch), 0);
	/* Two equal events in a row are one. */
	for (unsigned long i = 0; i <= n; i++)
		assert_int_equal(chmod(paths[i % 2], 0400), 0);
	of[0].removes = &of[1].watch;
	of[0].removes_at = IN_Q_OVERFLOW;
	while (!(of[0].seen & IN_Q_OVERFLOW))
		loop_run_once(f->loop, 1000);
	assert_int_equal(of[2].seen, IN_Q_OVERFLOW);
	assert_int_equal(of[2].calls, 1);
	assert_int_equal(of[1].seen, IN_ATTRIB); /* it was removed by then */
	assert_int_equal(of[0].calls + of[1].calls, n + 1);
}

#define IN_DIRECTORY(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(removed_source_is_not_called_in_the_same_wake_up),
		TEST(timer_fires_once_per_setting_and_not_early),
		TEST(stopped_timer_does_not_fire),
		TEST(timer_removed_by_another_in_the_same_walk_does_not_fire),
		TEST(signal_ends_the_run_with_its_code),
		TEST(timer_that_is_due_does_not_fire_once_the_loop_ends),
		IN_DIRECTORY(watch_tells_of_its_file_only),
		IN_DIRECTORY(a_file_that_is_watched_is_not_watched_again),
		IN_DIRECTORY(watch_of_what_does_not_exist_fails),
		IN_DIRECTORY(removed_watch_is_not_called_for_an_event_of_before),
		IN_DIRECTORY(watch_that_the_kernel_removes_says_so_last),
		IN_DIRECTORY(every_watch_hears_that_events_were_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
