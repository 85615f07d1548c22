/* memory-code.c - memory that the driver takes for code, and for stacks and heaps of kernels.
 *
 * Its size cannot be known beforehand: the file of a module says little, and the driver has no function for
 * it. So one block is charged before the call, which fails for a program at its limit.
 *
 * If there is plenty of room for all such calls that no sample has seen yet, nothing else happens: programs
 * load hundreds of modules when they start. Otherwise these calls take turns, one at a time in the container.
 * The thread that has the turn waits for a sample. If nothing is left then, it undoes its call and is
 * refused, as on a full GPU. docs/internals/charging.md, "Calls of unknown cost".
 */
#include <time.h>

#include "grant/wait.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"
#include "shim/session.h"

#define MODULE_BYTES (UINT64_C(1) << 30) /* more than a module takes */
#define EACH_BYTES (UINT64_C(64) << 20)	 /* more than a module takes if there are many */
#define LIMIT_BYTES UINT64_MAX		 /* a stack of 64 KiB for each thread of a GPU is 20 GiB */
#define REST_MAX_NS INT64_C(250000000)

/* A call that is under way. */
struct growing {
	uint64_t most; /* an upper bound of what it takes */
	int gpu;       /* -1: there is no current context, and the driver will refuse the call */
	bool turn;
	int64_t begin_ns;
};

static bool has_plenty(const struct growing *growing)
{
	return growing->most <= MODULE_BYTES &&
	       memory_has_plenty((unsigned)growing->gpu, growing->most, EACH_BYTES);
}

static void end_turn(const struct growing *growing)
{
	if (growing->turn)
		memory_end_turn((unsigned)growing->gpu, ACCOUNT_TURN_CODE);
}

static CUresult grow_begin(struct growing *growing, uint64_t most)
{
	CUresult r;

	*growing = (struct growing){.most = most, .gpu = cuda_current_gpu()};
	if (growing->gpu < 0)
		return CUDA_SUCCESS;
	if (!has_plenty(growing)) {
		growing->turn = memory_begin_turn((unsigned)growing->gpu, ACCOUNT_TURN_CODE);
		if (!growing->turn)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = memory_enter((unsigned)growing->gpu, MEMORY_BLOCK);
	if (r != CUDA_SUCCESS)
		end_turn(growing);
	growing->begin_ns = wait_now_ns();
	return r;
}

static bool has_room(unsigned gpu)
{
	const struct shim_session *session = session_get();
	struct session_memory memory = {0};

	if (session)
		memory = session_memory(session, gpu);
	return memory.used_bytes < memory.limit_bytes;
}

/* Returns false if there is no room for what the call took. The caller then undoes the call and calls
 * grow_undone(). */
static bool grow_end(struct growing *growing, CUresult r)
{
	unsigned gpu = (unsigned)growing->gpu;

	if (growing->gpu < 0)
		return true;
	memory_refund(gpu, MEMORY_BLOCK);
	memory_leave();
	if (r == CUDA_SUCCESS && !growing->turn) {
		session_want_room();
		if (has_plenty(growing))
			return true;
		/* If no turn can be had, the call is undone all the same when it must be. */
		growing->turn = memory_begin_turn(gpu, ACCOUNT_TURN_CODE);
	}
	if (r == CUDA_SUCCESS && (!session_await_known(gpu) || !has_room(gpu)))
		return false;
	end_turn(growing);
	return true;
}

/* The container was above its limit since the driver was called. Before its next call it rests for as long.
 * Otherwise many threads that keep trying would withhold a neighbour's memory. */
static CUresult grow_undone(const struct growing *growing)
{
	int64_t rest = wait_now_ns() - growing->begin_ns;

	session_want_room();
	nanosleep(&(struct timespec){.tv_nsec = rest < REST_MAX_NS ? rest : REST_MAX_NS}, NULL);
	end_turn(growing);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- limits of a context --------------------------------------------------------------------------------
 */

/* A larger stack, for all threads of all processors at once, may take as much memory as a context. */
HOOK CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct growing growing;
	size_t before = 0;
	CUresult r = DRIVER(cuCtxGetLimit)(&before, limit);

	if (r != CUDA_SUCCESS || value <= before) {
		r = DRIVER(cuCtxSetLimit)(limit, value);
		if (r == CUDA_SUCCESS)
			session_want_room();
		return r;
	}
	r = grow_begin(&growing, LIMIT_BYTES);
	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuCtxSetLimit)(limit, value);
	if (grow_end(&growing, r))
		return r;
	DRIVER(cuCtxSetLimit)(limit, before);
	return grow_undone(&growing);
}

/* ---- modules --------------------------------------------------------------------------------------------
 */

static CUresult loaded(struct growing *growing, CUresult r, const CUmodule *module)
{
	if (grow_end(growing, r))
		return r;
	DRIVER(cuModuleUnload)(*module);
	return grow_undone(growing);
}

HOOK CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoad)(module, path), module) : r;
}

HOOK CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoadData)(module, image), module) : r;
}

HOOK CUresult cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	if (r != CUDA_SUCCESS)
		return r;
	return loaded(&growing, DRIVER(cuModuleLoadDataEx)(module, image, count, options, values), module);
}

HOOK CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoadFatBinary)(module, image), module) : r;
}

/* ---- libraries ------------------------------------------------------------------------------------------
 */

static CUresult library_loaded(struct growing *growing, CUresult r, const CUlibrary *library)
{
	if (grow_end(growing, r))
		return r;
	DRIVER(cuLibraryUnload)(*library);
	return grow_undone(growing);
}

HOOK CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values,
	unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuLibraryLoadData)(library, image, jit, jit_values, jit_count, options, values, count);
	return library_loaded(&growing, r, library);
}

HOOK CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
	void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
	unsigned int count)
{
	struct growing growing;
	CUresult r = grow_begin(&growing, MODULE_BYTES);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuLibraryLoadFromFile)(library, path, jit, jit_values, jit_count, options, values, count);
	return library_loaded(&growing, r, library);
}
