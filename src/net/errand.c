#include "net/errand.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/loop.h"

#define WAIT_MS 1000

struct errand {
	struct loop_io *io;
	errand_fn work, done;
	void *userdata;
	bool started, busy;
	bool end; /* owned by the thread between writes to asked_fd and answered_fd, else by the loop */
	pthread_t thread;
	int asked_fd, answered_fd; /* eventfds */
};

static bool wait_for_word(int fd)
{
	uint64_t word;
	ssize_t n;

	do
		n = read(fd, &word, sizeof(word));
	while (n < 0 && errno == EINTR);
	return n == sizeof(word);
}

static void say_word(int fd)
{
	const uint64_t word = 1;

	/* The counter holds up to 2^64, and at most one is pending. */
	if (write(fd, &word, sizeof(word)) < 0)
		abort();
}

static void *errand_main(void *data)
{
	struct errand *errand = data;

	while (wait_for_word(errand->asked_fd) && !errand->end) {
		errand->work(errand->userdata);
		say_word(errand->answered_fd);
	}
	return NULL;
}

static void on_answer(void *userdata, int fd, uint32_t events)
{
	struct errand *errand = userdata;

	if (!wait_for_word(fd))
		return;
	errand->busy = false;
	errand->done(errand->userdata);
}

int errand_start(struct errand *errand)
{
	int r = errand->busy ? -EBUSY : 0;

	if (r == 0 && !errand->started) {
		sigset_t all, before;

		/* Only the loop receives signals. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = pthread_create(&errand->thread, NULL, errand_main, errand);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		errand->started = r == 0;
		r = r == 0 ? 0 : -EAGAIN;
	}
	if (r < 0)
		return r;
	errand->busy = true;
	say_word(errand->asked_fd);
	return 0;
}

bool errand_is_busy(const struct errand *errand)
{
	return errand->busy;
}

int errand_new(struct loop *loop, errand_fn work, errand_fn done, void *userdata, struct errand **ret_errand)
{
	struct errand *errand = calloc(1, sizeof(*errand));
	int r = 0;

	if (!errand)
		return -ENOMEM;
	errand->work = work;
	errand->done = done;
	errand->userdata = userdata;
	errand->asked_fd = eventfd(0, EFD_CLOEXEC);
	errand->answered_fd = eventfd(0, EFD_CLOEXEC);
	if (errand->asked_fd < 0 || errand->answered_fd < 0)
		r = -errno;
	if (r == 0)
		r = loop_add_io(loop, errand->answered_fd, EPOLLIN, on_answer, errand, &errand->io);
	if (r < 0)
		errand_free(errand);
	else
		*ret_errand = errand;
	return r;
}

bool errand_free(struct errand *errand)
{
	struct pollfd answer;

	if (!errand)
		return true;
	loop_io_remove(errand->io);
	errand->io = NULL;
	answer = (struct pollfd){.fd = errand->answered_fd, .events = POLLIN};
	if (errand->busy && poll(&answer, 1, WAIT_MS) <= 0)
		return false;
	if (errand->started) {
		errand->end = true;
		say_word(errand->asked_fd);
		pthread_join(errand->thread, NULL);
	}
	close_ptr(&errand->asked_fd);
	close_ptr(&errand->answered_fd);
	free(errand);
	return true;
}
