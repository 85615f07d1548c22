/* storm.c - threads that allocate and free at the limit, and what can be allocated afterwards. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/gpu/cuda.h"
#include "tests/gpu/probe.h"

#define THREADS_MAX 64u
#define PIECES 64u
#define PIECE_MAX (64 * MIB)

struct thread {
	pthread_t id;
	unsigned seed;
	int64_t end_ns;
	uint64_t calls, refused;
	int other; /* a CUresult that is neither success nor out of memory */
	CUcontext context;
};

static __typeof__(&cuCtxSetCurrent) set_current;
static __typeof__(&cuCtxGetCurrent) get_current;

static void *allocate_and_free(void *arg)
{
	struct thread *t = arg;
	CUdeviceptr pieces[PIECES] = {0};
	CUresult r = set_current(t->context);

	while (r == CUDA_SUCCESS && monotonic_ns() < t->end_ns) {
		CUdeviceptr *piece = &pieces[(unsigned)rand_r(&t->seed) % PIECES];

		t->calls++;
		if (*piece) {
			r = cu.MemFree(*piece);
			*piece = 0;
			continue;
		}
		r = cu.MemAlloc(piece, 1 + (uint64_t)rand_r(&t->seed) % PIECE_MAX);
		if (r == CUDA_ERROR_OUT_OF_MEMORY) {
			*piece = 0;
			t->refused++;
			r = CUDA_SUCCESS;
		}
	}
	for (unsigned i = 0; i < PIECES; i++)
		if (pieces[i])
			cu.MemFree(pieces[i]);
	t->other = (int)r;
	return NULL;
}

static void fill_afterwards(uint64_t calls, uint64_t refused, int other)
{
	CUdeviceptr address;
	uint64_t pieces = 0;

	while (cu.MemAlloc(&address, 16 * MIB) == CUDA_SUCCESS)
		pieces++;
	printf("{\"calls\": %llu, \"refused\": %llu, \"other\": %d, \"allocated\": %llu}\n",
		(unsigned long long)calls, (unsigned long long)refused, other,
		(unsigned long long)(pieces * 16 * MIB));
	fflush(stdout);
	probe_wait();
}

/* SECONDS THREADS */
void probe_storm(const struct probe_args *args)
{
	struct thread *threads = must_calloc(THREADS_MAX, sizeof(*threads));
	unsigned n = args->number[1] < THREADS_MAX ? (unsigned)args->number[1] : THREADS_MAX;
	int64_t end_ns = monotonic_ns() + (int64_t)args->number[0] * NS_PER_S;
	uint64_t calls = 0, refused = 0;
	CUcontext context;
	int other = 0;

	set_current = cuda_symbol("cuCtxSetCurrent");
	get_current = cuda_symbol("cuCtxGetCurrent");
	must("cuCtxGetCurrent", get_current(&context));
	for (unsigned i = 0; i < n; i++) {
		threads[i] = (struct thread){.seed = i + 1, .end_ns = end_ns, .context = context};
		if (pthread_create(&threads[i].id, NULL, allocate_and_free, &threads[i]) != 0)
			must("pthread_create", 1);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		calls += threads[i].calls;
		refused += threads[i].refused;
		other = threads[i].other ? threads[i].other : other;
	}
	free(threads);
	fill_afterwards(calls, refused, other);
}
