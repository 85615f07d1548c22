#include "shim/memory-pools.h"

#include <stdatomic.h>

#include "grant/private.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/graph-needs.h"
#include "shim/memory.h"

#define KNOWN_MAX 256 /* pools that are looked at when something else is refused or the program waits */

/* Cleared in a child of fork(). kind 0: free. */
struct known {
	_Atomic int lock, settling;
	_Atomic uint32_t count; /* how many places are, or were, in use */
	struct reserve_of list[KNOWN_MAX];
};

static struct known *known;

static struct known *known_get(void)
{
	struct known *made = __atomic_load_n(&known, __ATOMIC_ACQUIRE), *expected = NULL;
	bool cleared;

	if (made)
		return made;
	made = private_map(sizeof(*made), &cleared);
	if (!made || __atomic_compare_exchange_n(
			     &known, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	private_unmap(made, sizeof(*made));
	return expected;
}

static void remember(const struct reserve_of *of)
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

static void forget(const struct reserve_of *of)
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

/* ---- what the driver says ---------------------------------------------------------------------------- */

static bool ask(const struct reserve_of *of, uint64_t *ret_reserved, uint64_t *ret_used)
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
 * For each reserve: what is settled (object.bytes), and the payments of calls that are under way
 * (object.count, in units). The driver's number may contain what such a call has made it grow by already, or
 * not yet. So what exceeds the settled bytes is missing only as far as it exceeds the payments, too; and what
 * a payment turns out to be too much by is known when the last of those calls has settled.
 */

#define PAYMENT_UNIT MEMORY_BLOCK

static uint32_t payment_units(uint64_t bytes)
{
	uint64_t units = bytes / PAYMENT_UNIT + (bytes % PAYMENT_UNIT > 0);

	return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

/* What is charged for a pool stays with the card to which it was charged first. */
static void claim(struct object *object, uint32_t card)
{
	if (!(object->index & POOL_CHARGED))
		object->card = card;
	object->index = (object->index & POOL_ENDS) | POOL_CHARGED;
}

static bool enter(struct object *pool, void *context)
{
	const int *card = context;

	if (*card >= 0)
		claim(pool, (uint32_t)*card);
	else if (!(pool->index & POOL_CHARGED))
		pool->index = POOL_OF_MACHINE;
	return true;
}

CUresult pool_enter(CUmemoryPool pool, int card)
{
	return objects_change(OBJECT_POOL, (uintptr_t)pool, enter, &card) == 0 ? CUDA_SUCCESS
									       : CUDA_ERROR_OUT_OF_MEMORY;
}

/* One thread at a time asks what the driver has for a pool, and settles, ends or begins to use it: an answer
 * says what is missing only as long as no other thread has paid that, and as the pool is there. (The driver
 * is asked for numbers here, which do not wait for the GPU.) */
static void lock_settling(void)
{
	struct known *all = known_get();

	if (all)
		private_lock(&all->settling);
}

static void unlock_settling(void)
{
	struct known *all = known_get();

	if (all)
		private_unlock(&all->settling);
}

struct use {
	uint32_t card;
	bool ending;
};

static bool begin_use(struct object *pool, void *context)
{
	struct use *use = context;

	claim(pool, use->card);
	use->ending = pool->index & POOL_ENDS;
	pool->stamp += !use->ending;
	return true;
}

static bool end_use(struct object *pool, void *context)
{
	pool->stamp--;
	return true;
}

CUresult pool_use(const struct reserve_of *of)
{
	struct use use = {.card = of->card};
	bool is_there;

	lock_settling();
	is_there = objects_edit(of->kind, of->key, begin_use, &use);
	unlock_settling();
	return is_there && !use.ending ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_use_of_device(CUdevice device, unsigned card, struct reserve_of *ret_of)
{
	struct use use = {.card = card};
	CUmemoryPool pool;
	CUresult r;

	lock_settling();
	r = DRIVER(cuDeviceGetMemPool)(&pool, device);
	if (r == CUDA_SUCCESS) {
		*ret_of = (struct reserve_of){OBJECT_POOL, (uintptr_t)pool, card};
		if (objects_change(OBJECT_POOL, ret_of->key, begin_use, &use) < 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else if (use.ending)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	unlock_settling();
	return r;
}

void pool_leave(const struct reserve_of *of)
{
	objects_edit(of->kind, of->key, end_use, NULL);
}

struct payment {
	uint32_t card;
	uint64_t bytes;
};

static bool begin_payment(struct object *object, void *context)
{
	const struct payment *payment = context;

	claim(object, payment->card);
	object->count += payment_units(payment->bytes);
	return true;
}

static void end_payment(struct object *object, uint64_t bytes)
{
	uint32_t units = payment_units(bytes);

	object->count -= units < object->count ? units : object->count;
}

/* After it has been charged, and before the driver's call. */
static void note_payment(const struct reserve_of *of, uint64_t bytes)
{
	struct payment payment = {of->card, bytes};

	if (bytes > 0)
		objects_change(of->kind, of->key, begin_payment, &payment);
}

struct settlement {
	uint32_t card;
	uint64_t reserved; /* what the driver says */
	uint64_t paid;	   /* by the call that settles */
	bool unpaid; /* this call made it grow without a payment: what is beyond the settled bytes is its own
		      */
	uint64_t missing, surplus;
	bool unsure; /* others' payments may be too much */
};

static bool settle(struct object *object, void *context)
{
	struct settlement *s = context;
	uint64_t charged = object->bytes + s->paid, others;

	claim(object, s->card);
	end_payment(object, s->paid);
	others = s->unpaid ? 0 : object->count * PAYMENT_UNIT;
	/* What is missing is entered when it has been charged. */
	s->missing = s->reserved > charged + others ? s->reserved - charged - others : 0;
	s->surplus = charged > s->reserved ? charged - s->reserved : 0;
	s->unsure = object->count > 0 && charged > s->surplus;
	object->bytes = charged - s->surplus;
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

/* What was paid becomes part of what is charged for it, or is given back. */
static CUresult settle_alone(const struct reserve_of *of, struct settlement *s, bool *ret_unused)
{
	uint64_t used = 0;

	if (!ask(of, &s->reserved, &used) || objects_change(of->kind, of->key, settle, s) < 0) {
		objects_change(of->kind, of->key, keep_payment, s);
		return CUDA_SUCCESS;
	}
	if (ret_unused)
		*ret_unused = used == 0;
	memory_refund(of->card, s->surplus);
	if (s->missing == 0)
		return CUDA_SUCCESS;
	if (memory_charge_once(of->card, s->missing) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	objects_change(of->kind, of->key, add_bytes, &s->missing);
	return CUDA_SUCCESS;
}

static CUresult settle_now(const struct reserve_of *of, uint64_t paid, bool unpaid)
{
	struct settlement s = {.card = of->card, .paid = paid, .unpaid = unpaid};
	CUresult r;

	lock_settling();
	r = settle_alone(of, &s, NULL);
	unlock_settling();
	return r;
}

/* The charge goes after the driver has ended the pool. */
static CUresult end_pool(const struct reserve_of *of)
{
	struct object object;
	CUresult r;

	if (!objects_take(of->kind, of->key, &object))
		return CUDA_ERROR_INVALID_VALUE;
	r = DRIVER(cuMemPoolDestroy)((CUmemoryPool)(uintptr_t)of->key);
	if (r == CUDA_SUCCESS) {
		forget(of);
		memory_refund(of->card, object.bytes);
	} else {
		object.index &= ~(uint32_t)POOL_ENDS;
		objects_put(&object);
	}
	return r;
}

/* A pool that is to end, and from which no call allocates, is used less and less. So what the driver says of
 * it afterwards stays true. */
static bool is_ending(const struct object *pool)
{
	return pool->kind == OBJECT_POOL && pool->index & POOL_ENDS && pool->stamp == 0;
}

static bool settle_known(const struct reserve_of *of)
{
	struct settlement s = {.card = of->card};
	struct object object;
	bool unused = false;

	lock_settling();
	if (objects_get(of->kind, of->key, &object)) {
		settle_alone(of, &s, &unused);
		if (unused && is_ending(&object))
			end_pool(of);
	}
	unlock_settling();
	return s.unsure;
}

bool pools_settle(void)
{
	struct known *all = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
	uint32_t count = all ? atomic_load(&all->count) : 0;
	bool unsure = false;

	for (uint32_t i = 0; i < count; i++) {
		struct reserve_of of;

		private_lock(&all->lock);
		of = all->list[i];
		private_unlock(&all->lock);
		if (of.kind != 0)
			unsure |= settle_known(&of);
	}
	return unsure;
}

/* There is room in sum, but maybe in pieces. */
static CUresult begin_unpaid(struct growth *growth)
{
	CUresult r;

	growth->paid = 0;
	growth->turn = memory_begin_turn(growth->of.card, ACCOUNT_TURN_POOL);
	if (!growth->turn)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = memory_enter(growth->of.card, 0);
	if (r != CUDA_SUCCESS)
		memory_end_turn(growth->of.card, ACCOUNT_TURN_POOL);
	return r;
}

static bool has_unused(const struct reserve_of *of, uint64_t bytes)
{
	uint64_t reserved, used;

	return ask(of, &reserved, &used) && reserved >= used && reserved - used >= bytes;
}

CUresult growth_begin(struct growth *growth, const struct reserve_of *of, uint64_t bytes, uint64_t most)
{
	CUresult r = CUDA_SUCCESS;

	*growth = (struct growth){.of = *of, .paid = most};
	graphs_allocate(); /* the stream may be captured */
	remember(of);
	if (!has_unused(of, bytes))
		r = memory_enter(of->card, most);
	else if (!memory_try_enter(of->card, most))
		r = begin_unpaid(growth);
	if (r == CUDA_SUCCESS)
		note_payment(of, growth->paid);
	return r;
}

CUresult growth_begin_paid(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	CUresult r;

	*growth = (struct growth){.of = *of, .paid = bytes};
	remember(of);
	r = memory_enter(of->card, bytes);
	if (r == CUDA_SUCCESS)
		note_payment(of, bytes);
	return r;
}

CUresult growth_join(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	*growth = (struct growth){.of = *of, .paid = bytes};
	remember(of);
	if (!memory_try_charge(of->card, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	note_payment(of, bytes);
	return CUDA_SUCCESS;
}

static bool take_payment_back(struct object *object, void *context)
{
	end_payment(object, *(uint64_t *)context);
	return true;
}

void growth_give_back(struct growth *growth)
{
	objects_edit(growth->of.kind, growth->of.key, take_payment_back, &growth->paid);
	memory_refund(growth->of.card, growth->paid);
}

void growth_end(const struct growth *growth)
{
	memory_leave();
	if (growth->turn)
		memory_end_turn(growth->of.card, ACCOUNT_TURN_POOL);
}

CUresult growth_settle(struct growth *growth)
{
	return settle_now(&growth->of, growth->paid, growth->turn);
}

CUresult growth_catch_up(const struct reserve_of *of)
{
	remember(of);
	return settle_now(of, 0, false);
}

/* ---- the end ----------------------------------------------------------------------------------------- */

static bool mark_ending(struct object *pool, void *context)
{
	bool *twice = context;

	*twice = pool->index & POOL_ENDS;
	pool->index |= POOL_ENDS;
	return true;
}

/* A device whose pool is destroyed has its default pool again (cuda.h of CUDA 13.0.96, cuMemPoolDestroy()).
 */
static void leave_devices(CUmemoryPool pool)
{
	CUmemoryPool now, own;
	int count = 0;

	DRIVER(cuDeviceGetCount)(&count);
	for (int i = 0; i < count; i++)
		if (DRIVER(cuDeviceGetMemPool)(&now, i) == CUDA_SUCCESS && now == pool &&
			DRIVER(cuDeviceGetDefaultMemPool)(&own, i) == CUDA_SUCCESS)
			DRIVER(cuDeviceSetMemPool)(i, own);
}

static CUresult end_or_put_off(const struct reserve_of *of)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)of->key;
	uint64_t reserved, used = 0, none = 0;
	struct object object;
	bool twice = false;

	if (!objects_edit(of->kind, of->key, mark_ending, &twice) || twice ||
		!objects_get(of->kind, of->key, &object))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ask(of, &reserved, &used))
		used = object.bytes;
	if (used == 0 && is_ending(&object))
		return end_pool(of);
	remember(of);
	leave_devices(pool);
	return DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
}

CUresult pool_destroy(const struct reserve_of *of)
{
	CUresult r;

	memory_enter_uncharged();
	lock_settling();
	r = end_or_put_off(of);
	unlock_settling();
	memory_leave();
	return r;
}
