/* limit-churn THREADS SECONDS SIZE_MIB - allocates and frees random sizes at the limit, in so many threads,
 * then fills the GPU with pieces of 16 MiB once, and prints how many there were. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HELD_MAX 64
#define MIB ((size_t)1 << 20)
#define PIECE (16 * MIB)

static int (*init)(unsigned), (*create)(void **, unsigned, int), (*set)(void *), (*take)(uint64_t *, size_t),
	(*give)(uint64_t);
static void *context;
static atomic_bool stop;
static size_t size_max;

static void *churn(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed * 2654435761u + 1, count = 0;
	uint64_t held[HELD_MAX];

	set(context);
	while (!atomic_load(&stop)) {
		size_t size = (size_t)(rand_r(&random) % (int)size_max + 1) * MIB;

		if (count > 0 && (count == HELD_MAX || rand_r(&random) % 2)) {
			unsigned at = (unsigned)rand_r(&random) % count;

			give(held[at]);
			held[at] = held[--count];
		} else if (take(&held[count], size) == 0) {
			count++;
		} else if (count > 0) {
			give(held[--count]);
		}
	}
	while (count > 0)
		give(held[--count]);
	return NULL;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		exit(3);
	return found;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int threads = argc == 4 ? atoi(argv[1]) : 0, pieces = 0;
	pthread_t list[64];
	uint64_t pointer;

	if (!library || threads < 1 || threads > 64)
		return 2;
	size_max = (size_t)atoi(argv[3]);
	init = symbol(library, "cuInit");
	create = symbol(library, "cuCtxCreate_v2");
	set = symbol(library, "cuCtxSetCurrent");
	take = symbol(library, "cuMemAlloc_v2");
	give = symbol(library, "cuMemFree_v2");
	if (init(0) || create(&context, 0, 0))
		return 3;
	for (int i = 0; i < threads; i++)
		pthread_create(&list[i], NULL, churn, (void *)(uintptr_t)(i + 1));
	nanosleep(&(struct timespec){.tv_sec = atoi(argv[2])}, NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < threads; i++)
		pthread_join(list[i], NULL);
	while (pieces < 10000 && take(&pointer, PIECE) == 0)
		pieces++;
	printf("%d\n", pieces);
	return 0;
}
