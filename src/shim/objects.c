#include "shim/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grant/private.h"

#define PARTS 64
#define FIRST_CAPACITY 64
#define CACHE_LINE 64

struct part {
	_Atomic int lock;
	uint32_t capacity; /* a power of two */
	uint32_t count;
	struct object *objects; /* kind 0: free */
};

/* Cleared in a child; what its parent's parts pointed to is lost there. */
static struct part *parts;

static struct part *parts_get(void)
{
	struct part *made = __atomic_load_n(&parts, __ATOMIC_ACQUIRE), *expected = NULL;
	bool cleared;

	if (made)
		return made;
	made = private_map(PARTS * sizeof(*made), &cleared);
	if (!made || __atomic_compare_exchange_n(
			     &parts, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	private_unmap(made, PARTS * sizeof(*made));
	return expected;
}

/* Pointers are multiples of 512 bytes or more: all bits must come to the top. */
static uint64_t mix(enum object_kind kind, uint64_t key)
{
	uint64_t h = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15);

	h ^= h >> 32;
	return h * UINT64_C(0xd6e8feb86659fd93);
}

static uint32_t home(const struct part *part, uint64_t hash)
{
	return (uint32_t)(hash >> 20) & (part->capacity - 1);
}

static struct object *find(struct part *part, enum object_kind kind, uint64_t key, uint64_t hash)
{
	if (part->capacity == 0)
		return NULL;
	for (uint32_t at = home(part, hash);; at = (at + 1) & (part->capacity - 1)) {
		struct object *object = &part->objects[at];

		if (object->kind == 0)
			return NULL;
		if (object->kind == kind && object->key == key)
			return object;
	}
}

static struct object *place(struct part *part, const struct object *object)
{
	uint32_t at = home(part, mix(object->kind, object->key));

	while (part->objects[at].kind != 0)
		at = (at + 1) & (part->capacity - 1);
	part->objects[at] = *object;
	part->count++;
	return &part->objects[at];
}

static int make_room(struct part *part)
{
	struct part larger = {.capacity = part->capacity ? part->capacity * 2 : FIRST_CAPACITY};

	if (part->capacity > 0 && part->count < part->capacity / 4 * 3)
		return 0;
	larger.objects = aligned_alloc(CACHE_LINE, larger.capacity * sizeof(*larger.objects));
	if (!larger.objects)
		return -ENOMEM;
	memset(larger.objects, 0, larger.capacity * sizeof(*larger.objects));
	for (uint32_t i = 0; i < part->capacity; i++)
		if (part->objects[i].kind != 0)
			place(&larger, &part->objects[i]);
	free(part->objects);
	part->objects = larger.objects;
	part->capacity = larger.capacity;
	return 0;
}

/* Linear probing without tombstones: whoever stands behind the gap because this place was taken moves up. */
static void remove_object(struct part *part, struct object *object)
{
	uint32_t mask = part->capacity - 1, gap = (uint32_t)(object - part->objects), at = gap;

	for (;;) {
		uint32_t wanted;

		at = (at + 1) & mask;
		if (part->objects[at].kind == 0)
			break;
		wanted = home(part, mix(part->objects[at].kind, part->objects[at].key));
		if (((at - wanted) & mask) < ((at - gap) & mask))
			continue;
		part->objects[gap] = part->objects[at];
		gap = at;
	}
	part->objects[gap].kind = 0;
	part->count--;
}

static struct part *part_lock(uint64_t hash)
{
	struct part *all = parts_get(), *part = all ? &all[hash >> 58] : NULL;

	if (part)
		private_lock(&part->lock);
	return part;
}

int objects_change(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context)
{
	struct object fresh = {.kind = kind, .key = key}, *object;
	uint64_t hash = mix(kind, key);
	struct part *part = part_lock(hash);
	int r = 0;

	if (!part)
		return -ENOMEM;
	object = find(part, kind, key, hash);
	if (!object) {
		r = make_room(part);
		if (r == 0)
			object = place(part, &fresh);
	}
	if (object && !change(object, context))
		remove_object(part, object);
	private_unlock(&part->lock);
	return r;
}

static bool replace(struct object *object, void *context)
{
	*object = *(const struct object *)context;
	return true;
}

int objects_put(const struct object *object)
{
	return objects_change(object->kind, object->key, replace, (void *)object);
}

static bool copy_out(enum object_kind kind, uint64_t key, bool remove, struct object *ret_object)
{
	uint64_t hash = mix(kind, key);
	struct part *part = part_lock(hash);
	struct object *object;

	if (!part)
		return false;
	object = find(part, kind, key, hash);
	if (object)
		*ret_object = *object;
	if (object && remove)
		remove_object(part, object);
	private_unlock(&part->lock);
	return object != NULL;
}

bool objects_take(enum object_kind kind, uint64_t key, struct object *ret_object)
{
	return copy_out(kind, key, true, ret_object);
}

bool objects_get(enum object_kind kind, uint64_t key, struct object *ret_object)
{
	return copy_out(kind, key, false, ret_object);
}
