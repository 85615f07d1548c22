#include "shim/memory-reserves.h"

#include <stdatomic.h>

#include "grant/private.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"

#define KNOWN_MAX 256

/* Cleared in a child of fork(). kind 0: free. */
struct known {
	_Atomic int lock, settling;
	_Atomic uint32_t count; /* how many places are or were in use */
	struct reserve_of list[KNOWN_MAX];
};

static void *known; /* struct known */

static struct known *known_get(void)
{
	return private_map_once(&known, sizeof(struct known));
}

void reserve_remember(const struct reserve_of *of)
{
	struct known *all = known_get();
	uint32_t count, place;

	if (!all)
		return;
	memory_is_loose();
	private_lock(&all->lock);
	count = place = atomic_load(&all->count);
	for (uint32_t i = 0; i < count; i++) {
		if (all->list[i].kind == of->kind && all->list[i].key == of->key)
			place = KNOWN_MAX;
		else if (all->list[i].kind == 0 && place == count)
			place = i;
	}
	if (place < KNOWN_MAX) {
		all->list[place] = *of;
		if (place == count)
			atomic_store(&all->count, count + 1);
	}
	private_unlock(&all->lock);
}

void reserve_forget(const struct reserve_of *of)
{
	struct known *all = known_get();

	if (!all)
		return;
	private_lock(&all->lock);
	for (uint32_t i = 0; i < atomic_load(&all->count); i++)
		if (all->list[i].kind == of->kind && all->list[i].key == of->key)
			all->list[i].kind = 0;
	private_unlock(&all->lock);
}

bool reserve_known(uint32_t place, struct reserve_of *ret_of)
{
	struct known *all = __atomic_load_n(&known, __ATOMIC_ACQUIRE);

	if (!all || place >= atomic_load(&all->count))
		return false;
	private_lock(&all->lock);
	*ret_of = all->list[place];
	private_unlock(&all->lock);
	return true;
}

/* ---- what the driver says ---------------------------------------------------------------------------- */

bool reserve_ask(const struct reserve_of *of, uint64_t *ret_reserved, uint64_t *ret_used)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)of->key;

	if (of->kind == OBJECT_POOL)
		return DRIVER(cuMemPoolGetAttribute)(
			       pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ret_reserved) == CUDA_SUCCESS &&
		       DRIVER(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, ret_used) ==
			       CUDA_SUCCESS;
	return DRIVER(cuDeviceGetGraphMemAttribute)((CUdevice)of->key, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
		       ret_reserved) == CUDA_SUCCESS &&
	       DRIVER(cuDeviceGetGraphMemAttribute)(
		       (CUdevice)of->key, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, ret_used) == CUDA_SUCCESS;
}

/* ---- what is charged ------------------------------------------------------------------------------------
 *
 * For each reserve two numbers are kept: the settled bytes (object.bytes), and the charges of calls under way
 * (object.count, in units). The driver's number may or may not include the growth of such a call. So the
 * excess over the settled bytes is missing only as far as it exceeds those charges as well. By how much a
 * charge was too high is known when the last of those calls has settled.
 */

#define PAYMENT_UNIT MEMORY_BLOCK

static uint32_t payment_units(uint64_t bytes)
{
	uint64_t units = bytes / PAYMENT_UNIT + (bytes % PAYMENT_UNIT > 0);

	return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

void reserve_claim(struct object *object, uint32_t gpu)
{
	if (!(object->index & POOL_CHARGED))
		object->gpu = gpu;
	object->index = (object->index & POOL_ENDS) | POOL_CHARGED;
}

void reserves_lock(void)
{
	struct known *all = known_get();

	if (all)
		private_lock(&all->settling);
}

void reserves_unlock(void)
{
	struct known *all = known_get();

	if (all)
		private_unlock(&all->settling);
}

struct payment {
	uint32_t gpu;
	uint64_t bytes;
};

static bool begin_payment(struct object *object, void *context)
{
	const struct payment *payment = context;

	reserve_claim(object, payment->gpu);
	object->count += payment_units(payment->bytes);
	return true;
}

static void end_payment(struct object *object, uint64_t bytes)
{
	uint32_t units = payment_units(bytes);

	object->count -= units < object->count ? units : object->count;
}

CUresult reserve_begin_payment(const struct reserve_of *of, uint64_t bytes)
{
	struct payment payment = {of->gpu, bytes};

	return objects_change(of->kind, of->key, begin_payment, &payment) == 0 ? CUDA_SUCCESS
									       : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool end_of_payment(struct object *object, void *context)
{
	end_payment(object, *(uint64_t *)context);
	return true;
}

void reserve_end_payment(const struct reserve_of *of, uint64_t bytes)
{
	objects_edit(of->kind, of->key, end_of_payment, &bytes);
}

static _Atomic uint64_t settled_payments;

uint64_t reserves_settled(void)
{
	return atomic_load(&settled_payments);
}

static bool settle(struct object *object, void *context)
{
	struct settlement *s = context;
	uint64_t charged = object->bytes + s->paid;

	reserve_claim(object, s->gpu);
	end_payment(object, s->paid);
	s->others = object->count * PAYMENT_UNIT;
	/* Missing bytes are entered when they have been charged. */
	s->missing = charged + (s->unpaid ? 0 : s->others);
	s->missing = s->reserved > s->missing ? s->reserved - s->missing : 0;
	s->surplus = charged > s->reserved ? charged - s->reserved : 0;
	object->bytes = charged - s->surplus;
	s->unsure = object->bytes < s->others ? object->bytes : s->others;
	return true;
}

static bool keep_payment(struct object *object, void *context)
{
	const struct settlement *s = context;

	end_payment(object, s->paid);
	object->bytes += s->paid;
	return true;
}

static bool add_bytes(struct object *object, void *context)
{
	object->bytes += *(uint64_t *)context;
	return true;
}

CUresult reserve_settle_locked(const struct reserve_of *of, struct settlement *s, bool *ret_unused)
{
	uint64_t used = 0;

	if (!reserve_ask(of, &s->reserved, &used) || objects_change(of->kind, of->key, settle, s) < 0) {
		objects_edit(of->kind, of->key, keep_payment, s);
		return CUDA_SUCCESS;
	}
	atomic_fetch_add(&settled_payments, s->paid > 0);
	if (ret_unused)
		*ret_unused = used == 0;
	memory_refund(of->gpu, s->surplus);
	if (s->missing == 0)
		return CUDA_SUCCESS;
	if (!memory_try_charge(of->gpu, s->missing))
		return CUDA_ERROR_OUT_OF_MEMORY;
	objects_change(of->kind, of->key, add_bytes, &s->missing);
	return CUDA_SUCCESS;
}

CUresult reserve_settle(const struct reserve_of *of, struct settlement *s)
{
	CUresult r;

	reserves_lock();
	r = reserve_settle_locked(of, s, NULL);
	reserves_unlock();
	return r;
}

void reserve_charge_beyond_locked(const struct reserve_of *of, uint64_t missing)
{
	memory_charge_beyond(of->gpu, missing);
	objects_change(of->kind, of->key, add_bytes, &missing);
}

CUresult reserve_charge_missing(const struct reserve_of *of, uint64_t missing)
{
	struct settlement s = {.gpu = of->gpu, .paid = missing};
	CUresult r = memory_charge_once(of->gpu, missing);

	if (r != CUDA_SUCCESS)
		memory_charge_beyond(of->gpu, missing);
	if (reserve_begin_payment(of, missing) == CUDA_SUCCESS)
		reserve_settle(of, &s);
	return r;
}
