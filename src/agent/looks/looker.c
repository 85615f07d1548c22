#include "agent/looks/looker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/loop.h"
#include "nvml/nvml.h"

#define WAIT_MS 1000

struct looker {
	struct loop_io *io;
	looker_fn fn;
	void *userdata;
	bool started, busy;
	pthread_t thread;
	int asked_fd, answered_fd; /* eventfds */

	/* the thread's from a write to asked_fd to one to answered_fd, else the loop's */
	struct nvml *nvml; /* NULL: end */
	char uuid[96];
	struct looker_answer answer;
	struct nvml_process list[NVML_MAX_PROCESSES];
	bool use;
	struct nvml_process_use uses[NVML_MAX_PROCESSES];
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

	/* Counts up to 2^64; there is at most one. */
	if (write(fd, &word, sizeof(word)) < 0)
		abort();
}

static void *looker_main(void *data)
{
	struct looker *looker = data;
	struct looker_answer *a = &looker->answer;

	while (wait_for_word(looker->asked_fd) && looker->nvml) {
		a->result = nvml_processes(looker->nvml, looker->uuid, looker->list, &a->count);
		if (looker->use)
			a->use_result = nvml_utilization(looker->nvml, looker->uuid, &a->since_us,
				&a->card_percent, looker->uses, &a->n_uses);
		say_word(looker->answered_fd);
	}
	return NULL;
}

static void on_answer(void *userdata, int fd, uint32_t events)
{
	struct looker *looker = userdata;

	if (!wait_for_word(fd))
		return;
	looker->busy = false;
	looker->fn(looker->userdata, &looker->answer);
}

static int looker_start(struct looker *looker)
{
	sigset_t all, before;
	int r;

	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&looker->thread, NULL, looker_main, looker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	looker->started = r == 0;
	return r == 0 ? 0 : -EAGAIN;
}

int looker_ask(struct looker *looker, struct nvml *nvml, const struct looker_question *question)
{
	int r = looker->busy ? -EBUSY : 0;

	if (r == 0 && !looker->started)
		r = looker_start(looker);
	if (r < 0)
		return r;
	looker->busy = true;
	looker->nvml = nvml;
	looker->use = question->use;
	looker->answer = (struct looker_answer){.list = looker->list,
		.uses = looker->uses,
		.use_result = -ENODATA,
		.since_us = question->since_us};
	snprintf(looker->uuid, sizeof(looker->uuid), "%s", question->uuid);
	say_word(looker->asked_fd);
	return 0;
}

bool looker_is_busy(const struct looker *looker)
{
	return looker->busy;
}

int looker_new(struct loop *loop, looker_fn fn, void *userdata, struct looker **ret_looker)
{
	struct looker *looker = calloc(1, sizeof(*looker));
	int r = 0;

	if (!looker)
		return -ENOMEM;
	looker->fn = fn;
	looker->userdata = userdata;
	looker->asked_fd = eventfd(0, EFD_CLOEXEC);
	looker->answered_fd = eventfd(0, EFD_CLOEXEC);
	if (looker->asked_fd < 0 || looker->answered_fd < 0)
		r = -errno;
	if (r == 0)
		r = loop_add_io(loop, looker->answered_fd, EPOLLIN, on_answer, looker, &looker->io);
	if (r < 0)
		looker_free(looker);
	else
		*ret_looker = looker;
	return r;
}

bool looker_free(struct looker *looker)
{
	struct pollfd answer;

	if (!looker)
		return true;
	loop_io_remove(looker->io);
	looker->io = NULL;
	answer = (struct pollfd){.fd = looker->answered_fd, .events = POLLIN};
	/* The thread goes on with what it has, until the process ends. */
	if (looker->busy && poll(&answer, 1, WAIT_MS) <= 0)
		return false;
	if (looker->started) {
		looker->nvml = NULL;
		say_word(looker->asked_fd);
		pthread_join(looker->thread, NULL);
	}
	close_ptr(&looker->asked_fd);
	close_ptr(&looker->answered_fd);
	free(looker);
	return true;
}
