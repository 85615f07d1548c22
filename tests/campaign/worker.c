/* worker.c - one process of a run: threads that take and give back, then what it is told. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/campaign/client.h"

#define PIECES_MAX 4096
#define START_TRIES 100 /* of 20 ms: the GPU may be full for a moment */

static struct caller callers[THREADS_MAX];
static CUdeviceptr pieces[PIECES_MAX];
static unsigned piece_count;

pid_t worker_start(int slot)
{
	char text[16];
	pid_t pid;

	snprintf(text, sizeof(text), "%d", slot);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "campaign-client", "worker", text, NULL);
		_exit(127);
	}
	return pid;
}

void worker_forget(struct board *board, struct slot *slot)
{
	for (unsigned i = 0; i < OFFERS_MAX; i++)
		if (atomic_load(&board->offers[i].state) != 0 &&
			&board->slots[atomic_load(&board->offers[i].slot)] == slot)
			atomic_store(&board->offers[i].state, 0);
	atomic_store(&slot->reached, 0);
	atomic_store(&slot->order, ORDER_NONE);
	atomic_store(&slot->reserved, 0);
	atomic_store(&slot->pid, 0);
	atomic_store(&slot->taken, 0);
}

/* A child without another program: it has the parent's pages, and nothing of the GPU. What it may still ask
 * must not change what the parent has; it may also find a lock that nobody will ever release. */
