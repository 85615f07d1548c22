#include "fiber.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include "base/clock.h"

#define STACK_SIZE (128 << 10)
/* So much further than another one a fiber may be: they would change places at each launch. */
#define AHEAD_NS 20000

static struct fiber {
	int64_t now;
	fiber_main *main;
	void *argument;
	void (*swap)(void *argument);
	char *stack;
	jmp_buf at;
} fibers[FIBERS_MAX];

static size_t count;
static struct fiber *current;
static int64_t others;
static jmp_buf scheduler;
static ucontext_t scheduler_context;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_nanosleep(
	clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	if (!current)
		return __real_clock_gettime(clock, ret_now);
	*ret_now = (struct timespec){current->now / NS_PER_S, current->now % NS_PER_S};
	return 0;
}

static uint32_t late(void)
{
	static uint64_t x = 1;

	x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(x >> 33);
}

/* A thread sleeps up to 50 us longer by default (prctl(2), PR_SET_TIMERSLACK), and finds the processor taken
 * now and then. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left)
{
	uint32_t more = late();

	fiber_sleep(time->tv_sec * NS_PER_S + time->tv_nsec + 20000 + more % 60000 +
		    (more / 64 % 50 == 0 ? late() % 2000000 : 0));
	return 0;
}

int64_t fiber_now(void)
{
	return current->now;
}

static void begin(void)
{
	struct fiber *self = current;

	if (_setjmp(self->at) == 0)
		setcontext(&scheduler_context);
	self->main(self->argument);
	for (;;)
		fiber_sleep(NS_PER_S * 1000);
}

void fiber_start(int64_t at, fiber_main *main, void *argument, void (*swap)(void *argument))
{
	struct fiber *fiber = &fibers[count++];
	ucontext_t context;

	*fiber = (struct fiber){
		.now = at, .main = main, .argument = argument, .swap = swap, .stack = malloc(STACK_SIZE)};
	getcontext(&context);
	context.uc_stack.ss_sp = fiber->stack;
	context.uc_stack.ss_size = STACK_SIZE;
	context.uc_link = NULL;
	makecontext(&context, begin, 0);
	current = fiber;
	swapcontext(&scheduler_context, &context);
	current = NULL;
}

void fiber_sleep(int64_t ns)
{
	struct fiber *self = current;

	self->now += ns;
	if (self->now > others + AHEAD_NS && _setjmp(self->at) == 0)
		_longjmp(scheduler, 1);
}

static struct fiber *first(void)
{
	struct fiber *found = &fibers[0];

	others = INT64_MAX;
	for (size_t i = 1; i < count; i++) {
		struct fiber *fiber = &fibers[i];
		bool sooner = fiber->now < found->now;
		int64_t later = sooner ? found->now : fiber->now;

		found = sooner ? fiber : found;
		others = later < others ? later : others;
	}
	return found;
}

void fibers_run(int64_t until)
{
	_setjmp(scheduler);
	for (;;) {
		if (current && current->swap)
			current->swap(current->argument);
		current = first();
		if (current->now >= until)
			break;
		if (current->swap)
			current->swap(current->argument);
		_longjmp(current->at, 1);
	}
	current = NULL;
	for (size_t i = 0; i < count; i++)
		free(fibers[i].stack);
	count = 0;
}
