/* fill-card [SECONDS]: allocates memory of the first GPU in pieces of 256 MiB until the driver refuses; frees
 * one piece and allocates it again; then keeps all pieces for SECONDS. Needs no CUDA toolkit:
 *
 *     cc -o fill-card fill-card.c -ldl && ration run --mem 2GiB -- ./fill-card
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 20)
#define PIECES_MAX 4096
#define OUT_OF_MEMORY 2

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "the driver's library has no %s\n", name);
		exit(1);
	}
	return found;
}

static void must(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "%s: CUDA error %d\n", what, result);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static unsigned long long pieces[PIECES_MAX];
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	size_t count = 0, free_bytes, total;
	int result;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*init)(unsigned) = symbol(library, "cuInit");
	int (*create)(void **, unsigned, int) = symbol(library, "cuCtxCreate_v2");
	int (*info)(size_t *, size_t *) = symbol(library, "cuMemGetInfo_v2");
	int (*take)(unsigned long long *, size_t) = symbol(library, "cuMemAlloc_v2");
	int (*give)(unsigned long long) = symbol(library, "cuMemFree_v2");

	must(init(0), "cuInit");
	must(create(&context, 0, 0), "cuCtxCreate");
	while ((result = take(&pieces[count], PIECE)) == 0 && ++count < PIECES_MAX)
		;
	if (result != OUT_OF_MEMORY)
		must(result, "cuMemAlloc");
	must(info(&free_bytes, &total), "cuMemGetInfo");
	printf("a GPU of %zu MiB: %zu x 256 MiB, then %s\n", total >> 20, count,
		result ? "CUDA_ERROR_OUT_OF_MEMORY" : "enough");
	if (count > 0) {
		must(give(pieces[count - 1]), "cuMemFree");
		must(take(&pieces[count - 1], PIECE), "cuMemAlloc after a cuMemFree");
		printf("one freed, one taken again: it goes on\n");
	}
	fflush(stdout);
	sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 0);
	return 0;
}
