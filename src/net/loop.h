/* loop.h - one epoll loop, one thread. Callbacks may add and remove any source, including their own. The
 * callback of a removed source is never called again, not even for an event of the same wake-up. */
#pragma once

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

struct loop;
struct loop_io;
struct loop_timer;
struct loop_watch;

typedef void (*loop_io_fn)(void *userdata, int fd, uint32_t events);
typedef void (*loop_timer_fn)(void *userdata);
typedef void (*loop_signal_fn)(void *userdata, int signo);
typedef void (*loop_watch_fn)(void *userdata, const struct inotify_event *event);

int loop_new(struct loop **ret_loop);
/* loop_free() - also frees the remaining sources; the fds that callers gave stay theirs. Accepts NULL. */
void loop_free(struct loop *loop);
void loop_free_ptr(struct loop **loop);

/* loop_run() - runs until loop_quit(). Returns the code given there, or a negative errno of epoll itself. */
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop, int code);

/* loop_run_once() - waits for one wake-up, at most timeout_ms (-1: no limit); for tests and synchronous
 * start-up. */
int loop_run_once(struct loop *loop, int timeout_ms);

/* loop_set_after() - fn is called at the end of each wake-up, after all other callbacks, for actions that may
 * follow from any of them. There is at most one; NULL: none. */
void loop_set_after(struct loop *loop, loop_timer_fn fn, void *userdata);

/* events: EPOLLIN | EPOLLOUT ... The caller owns the fd and must remove it before closing it. */
int loop_add_io(
	struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *userdata, struct loop_io **ret_io);
int loop_io_set_events(struct loop_io *io, uint32_t events);
void loop_io_remove(struct loop_io *io); /* accepts NULL */

/* One-shot timers: armed with loop_timer_set(), and disarmed when they fire. */
int loop_add_timer(struct loop *loop, loop_timer_fn fn, void *userdata, struct loop_timer **ret_timer);
void loop_timer_set(struct loop_timer *timer, int64_t after_ns);
void loop_timer_stop(struct loop_timer *timer);
void loop_timer_remove(struct loop_timer *timer); /* accepts NULL */

/* loop_add_signal() - blocks the signal for the process and reads it from a signalfd. It stays until the loop
 * is freed. */
int loop_add_signal(struct loop *loop, int signo, loop_signal_fn fn, void *userdata);

/* loop_add_watch() - calls fn for the inotify events of mask at path. IN_IGNORED is the last event of a watch
 * that the kernel has removed. After IN_Q_OVERFLOW, which every watch gets, events may have been lost.
 * Returns -EEXIST if this loop watches the same file already, or the errno of inotify.
 *
 * All watches share one inotify instance. When a process dies, the kernel waits for a grace period before it
 * closes its instances (fsnotify_destroy_group()), so its parent learns of the death late: with four
 * instances by some 15 ms (docs/measurements/agent.md). */
int loop_add_watch(struct loop *loop, const char *path, uint32_t mask, loop_watch_fn fn, void *userdata,
	struct loop_watch **ret_watch);
void loop_watch_remove(struct loop_watch *watch); /* accepts NULL */
