/* worker.c - the driver's own thread. It calls host functions, and continues operations that had to wait. The
 * first operation that needs the thread starts it; it sleeps when there is nothing to do. */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libcuda/queue.h"

#define POLL_NS (NS_PER_MS / 5)

static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool started;

/* Calls the function of a stream's first operation if that is a host function and its turn has come. The lock
 * is not held during the call, in which the application may destroy the stream. */
static bool call_host(struct stream *stream)
{
	struct op *op = stream->first;
	uint64_t handle = stream->object.handle;
	int64_t wait;
	struct op called;

	if (!op || op->kind != OP_HOST || op->running || !stream_idle_before_queue(stream, &wait))
		return false;
	op->running = true;
	called = *op;
	driver_pause();
	if (called.callback)
		called.callback((CUstream)(uintptr_t)handle, CUDA_SUCCESS, called.data);
	else
		called.host(called.data);
	driver_resume();
	if (object_find_quietly(handle, OBJECT_STREAM) == &stream->object && stream->first == op)
		queue_drop_first(stream);
	return true;
}

/* Returns true if operations are left that need only time. */
static bool look_after_all(void)
{
	bool left = false, called;

	do {
		struct stream *stream;
		size_t cursor = 0;

		called = left = false;
		while (!called && (stream = (struct stream *)object_next(OBJECT_STREAM, NULL, &cursor))) {
			left |= queue_advance(stream);
			called = call_host(stream);
		}
	} while (called);
	return left;
}

static void *work(void *unused)
{
	const struct timespec poll = {0, POLL_NS};

	driver_resume();
	for (;;) {
		if (driver.forked || !look_after_all()) {
			driver_wait(&wake);
			continue;
		}
		driver_pause();
		nanosleep(&poll, NULL);
		driver_resume();
	}
	return NULL;
}

void worker_wake(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	if (started) {
		pthread_cond_signal(&wake);
		return;
	}
	/* Only the application's own threads receive its signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	started = pthread_create(&thread, &attributes, work, NULL) == 0;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
