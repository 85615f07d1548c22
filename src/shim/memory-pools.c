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

/* ---- what is charged --------------------------------------------------------------------------------- */

/* What is charged for a pool stays with the card to which it was charged first. */
static void claim(struct object *object, uint32_t card)
{
	if (object->index != POOL_CHARGED)
		object->card = card;
	object->index = POOL_CHARGED;
}

static bool enter(struct object *pool, void *context)
{
	const int *card = context;

	if (*card >= 0)
		claim(pool, (uint32_t)*card);
	else if (pool->index != POOL_CHARGED)
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
	use->ending = pool->count > 0;
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

struct settlement {
	uint32_t card;
	uint64_t reserved; /* what the driver says */
	uint64_t paid;	   /* besides what is charged for it */
	uint64_t missing, surplus;
};

static bool settle(struct object *object, void *context)
{
	struct settlement *s = context;
	uint64_t charged = object->bytes + s->paid;

	claim(object, s->card);
	/* What is missing is entered when it has been charged. */
	s->missing = s->reserved > charged ? s->reserved - charged : 0;
	s->surplus = charged > s->reserved ? charged - s->reserved : 0;
	object->bytes = charged - s->surplus;
	return true;
}

static bool add_bytes(struct object *object, void *context)
{
	object->bytes += *(uint64_t *)context;
	return true;
}

/* `paid` becomes part of what is charged for it, or is given back. */
static CUresult settle_alone(const struct reserve_of *of, uint64_t paid, bool *ret_unused)
{
	struct settlement s = {.card = of->card, .paid = paid};
	uint64_t used = 0;

	if (!ask(of, &s.reserved, &used) || objects_change(of->kind, of->key, settle, &s) < 0) {
		objects_change(of->kind, of->key, add_bytes, &paid);
		return CUDA_SUCCESS;
	}
	if (ret_unused)
		*ret_unused = used == 0;
	memory_refund(of->card, s.surplus);
	if (s.missing == 0)
		return CUDA_SUCCESS;
	if (memory_charge_once(of->card, s.missing) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	objects_change(of->kind, of->key, add_bytes, &s.missing);
	return CUDA_SUCCESS;
}

static CUresult settle_now(const struct reserve_of *of, uint64_t paid)
{
	CUresult r;

	lock_settling();
	r = settle_alone(of, paid, NULL);
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
		object.count = 0;
		objects_put(&object);
	}
	return r;
}

/* A pool that is to end, and from which no call allocates, is used less and less. So what the driver says of
 * it afterwards stays true. */
static bool is_ending(const struct object *pool)
{
	return pool->kind == OBJECT_POOL && pool->count && pool->stamp == 0;
}

static void settle_known(const struct reserve_of *of)
{
	struct object object;
	bool unused = false;

	lock_settling();
	if (objects_get(of->kind, of->key, &object)) {
		settle_alone(of, 0, &unused);
		if (unused && is_ending(&object))
			end_pool(of);
	}
	unlock_settling();
}

void pools_settle(void)
{
	struct known *all = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
	uint32_t count = all ? atomic_load(&all->count) : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct reserve_of of;

		private_lock(&all->lock);
		of = all->list[i];
		private_unlock(&all->lock);
		if (of.kind != 0)
			settle_known(&of);
	}
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
	*growth = (struct growth){.of = *of, .paid = most};
	graphs_allocate(); /* the stream may be captured */
	remember(of);
	if (!has_unused(of, bytes))
		return memory_enter(of->card, most);
	return memory_try_enter(of->card, most) ? CUDA_SUCCESS : begin_unpaid(growth);
}

CUresult growth_begin_paid(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	*growth = (struct growth){.of = *of, .paid = bytes};
	remember(of);
	return memory_enter(of->card, bytes);
}

CUresult growth_join(struct growth *growth, const struct reserve_of *of, uint64_t bytes)
{
	*growth = (struct growth){.of = *of, .paid = bytes};
	remember(of);
	return memory_try_charge(of->card, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void growth_end(const struct growth *growth)
{
	memory_leave();
	if (growth->turn)
		memory_end_turn(growth->of.card, ACCOUNT_TURN_POOL);
}

CUresult growth_settle(struct growth *growth)
{
	return settle_now(&growth->of, growth->paid);
}

CUresult growth_catch_up(const struct reserve_of *of)
{
	remember(of);
	return settle_now(of, 0);
}

/* ---- the end ----------------------------------------------------------------------------------------- */

static bool mark_ending(struct object *pool, void *context)
{
	bool *twice = context;

	*twice = pool->count > 0;
	pool->count = 1;
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
