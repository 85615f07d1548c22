/* Memory that another process or another interface made: IPC handles, imported pools, external memory.
 *
 * It is charged once, where it was made. Memory of a process is charged to that process. Memory of Vulkan or
 * OpenGL counts as overhead, because the driver counts it for the process and no hooked call shows it. So an
 * import charges nothing.
 *
 * But the driver counts imported memory for each process that has it. Exports and imports are therefore
 * noted, so that the keeper does not take the difference for overhead. When the maker has ended or freed the
 * memory, it counts for a process that still has it; the maker's charge stays until a sample has seen that.
 * docs/internals/charging.md, "Memory that several processes have".
 */
#include "shim/memory-shared.h"

#include <stdatomic.h>

#include "grant/share.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-linear.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/session.h"

/* What the records of this process are about, indexed by place (share.h). A child of fork() finds none of
 * these words in its own slot. */
static struct note {
	_Atomic uint64_t word;		 /* 0: no record */
	_Atomic uint64_t address, stamp; /* where the memory begins; its context */
} notes[GRANT_FILE_GPUS_MAX];

static _Atomic bool anything_noted; /* whether notes[] has ever had an entry */
static _Atomic bool
	anything_summed; /* whether there is an OBJECT_EXPORT, used when no place for a record was left */

/* Called after memory_enter_uncharged(). */
static CUresult leave(CUresult r)
{
	memory_leave();
	if (r == CUDA_SUCCESS)
		session_request_sample();
	return r;
}

void shared_exported(uint32_t gpu, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (!session)
		return;
	account_share(session->account, gpu, bytes, 0);
	if (bytes < 0 && account_has_importers(session->account, gpu))
		session_await_sample(gpu);
}

void shared_imported(uint32_t gpu, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session)
		account_share(session->account, gpu, 0, bytes);
}

/* ---- records --------------------------------------------------------------------------------------------
 */

/* Returns the place, or a negative number if none is left. */
static int note(uint64_t word, uint64_t address, uint64_t stamp)
{
	const struct shim_session *session = session_get();
	int place = session ? account_note_shared(session->account, word) : -1;

	if (place < 0)
		return place;
	atomic_store(&notes[place].address, address);
	atomic_store(&notes[place].stamp, stamp);
	atomic_store(&notes[place].word, word);
	atomic_store(&anything_noted, true);
	return place;
}

/* Returns false if the place does not hold `from`. */
static bool change_note(unsigned place, uint64_t from, uint64_t to)
{
	const struct shim_session *session = session_get();

	if (!session || !atomic_compare_exchange_strong(&notes[place].word, &from, to))
		return false;
	return account_change_shared(session->account, place, from, to);
}

/* Whether this is an export at this address or, if the address is 0, any export in this context. */
static bool is_export(const struct note *of, uint64_t address, uint64_t stamp)
{
	return share_kind(atomic_load_explicit(&of->word, memory_order_relaxed)) == SHARE_EXPORT &&
	       (address ? atomic_load(&of->address) == address : atomic_load(&of->stamp) == stamp);
}

/* The driver has freed these exports. Their charge is given back when this function returns. */
static uint64_t exports_end(uint64_t address, uint64_t stamp)
{
	const struct shim_session *session = session_get();
	uint64_t ended = 0;
	bool imported = false;
	unsigned gpu = 0;

	for (unsigned i = 0; i < GRANT_FILE_GPUS_MAX; i++) {
		uint64_t word = atomic_load_explicit(&notes[i].word, memory_order_relaxed);

		if (!is_export(&notes[i], address, stamp) ||
			!change_note(i, word, share_as(SHARE_FREED, word)))
			continue;
		ended |= UINT64_C(1) << i;
		gpu = share_gpu(word);
		imported |= account_is_imported(session->account, word);
	}
	if (imported)
		session_await_sample(gpu);
	return ended;
}

void shared_given_back(uint64_t ended)
{
	for (unsigned i = 0; ended; i++, ended >>= 1)
		if (ended & 1)
			change_note(i, atomic_load(&notes[i].word), 0);
}

uint64_t shared_freed(uint64_t address)
{
	uint64_t ended = 0;
	struct object object;

	if (atomic_load_explicit(&anything_noted, memory_order_relaxed))
		ended = exports_end(address, 0);
	if (atomic_load_explicit(&anything_summed, memory_order_relaxed) &&
		objects_take(OBJECT_EXPORT, address, &object))
		shared_exported(object.gpu, -(int64_t)object.bytes);
	return ended;
}

uint64_t shared_context_ended(uint64_t stamp)
{
	struct object ignored;
	uint64_t ended;

	if (!atomic_load_explicit(&anything_noted, memory_order_relaxed))
		return 0;
	ended = exports_end(0, stamp);
	for (unsigned i = 0; i < GRANT_FILE_GPUS_MAX; i++) {
		uint64_t word = atomic_load(&notes[i].word);

		if (share_kind(word) == SHARE_IMPORT && atomic_load(&notes[i].stamp) == stamp &&
			change_note(i, word, 0))
			objects_take(OBJECT_IMPORT, atomic_load(&notes[i].address), &ignored);
	}
	return ended;
}

/* ---- IPC handles ----------------------------------------------------------------------------------------
 */

/* FNV-1a. Maker and importer have the same bytes. */
static uint64_t hash_of(const CUipcMemHandle *handle)
{
	const unsigned char *bytes = (const unsigned char *)handle;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*handle); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static bool export_once(struct object *object, void *context)
{
	struct object *wanted = context;

	wanted->count = object->count++;
	object->gpu = wanted->gpu;
	object->bytes = wanted->bytes;
	return true;
}

