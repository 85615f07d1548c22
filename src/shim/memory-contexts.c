#include "shim/memory-contexts.h"

#include <stdatomic.h>

#include "grant/private.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-pools.h"
#include "shim/memory-shared.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/pacing-sample.h"
#include "shim/session.h"

#define CONTEXT_BYTES (UINT64_C(1) << 30) /* more than a context takes */
#define SAMPLES                                                                                              \
	4 /* if the size of a context can be learnt at all, the keeper learns it within this many samples */
#define CONTEXTS_MAX 4096
#define STAMP_ENDING UINT64_MAX /* stamp of a record whose context has ended, and which is not free yet */
#define ROOM_CLASSES 13		/* 1, 2-3, 4-7, ... 4096 free units */

struct record {
	_Atomic uint64_t stamp; /* 0: free */
	_Atomic uint64_t bytes;
	_Atomic int64_t surplus;
	uint32_t gpu;
	_Atomic int32_t rooms[ROOM_CLASSES];
};

/* Cleared in a child of fork(). */
struct records {
	_Atomic uint64_t last_stamp;
	_Atomic uint32_t made[GRANT_FILE_GPUS_MAX]; /* contexts so far */
	struct record list[CONTEXTS_MAX];
};

static void *records; /* struct records */

static inline struct records *records_get(void)
{
	struct records *made = __atomic_load_n(&records, __ATOMIC_ACQUIRE);

	return made ? made : (private_map_once(&records, sizeof(struct records)));
}

static inline struct record *record_of(const struct memory_here *here)
{
	struct records *all = here->stamp && here->index < CONTEXTS_MAX ? records_get() : NULL;

	return all && atomic_load(&all->list[here->index].stamp) == here->stamp ? &all->list[here->index]
										: NULL;
}

/* ---- which context --------------------------------------------------------------------------------------
 */

/* Runs under the lock of the object's part, so it must not call the driver or access another object. */
static bool record_context(struct object *object, void *context)
{
	struct memory_here *here = context;
	struct records *all = records_get();

	if (object->stamp == 0 && all) {
		uint64_t stamp = atomic_fetch_add(&all->last_stamp, 1) + 1, none = 0;

		for (uint32_t i = 0; i < CONTEXTS_MAX; i++, none = 0) {
			if (!atomic_compare_exchange_strong(&all->list[i].stamp, &none, stamp))
				continue;
			all->list[i].gpu = here->gpu;
			object->stamp = stamp;
			object->index = i;
			object->gpu = here->gpu;
			break;
		}
	}
	*here = (struct memory_here){object->index, object->gpu, object->stamp};
	return object->stamp != 0;
}