static void fork_plainly(struct caller *caller)
{
	bool asks = caller_random(caller, 2) && caller->board->budget == 0;
	unsigned us = (unsigned)caller_random(caller, 20000);
	pid_t pid = fork();
	CUdeviceptr pointer;

	if (pid == 0) {
		alarm(1);
		if (asks)
			cu.cuMemAlloc_v2(&pointer, MIB);
		usleep(us);
		_exit(0);
	}
	atomic_fetch_add(&caller->board->children, pid > 0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static enum kind random_kind(struct caller *caller)
{
	for (;;) {
		unsigned kind = (unsigned)caller_random(caller, KIND_MAX);

		if ((kind == KIND_CHILD || kind == KIND_CONTEXT) && caller_random(caller, 8) != 0)
			continue;
		if (caller->board->kinds >> kind & 1)
			return (enum kind)kind;
	}
}

static void step(struct caller *caller, unsigned percent_free)
{
	unsigned count = caller->count;

	if (count > 0 && (count == sizeof(caller->held) / sizeof(caller->held[0]) ||
				 caller_random(caller, 100) < percent_free)) {
		unsigned which = (unsigned)caller_random(caller, count);

		call_give(caller, &caller->held[which]);
		caller->held[which] = caller->held[--caller->count];
	} else if (call_take(caller, random_kind(caller), &caller->held[count]) == CUDA_SUCCESS) {
		caller->count++;
	}
	if (caller->board->forks && caller_random(caller, 200) == 0)
		fork_plainly(caller);
}

static void *thread_main(void *argument)
{
	struct caller *caller = argument;
	struct board *board = caller->board;
	unsigned percent_free = 40;

	cu.cuCtxSetCurrent(caller->context);
	cu.cuStreamCreate(&caller->stream, CU_STREAM_NON_BLOCKING);
	while (atomic_load(&board->stage) == STAGE_MIX) {
		if (caller_random(caller, 50) == 0)
			percent_free = 10 + (unsigned)caller_random(caller, 60);
		step(caller, percent_free);
		if (board->nap_us && caller_random(caller, 2))
			usleep((useconds_t)caller_random(caller, board->nap_us));
	}
	return NULL;
}

static CUresult try_context(struct board *board, unsigned slot, bool primary, CUcontext *ret_context)
{
	CUresult r;

	if (!board_reserve(board, &board->slots[slot], board->context_bytes))
		return CUDA_ERROR_NOT_READY;
	r = primary ? cu.cuDevicePrimaryCtxRetain(ret_context, 0) : cu.cuCtxCreate_v2(ret_context, 0, 0);
	if (r == CUDA_SUCCESS)
		return cu.cuCtxSetCurrent(*ret_context);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && board->budget)
		fprintf(stderr, "refused: the first context of slot %u\n", slot);
	board_release(&board->slots[slot], board->budget ? board->context_bytes : 0);
	return r;
}

/* On a full GPU there is none for a while. */
static bool first_context(struct board *board, unsigned slot, uint64_t seed, CUcontext *ret_context)
{
	CUresult r = CUDA_ERROR_NOT_READY;

	for (unsigned i = 0; i < START_TRIES && atomic_load(&board->stage) == STAGE_MIX; i++) {
		r = try_context(board, slot, seed % 2, ret_context);
		if (r == CUDA_SUCCESS)
			return true;
		usleep(20000);
	}
	if (r != CUDA_ERROR_OUT_OF_MEMORY && r != CUDA_ERROR_NOT_READY)
		fprintf(stderr, "failed: the first context with %d\n", (int)r);
	return false;
}

static void free_pieces(void)
{
	while (piece_count > 0)
		cu.cuMemFree_v2(pieces[--piece_count]);
}

static void free_all(struct board *board)
{
	free_pieces();
	for (unsigned i = 0; i < board->threads; i++) {
		struct caller *caller = &callers[i];

		cu.cuCtxSetCurrent(caller->context);
		while (caller->count > 0)
			call_give(caller, &caller->held[--caller->count]);
		if (caller->stream)
			cu.cuStreamSynchronize(caller->stream);
		if (caller->pool)
			cu.cuMemPoolDestroy(caller->pool);
		caller->pool = NULL;
	}
	cu.cuCtxSynchronize();
	cu.cuDeviceGraphMemTrim(0);
}

static void obey(struct slot *slot)
{
	uint32_t order = atomic_load(&slot->order);

	if (order == ORDER_FILL) {
		piece_count += fill(pieces + piece_count, PIECES_MAX - piece_count);
		atomic_store(&slot->pieces, piece_count);
	} else if (order == ORDER_EMPTY) {
		free_pieces();
	}
	if (order != ORDER_NONE)
		atomic_store(&slot->order, ORDER_NONE);
}

static void follow(struct board *board, struct slot *slot)
{
	uint32_t reached = STAGE_HOLD;

	atomic_store(&slot->reached, reached);
	while (atomic_load(&board->stage) != STAGE_END) {
		if (atomic_load(&board->stage) == STAGE_FREE && reached != STAGE_FREE) {
			free_all(board);
			reached = STAGE_FREE;
			atomic_store(&slot->reached, reached);
		}
		obey(slot);
		usleep(2000);
	}
}

/* Nothing stays behind where the first process was killed. */
static void *await_the_end(void *argument)
{
	char byte;

	while (read(LIFE_FD, &byte, 1) > 0)
		;
	_exit(1);
}

int worker_main(int number, bool inside)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
	pthread_t threads[THREADS_MAX];
	unsigned started = 0;
	CUcontext context;
	uint64_t seed, habits;

	if (board == MAP_FAILED || number < 0 || number >= SLOTS_MAX ||
		pthread_create(&threads[0], NULL, await_the_end, NULL) != 0)
		return 1;
	seed = atomic_fetch_add(&board->last_seed, 1) + 1;
	habits = (board->seed * 31 + seed) * UINT64_C(2685821657736338717) >> 32;
	if (!inside)
		atomic_store(&board->slots[number].pid, getpid());
	if (!driver_load() || cu.cuInit(0) != CUDA_SUCCESS ||
		!first_context(board, (unsigned)number, seed, &context))
		return 75;
	for (; started < board->threads; started++) {
		callers[started] = (struct caller){.board = board,
			.slot = &board->slots[number],
			.context = context,
			.inside = inside,
			.percent_self_freeing = (const unsigned[]){10, 50, 100}[habits % 3],
			.trims = habits / 3 % 2,
			.even_sizes = (habits / 6 + started) % 2,
			.random = (board->seed * 1000003 + seed) * 1000003 + started + 1};
		if (pthread_create(&threads[started], NULL, thread_main, &callers[started]) != 0)
			return 1;
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	follow(board, &board->slots[number]);
	return 0;
}
