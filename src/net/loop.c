#include "net/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"

#define EVENTS_PER_WAKEUP 64

struct loop_io {
	struct list item;
	struct loop *loop;
	int fd;
	loop_io_fn fn; /* NULL once removed: freed after the wake-up, which may still refer to it */
	void *userdata;
};

struct loop_timer {
	struct list item;
	struct loop *loop;
	int64_t due_ns; /* monotonic; 0 when not armed */
	loop_timer_fn fn;
	void *userdata;
};

struct loop_signal {
	struct list item;
	struct loop_io *io;
	int fd;
	loop_signal_fn fn;
	void *userdata;
};

struct loop_watch {
	struct list item;
	struct loop *loop;
	int number;	 /* inotify's */
	bool overflowed; /* must be told that events were lost */
	loop_watch_fn fn;
	void *userdata;
};

struct loop {
	int epoll_fd;
	bool quit;
	int code;
	struct list ios, removed_ios, timers, signals, watches;
	int inotify_fd; /* -1 before the first watch */
	struct loop_io *inotify_io;
	loop_timer_fn after;
	void *after_userdata;
};

int loop_new(struct loop **ret_loop)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		free(loop);
		return -errno;
	}
	list_init(&loop->ios);
	list_init(&loop->removed_ios);
	list_init(&loop->timers);
	list_init(&loop->signals);
	list_init(&loop->watches);
	loop->inotify_fd = -1;
	*ret_loop = loop;
	return 0;
}

static void loop_free_removed(struct loop *loop)
{
	list_for_each_safe (item, after, &loop->removed_ios) {
		list_remove(item);
		free(list_entry(item, struct loop_io, item));
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	list_for_each_safe (item, after, &loop->signals) {
		struct loop_signal *s = list_entry(item, struct loop_signal, item);

		loop_io_remove(s->io);
		close(s->fd);
		free(s);
	}
	list_for_each_safe (item, after, &loop->watches)
		loop_watch_remove(list_entry(item, struct loop_watch, item));
	list_for_each_safe (item, after, &loop->ios)
		loop_io_remove(list_entry(item, struct loop_io, item));
	list_for_each_safe (item, after, &loop->timers)
		loop_timer_remove(list_entry(item, struct loop_timer, item));
	loop_free_removed(loop);
	close_ptr(&loop->inotify_fd);
	close(loop->epoll_fd);
	free(loop);
}

void loop_free_ptr(struct loop **loop)
{
	loop_free(*loop);
}

int loop_add_io(
	struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *userdata, struct loop_io **ret_io)
{
	struct loop_io *io = calloc(1, sizeof(*io));
	struct epoll_event event = {.events = events, .data.ptr = io};

	if (!io)
		return -ENOMEM;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		int r = -errno;

		free(io);
		return r;
	}
	*io = (struct loop_io){.loop = loop, .fd = fd, .fn = fn, .userdata = userdata};
	list_append(&loop->ios, &io->item);
	*ret_io = io;
	return 0;
}

int loop_io_set_events(struct loop_io *io, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = io};

	return epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event) < 0 ? -errno : 0;
}

void loop_io_remove(struct loop_io *io)
{
	if (!io)
		return;
	epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	io->fn = NULL;
	list_remove(&io->item);
	list_append(&io->loop->removed_ios, &io->item);
}

int loop_add_timer(struct loop *loop, loop_timer_fn fn, void *userdata, struct loop_timer **ret_timer)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer)
		return -ENOMEM;
	*timer = (struct loop_timer){.loop = loop, .fn = fn, .userdata = userdata};
	list_append(&loop->timers, &timer->item);
	*ret_timer = timer;
	return 0;
}

void loop_timer_set(struct loop_timer *timer, int64_t after_ns)
{
	timer->due_ns = monotonic_ns() + (after_ns > 0 ? after_ns : 0);
}

void loop_timer_stop(struct loop_timer *timer)
{
	timer->due_ns = 0;
}

void loop_timer_remove(struct loop_timer *timer)
{
	if (!timer)
		return;
	list_remove(&timer->item);
	free(timer);
}

static void loop_on_signal(void *userdata, int fd, uint32_t events)
{
	struct loop_signal *s = userdata;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->fn(s->userdata, (int)info.ssi_signo);
}

int loop_add_signal(struct loop *loop, int signo, loop_signal_fn fn, void *userdata)
{
	_cleanup_free_ struct loop_signal *s = calloc(1, sizeof(*s));
	sigset_t set;
	int r;

	if (!s)
		return -ENOMEM;
	sigemptyset(&set);
	sigaddset(&set, signo);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		return -errno;
	s->fn = fn;
	s->userdata = userdata;
	r = loop_add_io(loop, s->fd, EPOLLIN, loop_on_signal, s, &s->io);
	if (r < 0) {
		close(s->fd);
		return r;
	}
	list_append(&loop->signals, &s->item);
	TAKE_PTR(s);
	return 0;
}