bool context_here(struct memory_here *ret_here)
{
	struct object object;
	CUcontext current;
	CUdevice device;
	int gpu;

	*ret_here = (struct memory_here){0};
	if (DRIVER(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || !current)
		return true;
	if (objects_get(OBJECT_CONTEXT, (uintptr_t)current, &object)) {
		*ret_here = context_of(&object);
		return true;
	}
	/* The context has been destroyed; the driver has an error for that. */
	if (DRIVER(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
		return true;
	gpu = cuda_device_gpu(device);
	if (gpu < 0)
		return false;
	ret_here->gpu = (uint32_t)gpu;
	return objects_change(OBJECT_CONTEXT, (uintptr_t)current, record_context, ret_here) == 0 &&
	       ret_here->stamp != 0;
}

struct memory_here context_of(const struct object *object)
{
	return (struct memory_here){object->index, object->gpu, object->stamp};
}

bool context_lives(const struct memory_here *here)
{
	return record_of(here) != NULL;
}

/* ---- what is charged in it ------------------------------------------------------------------------------
 */

void context_charged(const struct memory_here *here, uint64_t bytes)
{
	struct record *record = record_of(here);

	if (record)
		atomic_fetch_add(&record->bytes, bytes);
}

void context_refunded(const struct memory_here *here, uint64_t bytes)
{
	struct record *record = record_of(here);

	if (!record)
		return;
	atomic_fetch_sub(&record->bytes, bytes);
	memory_refund(here->gpu, bytes);
}

static void change_surplus(struct record *record, uint64_t bytes)
{
	memory_change_surplus(
		record->gpu, (int64_t)bytes - atomic_exchange(&record->surplus, (int64_t)bytes));
}

void context_set_surplus(const struct memory_here *here, uint64_t bytes)
{
	struct record *record = record_of(here);

	if (record)
		change_surplus(record, bytes);
	/* Another thread may have ended the context meanwhile. */
	if (record && !record_of(here))
		change_surplus(record, 0);
}

static int room_class(unsigned units)
{
	int log = 31 - __builtin_clz(units | 1);

	return log < ROOM_CLASSES ? log : ROOM_CLASSES - 1;
}

void context_block_changed(const struct memory_here *here, int from_free, int to_free)
{
	struct record *record = record_of(here);

	int from = from_free > 0 ? room_class((unsigned)from_free) : -1;
	int to = to_free > 0 ? room_class((unsigned)to_free) : -1;

	if (!record || from == to)
		return;
	if (from >= 0)
		atomic_fetch_sub(&record->rooms[from], 1);
	if (to >= 0)
		atomic_fetch_add(&record->rooms[to], 1);
}

bool context_has_room(const struct memory_here *here, unsigned units)
{
	struct record *record = record_of(here);

	/* A block of the class of `units` may have fewer free units than `units`; a block of the next class
	 * has enough. The search begins with the largest class, because the newest block usually belongs to
	 * it. */
	for (int i = ROOM_CLASSES - 1; record && i >= room_class(2 * units - 1); i--)
		if (atomic_load(&record->rooms[i]) > 0)
			return true;
	return false;
}

uint64_t context_room(const struct memory_here *here)
{
	struct record *record = record_of(here);
	uint64_t units = 0;

	for (int i = 0; record && i < ROOM_CLASSES; i++) {
		int32_t blocks = atomic_load(&record->rooms[i]);

		units += blocks > 0 ? (uint64_t)blocks * ((UINT64_C(2) << i) - 1) : 0;
	}
	return units;
}

/* ---- its beginning --------------------------------------------------------------------------------------
 */

static uint64_t context_cost(const struct shim_session *session, unsigned gpu)
{
	return atomic_load(&session->grant->live[gpu].context_bytes);
}

static void end_turn(struct making *making)
{
	if (making->turn)
		memory_end_turn(making->here.gpu, ACCOUNT_TURN_CODE);
	making->turn = false;
}

CUresult context_make(struct making *making, CUdevice device)
{
	const struct shim_session *session = session_get();
	int gpu = cuda_device_gpu(device);
	CUresult r;

	if (gpu < 0 || !session)
		return cuda_refuse_device();
	*making = (struct making){.here.gpu = (uint32_t)gpu, .paid = context_cost(session, (unsigned)gpu)};
	/* Contexts that wait for the first one know its size when it exists. */
	if (making->paid == 0 && !memory_has_plenty(making->here.gpu, CONTEXT_BYTES, CONTEXT_BYTES)) {
		making->turn = memory_begin_turn(making->here.gpu, ACCOUNT_TURN_CODE);
		making->paid = context_cost(session, making->here.gpu);
	}
	r = memory_enter(making->here.gpu, making->paid);
	if (r != CUDA_SUCCESS || making->paid > 0)
		end_turn(making);
	return r;
}

static bool record_made(struct object *object, void *context)
{
	struct making *making = context;

	/* A primary context may exist already: two threads may retain it at the same time. */
	making->is_new = object->stamp == 0;
	return record_context(object, &making->here);
}

/* The keeper learns the size of contexts from the first context of a process. */
static bool is_first(unsigned gpu)
{
	struct records *all = records_get();

	return all && atomic_fetch_add(&all->made[gpu], 1) == 0;
}

CUresult context_made(struct making *making, CUresult r, const CUcontext *context)
{
	const struct shim_session *session = session_get();
	unsigned gpu = making->here.gpu;
	bool first;

	if (r == CUDA_SUCCESS)
		objects_change(OBJECT_CONTEXT, (uintptr_t)*context, record_made, making);
	if (!making->is_new) {
		memory_refund(gpu, making->paid);
		memory_leave();
		end_turn(making);
		return r;
	}
	context_charged(&making->here, making->paid);
	first = is_first(gpu);
	if (first)
		account_note_fresh(session->account, gpu, making->paid, true);
	memory_leave();
	session_await_sample(gpu);
	for (int i = 1; i < SAMPLES && first && making->turn && context_cost(session, gpu) == 0; i++)
		session_await_sample(gpu);
	if (first)
		account_note_fresh(session->account, gpu, 0, false);
	end_turn(making);
	return r;
}

/* ---- its end --------------------------------------------------------------------------------------------
 */

static void context_end(const struct object *object)
{
	struct memory_here here = context_of(object);
	struct record *record = record_of(&here);
	uint64_t shared;

	if (!record)
		return;
	shared = shared_context_ended(here.stamp);
	memory_refund(here.gpu, atomic_exchange(&record->bytes, 0));
	shared_given_back(shared);
	atomic_store(&record->stamp, STAMP_ENDING);
	change_surplus(record, 0);
	for (unsigned i = 0; i < ROOM_CLASSES; i++)
		atomic_store(&record->rooms[i], 0);
	atomic_store(&record->stamp, 0);
	pools_settle();
}

/* The end of a context, while it is under way. */
struct ending {
	CUcontext context;
	struct object object;
	bool known;
	int gpu; /* -1: unknown */
};

/* Called before the driver ends the context: afterwards a new context may get the same handle. */
static void end_begin(struct ending *ending, CUcontext context, int gpu)
{
	*ending = (struct ending){.context = context, .gpu = gpu};
	sample_hide(context);
	memory_enter_uncharged();
	ending->known = context && objects_take(OBJECT_CONTEXT, (uintptr_t)context, &ending->object);
	if (ending->known)
		ending->gpu = ending->object.gpu;
}

/* When the call returns, the memory of the context itself is available to the program again. */
static void end_finish(struct ending *ending, bool ended)
{
	sample_unhide(ending->context, ended);
	if (ending->known && ended)
		context_end(&ending->object);
	else if (ending->known)
		objects_put(&ending->object);
	memory_leave();
	if (ended && ending->gpu >= 0)
		session_await_sample((unsigned)ending->gpu);
	else if (ended)
		session_want_room();
}

static CUresult end_by(CUresult (*driver)(CUcontext), CUcontext context)
{
	struct ending ending;
	CUresult r;

	end_begin(&ending, context, -1);
	r = driver(context);
	end_finish(&ending, r == CUDA_SUCCESS);
	return r;
}

HOOK CUresult cuCtxDestroy(CUcontext context)
{
	return end_by(DRIVER(cuCtxDestroy), context);
}

HOOK CUresult cuCtxDestroy_v2(CUcontext context)
{
	return end_by(DRIVER(cuCtxDestroy_v2), context);
}

/* This call ends the context only if it was attached to once. */
HOOK CUresult cuCtxDetach(CUcontext context)
{
	struct ending ending;
	unsigned int version;
	CUresult r;

	end_begin(&ending, context, -1);
	r = DRIVER(cuCtxDetach)(context);
	end_finish(
		&ending, r == CUDA_SUCCESS && DRIVER(cuCtxGetApiVersion)(context, &version) != CUDA_SUCCESS);
	return r;
}

static bool is_active(CUdevice device)
{
	unsigned int flags;
	int active = 0;

	return DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUcontext context_primary(CUdevice device)
{
	CUcontext context = NULL;

	if (!is_active(device) || DRIVER(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS)
		return NULL;
	DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
	return context;
}

static CUresult end_primary(CUresult (*driver)(CUdevice), CUdevice device, bool reset)
{
	CUcontext context = context_primary(device);
	struct ending ending;
	CUresult r;

	end_begin(&ending, context, cuda_device_gpu(device));
	r = driver(device);
	end_finish(&ending, context && r == CUDA_SUCCESS && (reset || !is_active(device)));
	return r;
}

HOOK CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return end_primary(DRIVER(cuDevicePrimaryCtxRelease), device, false);
}

HOOK CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return end_primary(DRIVER(cuDevicePrimaryCtxRelease_v2), device, false);
}

HOOK CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return end_primary(DRIVER(cuDevicePrimaryCtxReset), device, true);
}

HOOK CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return end_primary(DRIVER(cuDevicePrimaryCtxReset_v2), device, true);
}
