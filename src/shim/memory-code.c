/* memory-code.c - memory that the driver takes for code, and for stacks and heaps of kernels.
 *
 * How much that is nobody can tell before: the file of a module says little, and the driver has no function
 * for it. So a block is charged before the call, which a program at its limit does not get. Afterwards the
 * keeper takes a sample; where that shows the container at its limit the call is undone and refused, as on a
 * full GPU. With much room left a module does not wait for the sample: programs load hundreds of them when
 * they start.
 */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"
#include "shim/session.h"

#define MODULE_BYTES (UINT64_C(1) << 30) /* more than a module takes */
#define LIMIT_BYTES UINT64_MAX		 /* a stack of 64 KiB for each thread of a GPU is 20 GiB */

/* A call that is under way. */
struct growing {
	int card; /* -1: no current context, which the driver refuses itself */
};

static CUresult grow_begin(struct growing *growing)
{
	growing->card = cuda_current_card();
	return growing->card < 0 ? CUDA_SUCCESS : memory_enter((unsigned)growing->card, MEMORY_BLOCK);
}

static uint64_t room_bytes(unsigned card)
{
	const struct shim_session *session = session_get();
	struct session_memory memory;

	if (!session)
		return 0;
	memory = session_memory(session, card);
	return memory.limit_bytes - memory.used_bytes;
}

/* False: there is no room for what the call took, and the caller undoes it. most: with more room than that
 * left, only the next question for free memory waits for the sample. */
static bool grow_end(const struct growing *growing, CUresult r, uint64_t most)
{
	unsigned card = (unsigned)growing->card;

	if (growing->card < 0)
		return true;
	memory_refund(card, MEMORY_BLOCK);
	memory_leave();
	if (r != CUDA_SUCCESS)
		return true;
	if (room_bytes(card) > most) {
		session_want_room();
		return true;
	}
	session_await_look(card);
	return room_bytes(card) > 0;
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
	r = grow_begin(&growing);
	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuCtxSetLimit)(limit, value);
	if (grow_end(&growing, r, LIMIT_BYTES))
		return r;
	DRIVER(cuCtxSetLimit)(limit, before);
	session_want_room();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- modules --------------------------------------------------------------------------------------------
 */

static CUresult loaded(const struct growing *growing, CUresult r, const CUmodule *module)
{
	if (grow_end(growing, r, MODULE_BYTES))
		return r;
	DRIVER(cuModuleUnload)(*module);
	session_want_room();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

HOOK CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	struct growing growing;
	CUresult r = grow_begin(&growing);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoad)(module, path), module) : r;
}

HOOK CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct growing growing;
	CUresult r = grow_begin(&growing);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoadData)(module, image), module) : r;
}

HOOK CUresult cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
	struct growing growing;
	CUresult r = grow_begin(&growing);

	if (r != CUDA_SUCCESS)
		return r;
	return loaded(&growing, DRIVER(cuModuleLoadDataEx)(module, image, count, options, values), module);
}

HOOK CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	struct growing growing;
	CUresult r = grow_begin(&growing);

	return r == CUDA_SUCCESS ? loaded(&growing, DRIVER(cuModuleLoadFatBinary)(module, image), module) : r;
}

/* ---- libraries ------------------------------------------------------------------------------------------
 */

static CUresult library_loaded(const struct growing *growing, CUresult r, const CUlibrary *library)
{
	if (grow_end(growing, r, MODULE_BYTES))
		return r;
	DRIVER(cuLibraryUnload)(*library);
	session_want_room();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

HOOK CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values,
	unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
	struct growing growing;
	CUresult r = grow_begin(&growing);

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
	CUresult r = grow_begin(&growing);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuLibraryLoadFromFile)(library, path, jit, jit_values, jit_count, options, values, count);
	return library_loaded(&growing, r, library);
}