static void sum_export(uint64_t address, uint32_t gpu, uint64_t bytes)
{
	struct object wanted = {.gpu = gpu, .bytes = bytes};

	atomic_store(&anything_summed, true);
	if (objects_change(OBJECT_EXPORT, address, export_once, &wanted) == 0 && wanted.count == 0)
		shared_exported(gpu, (int64_t)bytes);
}

static void note_export(const CUipcMemHandle *handle, CUdeviceptr address)
{
	uint64_t bytes, hash = hash_of(handle), region;
	struct memory_here here;
	CUdeviceptr base = address;
	size_t size;

	if (DRIVER(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		return;
	bytes = linear_charged(&base, &here);
	if (bytes == 0)
		return;
	region = share_region(share_word(SHARE_EXPORT, here.gpu, 0, hash));
	for (unsigned i = 0; i < GRANT_FILE_GPUS_MAX; i++) {
		if (!is_export(&notes[i], base, 0))
			continue;
		if (share_region(atomic_load(&notes[i].word)) == region)
			return;
		bytes = 0; /* another part of a block that is noted already */
	}
	if (note(share_word(SHARE_EXPORT, here.gpu, bytes, hash), base, here.stamp) < 0 && bytes)
		sum_export(base, here.gpu, bytes);
}

HOOK CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuIpcGetMemHandle)(handle, address);
	if (r == CUDA_SUCCESS)
		note_export(handle, address);
	memory_leave();
	return r;
}

/* An import is noted before the driver opens it, so that a maker that frees it meanwhile sees that another
 * process has it. Its size is known only afterwards. */
struct opening {
	struct memory_here here;
	uint64_t hash, word;
	int place; /* negative: no place for a record was left */
};

static void open_begin(struct opening *opening, const CUipcMemHandle *handle)
{
	const struct shim_session *session = session_get();

	*opening = (struct opening){.hash = hash_of(handle), .place = -1};
	memory_enter_uncharged();
	if (!session || !context_here(&opening->here) || opening->here.stamp == 0)
		return;
	opening->word = share_word(SHARE_IMPORT, opening->here.gpu, SHARE_UNKNOWN, opening->hash);
	opening->place = note(opening->word, 0, 0);
}

static bool open_again(struct object *object, void *context)
{
	struct object *wanted = context;

	wanted->count = object->count++;
	if (wanted->count == 0) {
		object->gpu = wanted->gpu;
		object->bytes = wanted->bytes;
		object->index = wanted->index;
	}
	return true;
}

/* Returns false if the import must not be noted. */
static bool is_first(const struct opening *opening, CUdeviceptr address, struct object *wanted)
{
	CUdeviceptr base;
	size_t size;

	if (opening->here.stamp == 0 ||
		DRIVER(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		return false;
	*wanted = (struct object){
		.gpu = opening->here.gpu, .index = (uint32_t)opening->place, .bytes = memory_rounded(size)};
	return objects_change(OBJECT_IMPORT, address, open_again, wanted) == 0 && wanted->count == 0;
}

static CUresult open_end(const struct opening *opening, CUresult r, CUdeviceptr address)
{
	bool first = false;
	struct object made;

	if (r == CUDA_SUCCESS)
		first = is_first(opening, address, &made);
	if (first && opening->place < 0)
		shared_imported(made.gpu, (int64_t)made.bytes);
	if (opening->place >= 0) {
		atomic_store(&notes[opening->place].address, address);
		atomic_store(&notes[opening->place].stamp, opening->here.stamp);
		change_note((unsigned)opening->place, opening->word,
			first ? share_word(SHARE_IMPORT, made.gpu, made.bytes, opening->hash) : 0);
	}
	return leave(r);
}

HOOK CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	struct opening opening;
	CUresult r;

	open_begin(&opening, &handle);
	r = DRIVER(cuIpcOpenMemHandle)(address, handle, flags);
	return open_end(&opening, r, r == CUDA_SUCCESS ? *address : 0);
}

HOOK CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	struct opening opening;
	CUresult r;

	open_begin(&opening, &handle);
	r = DRIVER(cuIpcOpenMemHandle_v2)(address, handle, flags);
	return open_end(&opening, r, r == CUDA_SUCCESS ? *address : 0);
}

static bool close_once(struct object *object, void *context)
{
	struct object *left = context;

	*left = *object;
	if (object->count > 0)
		object->count--;
	return object->count > 0;
}

static void closed(const struct object *import)
{
	uint64_t word;

	if ((int)import->index < 0) {
		shared_imported(import->gpu, -(int64_t)import->bytes);
		return;
	}
	word = atomic_load(&notes[import->index].word);
	if (share_kind(word) == SHARE_IMPORT && atomic_load(&notes[import->index].address) == import->key)
		change_note(import->index, word, 0);
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
		closed(&object);
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
	int gpu;

	memory_enter_uncharged();
	r = DRIVER(cuImportExternalMemory)(memory, d);
	gpu = r == CUDA_SUCCESS ? cuda_current_gpu() : -1;
	if (gpu < 0)
		return leave(r);
	object.key = (uintptr_t)*memory;
	object.gpu = (uint32_t)gpu;
	object.bytes = memory_rounded(d->size);
	if (objects_put(&object) == 0)
		shared_imported(object.gpu, (int64_t)object.bytes);
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
		shared_imported(object.gpu, -(int64_t)object.bytes);
	else if (known)
		objects_put(&object);
	return leave(r);
}
