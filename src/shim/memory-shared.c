/* Memory that another process, or another interface, made: IPC handles, imported pools, external memory.
 *
 * It is charged once, where it was made: by the process that allocated it, or, where Vulkan or OpenGL did, as
 * overhead, since the driver counts it for the process and no call of ours shows it. So an import charges
 * nothing. But the driver counts imported memory for each process that has it: what is exported and imported
 * is noted, so that the keeper does not take the difference for overhead. When the maker has ended, its
 * export is gone, and the memory counts for who still has it.
 */
#include "shim/memory-shared.h"

#include <stdatomic.h>

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-linear.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/session.h"

static _Atomic bool anything_exported;

/* After memory_enter_uncharged(). */
static CUresult leave(CUresult r)
{
	memory_leave();
	if (r == CUDA_SUCCESS)
		session_want_look();
	return r;
}

void shared_exported(uint32_t card, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session)
		account_share(session->account, card, bytes, 0);
}

void shared_imported(uint32_t card, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session)
		account_share(session->account, card, 0, bytes);
}

void shared_freed(uint64_t address)
{
	struct object object;

	if (atomic_load_explicit(&anything_exported, memory_order_relaxed) &&
		objects_take(OBJECT_EXPORT, address, &object))
		shared_exported(object.card, -(int64_t)object.bytes);
}

/* ---- IPC handles ----------------------------------------------------------------------------------------
 */

static bool export_once(struct object *object, void *context)
{
	struct object *wanted = context;

	wanted->count = object->count++;
	object->card = wanted->card;
	object->bytes = wanted->bytes;
	return true;
}

static void note_export(CUdeviceptr address)
{
	struct object wanted = {0};
	CUdeviceptr base = address;
	uint32_t card;
	size_t size;

	if (DRIVER(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		return;
	wanted.bytes = linear_charged(&base, &card);
	if (wanted.bytes == 0)
		return;
	wanted.card = card;
	atomic_store(&anything_exported, true);
	if (objects_change(OBJECT_EXPORT, base, export_once, &wanted) == 0 && wanted.count == 0)
		shared_exported(wanted.card, (int64_t)wanted.bytes);
}

HOOK CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuIpcGetMemHandle)(handle, address);
	if (r == CUDA_SUCCESS)
		note_export(address);
	memory_leave();
	return r;
}

static bool open_again(struct object *object, void *context)
{
	struct object *wanted = context;

	wanted->count = object->count++;
	if (wanted->count == 0) {
		object->card = wanted->card;
		object->bytes = wanted->bytes;
	}
	return true;
}

static CUresult opened(CUresult r, CUdeviceptr address)
{
	struct object wanted = {0};
	int card = r == CUDA_SUCCESS ? cuda_current_card() : -1;
	CUdeviceptr base;
	size_t size;

	if (card < 0 || DRIVER(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		return leave(r);
	wanted.card = (uint32_t)card;
	wanted.bytes = memory_rounded(size);
	if (objects_change(OBJECT_IMPORT, address, open_again, &wanted) == 0 && wanted.count == 0)
		shared_imported(wanted.card, (int64_t)wanted.bytes);
	return leave(r);
}

HOOK CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuIpcOpenMemHandle)(address, handle, flags);
	return opened(r, r == CUDA_SUCCESS ? *address : 0);
}

HOOK CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuIpcOpenMemHandle_v2)(address, handle, flags);
	return opened(r, r == CUDA_SUCCESS ? *address : 0);
}

static bool close_once(struct object *object, void *context)
{
	struct object *left = context;

	*left = *object;
	if (object->count > 0)
		object->count--;
	return object->count > 0;
}

HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct object object = {0}, ignored;
	bool known = objects_get(OBJECT_IMPORT, address, &ignored) &&
		     objects_change(OBJECT_IMPORT, address, close_once, &object) == 0 && object.count > 0;
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuIpcCloseMemHandle)(address);
	if (known && r == CUDA_SUCCESS && object.count == 1)
		shared_imported(object.card, -(int64_t)object.bytes);
	else if (known && r != CUDA_SUCCESS)
		objects_put(&object);
	memory_leave();
	if (r == CUDA_SUCCESS)
		session_want_room();
	return r;
}

/* ---- pools and external memory --------------------------------------------------------------------------
 */

HOOK CUresult cuMemPoolImportFromShareableHandle(
	CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	memory_enter_uncharged();
	return leave(DRIVER(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags));
}

HOOK CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	memory_enter_uncharged();
	return leave(DRIVER(cuMemPoolImportPointer)(address, pool, data));
}

HOOK CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	CUresult r;
	struct object object = {.kind = OBJECT_EXTERNAL};
	int card;

	memory_enter_uncharged();
	r = DRIVER(cuImportExternalMemory)(memory, d);
	card = r == CUDA_SUCCESS ? cuda_current_card() : -1;
	if (card < 0)
		return leave(r);
	object.key = (uintptr_t)*memory;
	object.card = (uint32_t)card;
	object.bytes = memory_rounded(d->size);
	if (objects_put(&object) == 0)
		shared_imported(object.card, (int64_t)object.bytes);
	return leave(r);
}

HOOK CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct object object;
	bool known = objects_take(OBJECT_EXTERNAL, (uintptr_t)memory, &object);
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuDestroyExternalMemory)(memory);
	if (known && r == CUDA_SUCCESS)
		shared_imported(object.card, -(int64_t)object.bytes);
	else if (known)
		objects_put(&object);
	return leave(r);
}