/* Starts again after each call, because a callback may remove any watch. */
static void loop_tell_overflow(struct loop *loop, const struct inotify_event *event)
{
	bool told = true;

	list_for_each (item, &loop->watches)
		list_entry(item, struct loop_watch, item)->overflowed = true;
	while (told) {
		told = false;
		list_for_each (item, &loop->watches) {
			struct loop_watch *watch = list_entry(item, struct loop_watch, item);

			if (!watch->overflowed)
				continue;
			watch->overflowed = false;
			watch->fn(watch->userdata, event);
			told = true;
			break;
		}
	}
}

/* An event of a removed watch does not reach a later one: the kernel numbers watches in ascending order
 * (idr_alloc_cyclic() in inotify_add_to_idr()). */
static void loop_on_inotify(void *userdata, int fd, uint32_t events)
{
	char buffer[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct loop *loop = userdata;
	ssize_t n = read(fd, buffer, sizeof(buffer));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const void *)(buffer + at);

		at += (ssize_t)(sizeof(*event) + event->len);
		if (event->mask & IN_Q_OVERFLOW) {
			loop_tell_overflow(loop, event);
			continue;
		}
		list_for_each (item, &loop->watches) {
			struct loop_watch *watch = list_entry(item, struct loop_watch, item);

			if (watch->number != event->wd)
				continue;
			watch->fn(watch->userdata, event);
			break;
		}
	}
}

static int loop_open_inotify(struct loop *loop)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (loop->inotify_fd >= 0)
		return 0;
	fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return -errno;
	r = loop_add_io(loop, fd, EPOLLIN, loop_on_inotify, loop, &loop->inotify_io);
	if (r == 0)
		loop->inotify_fd = TAKE_FD(&fd);
	return r;
}

int loop_add_watch(struct loop *loop, const char *path, uint32_t mask, loop_watch_fn fn, void *userdata,
	struct loop_watch **ret_watch)
{
	_cleanup_free_ struct loop_watch *watch = calloc(1, sizeof(*watch));
	int r = watch ? loop_open_inotify(loop) : -ENOMEM;

	if (r < 0)
		return r;
	*watch = (struct loop_watch){.loop = loop, .fn = fn, .userdata = userdata};
	watch->number = inotify_add_watch(loop->inotify_fd, path, mask | IN_MASK_CREATE);
	if (watch->number < 0)
		return -errno;
	list_append(&loop->watches, &watch->item);
	*ret_watch = TAKE_PTR(watch);
	return 0;
}

void loop_watch_remove(struct loop_watch *watch)
{
	if (!watch)
		return;
	inotify_rm_watch(watch->loop->inotify_fd, watch->number); /* fails if the kernel has removed it */
	list_remove(&watch->item);
	free(watch);
}

/* There are few timers (tens), so a linear search is simpler than a heap and fast enough. It restarts after
 * each call, because a callback may remove any timer. A timer is disarmed before it fires, so it fires at
 * most once per pass. */
static void loop_fire_timers(struct loop *loop)
{
	int64_t now = monotonic_ns();
	bool fired = true;

	while (fired && !loop->quit) {
		fired = false;
		list_for_each (item, &loop->timers) {
			struct loop_timer *timer = list_entry(item, struct loop_timer, item);

			if (!timer->due_ns || timer->due_ns > now)
				continue;
			timer->due_ns = 0;
			timer->fn(timer->userdata);
			fired = true;
			break;
		}
	}
}

static int loop_wait_ms(const struct loop *loop, int limit_ms)
{
	int64_t due = 0, now, ms;

	list_for_each (item, &loop->timers) {
		const struct loop_timer *timer = list_entry(item, struct loop_timer, item);

		if (timer->due_ns && (!due || timer->due_ns < due))
			due = timer->due_ns;
	}
	if (!due)
		return limit_ms;
	now = monotonic_ns();
	ms = due <= now ? 0 : (due - now + NS_PER_MS - 1) / NS_PER_MS;
	if (ms > 60000)
		ms = 60000;
	return limit_ms >= 0 && limit_ms < ms ? limit_ms : (int)ms;
}

int loop_run_once(struct loop *loop, int timeout_ms)
{
	struct epoll_event events[EVENTS_PER_WAKEUP];
	int n = epoll_wait(loop->epoll_fd, events, EVENTS_PER_WAKEUP, loop_wait_ms(loop, timeout_ms));

	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++) {
		struct loop_io *io = events[i].data.ptr;

		if (io->fn)
			io->fn(io->userdata, io->fd, events[i].events);
	}
	loop_fire_timers(loop);
	if (loop->after)
		loop->after(loop->after_userdata);
	loop_free_removed(loop);
	return 0;
}

int loop_run(struct loop *loop)
{
	int r = 0;

	while (!loop->quit && r >= 0)
		r = loop_run_once(loop, -1);
	loop->quit = false;
	return r < 0 ? r : loop->code;
}

void loop_set_after(struct loop *loop, loop_timer_fn fn, void *userdata)
{
	loop->after = fn;
	loop->after_userdata = userdata;
}

void loop_quit(struct loop *loop, int code)
{
	loop->quit = true;
	loop->code = code;
}
