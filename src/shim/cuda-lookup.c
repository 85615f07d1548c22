/* cuGetProcAddress: runtimes since CUDA 11.3 find all functions through it.
 *
 * The driver answers first. Only the driver knows which version of a name belongs to which CUDA version, and
 * to which default stream the caller was compiled for. If the function is hooked, its pointer is then
 * replaced by our hook of exactly that function.
 *
 * A version of a hooked name that is newer than this library is withheld, as if the driver were older,
 * because the program could use it to bypass the hook. Names that this library does not know at all are
 * handed out; the agent and `ration doctor` report them (docs/adr/046-new-symbols.md).
 */
#include "shim/cuda-library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The driver refuses other flags (550.163.01). */
#define PROC_ADDRESS_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* The driver's pointers to hooked functions, sorted. */
struct pointer_map {
	size_t count;
	struct pointer_pair {
		const void *theirs;
		const struct shim_hook *hook;
		/* A linker that folds identical functions gives one address to functions with different
		 * arguments (old ones that only refuse). Then the name decides which function is meant. */
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

/* Returns entry `index` of consecutive strings. */
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

/* Returns what the driver hands out for the hooked symbol, if that is not the pointer that it exports. */
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

/* Returns how many exported functions have this address. */
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

		/* For a function that it lacks, the driver hands out an older version of the name. */
		if (!shim_driver_has(cuda_hooks[i].symbol))
			continue;
		map_add(made, exported, &cuda_hooks[i], exported_at(exported) > 1);
		/* An exported address identifies its function by itself. */
		if (other && exported_at(other) == 0)
			map_add(made, other, &cuda_hooks[i], false);
	}
	qsort(made->pairs, made->count, sizeof(made->pairs[0]), pair_compare);
	return made;
}

/* Returns NULL if out of memory. Threads that come at the same time build the same map, and one of the maps
 * is kept. */
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
	return NULL;
}

static bool has_hooked_version(const char *name)
{
	const char *base = SHIM_SYMBOL_BASES;

	for (size_t i = 0; i < SYMBOL_COUNT; i++, base += strlen(base) + 1)
		if (shim_library.hooked[i] && strcmp(base, name) == 0)
			return true;
	return false;
}

/* Returns what the program gets for the pointer that the driver gave for this name. NULL: nothing. Without
 * memory for the map, nothing that could bypass a hook may be handed out. */
static void *replacement(const char *name, void *theirs)
{
	int saved = errno;
	const struct pointer_map *made = map_get();
	void *ours = made ? map_find(made, name, theirs) : NULL;

	errno = saved;
	if (!made || ours)
		return ours;
	if (exported_at(theirs) > 0)
		return theirs;
	if (!has_hooked_version(name)) {
		shim_log(
			"%s is handed out without a limit: this version of ration does not know it; update ration",
			name);
		return theirs;
	}
	shim_log(
		"%s is withheld in the requested version: this version of ration does not know it; update ration",
		name);
	return NULL;
}

/* Returns the newest version of `base` up to cuda_version that this library exports. Each of these functions
 * then reports that there is no GPU. NULL: there is no version that old, or *ret_known is false. */
static void *own_find(const char *base, int cuda_version, uint64_t flags, bool *ret_known)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const char *name = SHIM_SYMBOL_NAMES, *other = SHIM_SYMBOL_BASES, *best = NULL;
	unsigned int best_version = 0;

	*ret_known = false;
	for (size_t i = 0; i < SYMBOL_COUNT; i++, name += strlen(name) + 1, other += strlen(other) + 1) {
		/* Most functions have no stream and one entry for both default streams. */
		unsigned int version = symbol_versions[i] * 2 + (symbol_per_thread[i] && per_thread);

		if (strcmp(other, base) != 0 || (symbol_per_thread[i] && !per_thread))
			continue;
		*ret_known = true;
		/* The driver treats -1 as the newest version. */
		if ((unsigned int)symbol_versions[i] <= (unsigned int)cuda_version &&
			version > best_version) {
			best_version = version;
			best = name;
		}
	}
	return best ? dlsym(shim_self(), best) : NULL;
}

/* Answers like the older cuGetProcAddress: if nothing is found, an error, and *function stays unchanged. */
static CUresult lookup(const char *name, void **function, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status)
{
	void *found = NULL;
	bool known = true;

	*ret_status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	if (!shim_driver_is_open()) {
		if (!name || !function || flags > PROC_ADDRESS_FLAGS)
			return CUDA_ERROR_INVALID_VALUE;
		found = own_find(name, cuda_version, flags, &known);
	} else {
		CUresult r = CUDA_ERROR_NOT_FOUND;

		if (shim_driver_has(SYMBOL_cuGetProcAddress))
			r = DRIVER(cuGetProcAddress)(name, function ? &found : NULL, cuda_version, flags);
		if (r != CUDA_SUCCESS)
			return r;
		found = found ? replacement(name, found) : NULL;
	}
	if (!found) {
		*ret_status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
		return CUDA_ERROR_NOT_FOUND;
	}
	*function = found;
	*ret_status = CU_GET_PROC_ADDRESS_SUCCESS;
	return CUDA_SUCCESS;
}

HOOK CUresult cuGetProcAddress(const char *name, void **function, int cuda_version, uint64_t flags)
{
	CUdriverProcAddressQueryResult status;

	return lookup(name, function, cuda_version, flags, &status);
}

/* The newer version succeeds even if nothing is found: it sets *function to NULL and gives the reason. A
 * driver before 12.0 has only the older version; so do the functions that this library finds by itself. */
HOOK CUresult cuGetProcAddress_v2(const char *name, void **function, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found;
	CUresult r;

	if (shim_driver_has(SYMBOL_cuGetProcAddress_v2)) {
		r = DRIVER(cuGetProcAddress_v2)(name, function, cuda_version, flags, status);
		if (r != CUDA_SUCCESS || !function || !*function)
			return r;
		*function = replacement(name, *function);
		if (!*function && status)
			*status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		return CUDA_SUCCESS;
	}
	r = lookup(name, function, cuda_version, flags, &found);
	if (r == CUDA_ERROR_NOT_FOUND && function)
		*function = NULL;
	if (status && (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_FOUND))
		*status = found;
	return r == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : r;
}
