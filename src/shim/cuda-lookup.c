/* cuGetProcAddress: how runtimes since CUDA 11.3 find all functions.
 *
 * The driver answers first: only it knows which version of a name belongs to which CUDA version and which
 * default stream the caller compiled for. Then the pointer that it gave is replaced by our hook of exactly
 * that function. What we do not hook, functions of newer drivers included, is handed out as it is.
 */
#include "shim/cuda-library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The driver's pointers of hooked functions, sorted. */
struct pointer_map {
	size_t count;
	struct pointer_pair {
		const void *theirs;
		const struct shim_hook *hook;
		/* A linker that folds equal functions gives one address to functions of different arguments
		 * (old ones that only refuse): then the name must say which is meant. */
		bool folded;
	} pairs[];
};

static struct pointer_map *map;

static const int symbol_versions[] = SHIM_SYMBOL_VERSIONS;
static const bool symbol_per_thread[] = SHIM_SYMBOL_PER_THREAD;

static int pair_compare(const void *a, const void *b)
{
	const struct pointer_pair *x = a, *y = b;

	return x->theirs < y->theirs ? -1 : x->theirs > y->theirs;
}

/* Entry `index` of strings that follow each other. */
static const char *string_at(const char *strings, size_t index)
{
	while (index--)
		strings += strlen(strings) + 1;
	return strings;
}

static uint64_t stream_flag(size_t symbol)
{
	return symbol_per_thread[symbol] ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
					 : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
}

/* What the driver hands out for the hooked symbol, if that is another pointer than the one it exports. */
static const void *handed_out(const struct shim_hook *hook)
{
	const char *base = string_at(SHIM_SYMBOL_BASES, hook->symbol);
	int version = symbol_versions[hook->symbol];
	CUdriverProcAddressQueryResult status;
	void *found = NULL;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (shim_driver_has(SYMBOL_cuGetProcAddress_v2))
		r = DRIVER(cuGetProcAddress_v2)(base, &found, version, stream_flag(hook->symbol), &status);
	else if (shim_driver_has(SYMBOL_cuGetProcAddress))
		r = DRIVER(cuGetProcAddress)(base, &found, version, stream_flag(hook->symbol));
	return r == CUDA_SUCCESS ? found : NULL;
}

/* How many exported functions have this address. */
static unsigned exported_at(const void *theirs)
{
	unsigned count = 0;

	for (size_t i = 0; i < SYMBOL_COUNT; i++)
		count += shim_resolve(i) == theirs;
	return count;
}

static void map_add(struct pointer_map *made, const void *theirs, const struct shim_hook *hook, bool folded)
{
	made->pairs[made->count++] = (struct pointer_pair){theirs, hook, folded};
}

static struct pointer_map *map_make(void)
{
	struct pointer_map *made = malloc(sizeof(*made) + 2 * cuda_hooks_count * sizeof(made->pairs[0]));

	if (!made)
		return NULL;
	made->count = 0;
	for (size_t i = 0; i < cuda_hooks_count; i++) {
		const void *exported = shim_resolve(cuda_hooks[i].symbol);
		const void *other = handed_out(&cuda_hooks[i]);

		if (shim_driver_has(cuda_hooks[i].symbol))
			map_add(made, exported, &cuda_hooks[i], exported_at(exported) > 1);
		/* An address that is exported says by itself which function it is. */
		if (other && exported_at(other) == 0)
			map_add(made, other, &cuda_hooks[i], false);
	}
	qsort(made->pairs, made->count, sizeof(made->pairs[0]), pair_compare);
	return made;
}

/* NULL: out of memory. Threads that come at the same time make the same map, and one of them is kept. */
static const struct pointer_map *map_get(void)
{
	struct pointer_map *made = __atomic_load_n(&map, __ATOMIC_ACQUIRE), *expected = NULL;

	if (made)
		return made;
	made = map_make();
	if (!made)
		return NULL;
	if (__atomic_compare_exchange_n(&map, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	free(made);
	return expected;
}

static bool pair_answers(const struct pointer_pair *pair, const char *name)
{
	return !pair->folded || strcmp(string_at(SHIM_SYMBOL_BASES, pair->hook->symbol), name) == 0 ||
	       strcmp(string_at(SHIM_SYMBOL_NAMES, pair->hook->symbol), name) == 0;
}

static void *map_find(const struct pointer_map *made, const char *name, void *theirs)
{
	size_t low = 0, high = made->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (made->pairs[middle].theirs < theirs)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < made->count && made->pairs[low].theirs == theirs; low++)
		if (pair_answers(&made->pairs[low], name))
			return made->pairs[low].hook->function;
	return theirs;
}

/* Puts our hook in the place of the driver's function. Without memory for the map nothing may be handed out
 * that could be the way around a hook. */
static CUresult replace(const char *name, void **function)
{
	const struct pointer_map *made;
	int saved = errno;

	if (!function || !*function)
		return CUDA_SUCCESS;
	made = map_get();
	errno = saved;
	*function = made ? map_find(made, name, *function) : NULL;
	return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The newest version of `base` up to cuda_version, as this library exports it: every one of them then says
 * that there is no card. */
static CUresult own_lookup(const char *base, void **function, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, known = false;
	const char *name = SHIM_SYMBOL_NAMES, *other = SHIM_SYMBOL_BASES, *best = NULL;
	int best_version = 0;

	if (!base || !function)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < SYMBOL_COUNT; i++, name += strlen(name) + 1, other += strlen(other) + 1) {
		/* Most functions have no stream and only one entry for both. */
		int version = symbol_versions[i] * 2 + (symbol_per_thread[i] && per_thread);

		if (strcmp(other, base) != 0 || (symbol_per_thread[i] && !per_thread))
			continue;
		known = true;
		if (symbol_versions[i] <= cuda_version && version > best_version) {
			best_version = version;
			best = name;
		}
	}
	*function = best ? dlsym(shim_self(), best) : NULL;
	if (status)
		*status = best	  ? CU_GET_PROC_ADDRESS_SUCCESS
			  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return best ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

HOOK CUresult cuGetProcAddress(const char *name, void **function, int cuda_version, uint64_t flags)
{
	CUresult r;

	if (!shim_driver_is_open())
		return own_lookup(name, function, cuda_version, flags, NULL);
	if (!shim_driver_has(SYMBOL_cuGetProcAddress))
		return CUDA_ERROR_NOT_FOUND;
	r = DRIVER(cuGetProcAddress)(name, function, cuda_version, flags);
	return r == CUDA_SUCCESS ? replace(name, function) : r;
}

HOOK CUresult cuGetProcAddress_v2(const char *name, void **function, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUresult r;

	if (!shim_driver_is_open())
		return own_lookup(name, function, cuda_version, flags, status);
	if (shim_driver_has(SYMBOL_cuGetProcAddress_v2)) {
		r = DRIVER(cuGetProcAddress_v2)(name, function, cuda_version, flags, status);
		return r == CUDA_SUCCESS ? replace(name, function) : r;
	}
	/* A driver before 12.0: its callers would not have found this function. */
	r = cuGetProcAddress(name, function, cuda_version, flags);
	if (status)
		*status = r == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS
					    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return r;
}
