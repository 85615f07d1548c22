/* memory-code.c - memory that the driver takes for code, and for stacks and heaps of kernels.
 *
 * How much that is nobody can tell before: the file of a module says little, and the driver has no function
 * for it. So a block is charged before the call, which a program at its limit does not get. Where there is
 * plenty of room for all such calls of which no sample knows yet, that is all: programs load hundreds of
 * modules when they start. Where there is not, they take turns, one at a time in the container: the thread
 * whose turn it is waits for a sample, and undoes its call and is refused if nothing is left then, as on a
 * full GPU. docs/internals/charging.md, "Calls of unknown cost".
 */
#include <time.h>

#include "grant/wait.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"
#include "shim/session.h"

#define MODULE_BYTES (UINT64_C(1) << 30) /* more than a module takes */
#define EACH_BYTES (UINT64_C(64) << 20)	 /* and more than one of many takes */
#define LIMIT_BYTES UINT64_MAX		 /* a stack of 64 KiB for each thread of a GPU is 20 GiB */
#define REST_MAX_NS INT64_C(250000000)

/* A call that is under way. */
struct growing {
	uint64_t most; /* what it takes at most */
	int gpu;       /* -1: no current context, which the driver refuses itself */
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

/* False: there is no room for what the call took. The caller undoes it, and then calls grow_undone(). */
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
		/* (Without a turn it is undone too, if need be.) */
		growing->turn = memory_begin_turn(gpu, ACCOUNT_TURN_CODE);
	}
	if (r == CUDA_SUCCESS && (!session_await_known(gpu) || !has_room(gpu)))
		return false;
	end_turn(growing);
	return true;
}

/* The container was above its limit since the driver was called. Before the next call it rests for as long,
 * so that many threads which go on trying do not keep a neighbour's memory from it. */
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

/* A larger stack, of all threads of all processors at once, may take as much as a context. */
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
