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

/* Cleared in a child of fork(). The memory that its parent's parts pointed to is lost there. */
static void *parts; /* struct part */

/* Pointers are multiples of 512 bytes or more, so all bits must influence the top bits. */
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

/* Returns the object, or the gap where it belongs (kind 0). There is always a gap. */
static inline struct object *find(struct part *part, enum object_kind kind, uint64_t key, uint64_t hash)
{
	for (uint32_t at = home(part, hash);; at = (at + 1) & (part->capacity - 1)) {
		struct object *object = &part->objects[at];

		if (object->kind == 0 || (object->kind == kind && object->key == key))
			return object;
	}
}

static int make_room(struct part *part)
{
	struct part larger = {.capacity = part->capacity ? part->capacity * 2 : FIRST_CAPACITY};

	larger.objects = aligned_alloc(CACHE_LINE, larger.capacity * sizeof(*larger.objects));
	if (!larger.objects)
		return -ENOMEM;
	memset(larger.objects, 0, larger.capacity * sizeof(*larger.objects));
	for (uint32_t i = 0; i < part->capacity; i++) {
		const struct object *object = &part->objects[i];

		if (object->kind != 0)
			*find(&larger, object->kind, object->key, mix(object->kind, object->key)) = *object;
	}
	free(part->objects);
	part->objects = larger.objects;
	part->capacity = larger.capacity;
	return 0;
}

/* Adds an object of which only kind and key are set. */
static struct object *add(struct part *part, enum object_kind kind, uint64_t key, uint64_t hash)
{
	struct object *object;

	if (part->count >= part->capacity / 4 * 3 && make_room(part) < 0)
		return NULL;
	object = find(part, kind, key, hash);
	*object = (struct object){.kind = kind, .key = key};
	part->count++;
	return object;
}

/* Linear probing without tombstones: objects behind the gap that were displaced by this place move up. */
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

static inline struct part *part_lock(uint64_t hash)
{
	struct part *all = __atomic_load_n(&parts, __ATOMIC_ACQUIRE), *part;

	if (__builtin_expect(!all, 0) && !(all = private_map_once(&parts, PARTS * sizeof(struct part))))
		return NULL;
	part = &all[hash >> 58];
	private_lock(&part->lock);
	return part;
}

/* A locked part and the object in it, if there is one. */
struct place {
	struct part *part;
	struct object *object;
	uint64_t hash;
};

/* Returns false if there is no memory for the table; then nothing is locked. */
static inline bool place_lock(enum object_kind kind, uint64_t key, struct place *ret_place)
{
	uint64_t hash = mix(kind, key);
	struct part *part = part_lock(hash);
	struct object *object;

	if (!part)
		return false;
	object = part->capacity ? find(part, kind, key, hash) : NULL;
	*ret_place = (struct place){part, object && object->kind ? object : NULL, hash};
	return true;
}

int objects_change(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context)
{
	struct place place;

	if (!place_lock(kind, key, &place))
		return -ENOMEM;
	if (!place.object)
		place.object = add(place.part, kind, key, place.hash);
	if (place.object && !change(place.object, context))
		remove_object(place.part, place.object);
	private_unlock(&place.part->lock);
	return place.object ? 0 : -ENOMEM;
}

bool objects_edit(enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context)
{
	struct place place;

	if (!place_lock(kind, key, &place))
		return false;
	if (place.object && !change(place.object, context))
		remove_object(place.part, place.object);
	private_unlock(&place.part->lock);
	return place.object != NULL;
}

int objects_put(const struct object *put)
{
	struct place place;

	if (!place_lock(put->kind, put->key, &place))
		return -ENOMEM;
	if (!place.object)
		place.object = add(place.part, put->kind, put->key, place.hash);
	if (place.object)
		*place.object = *put;
	private_unlock(&place.part->lock);
	return place.object ? 0 : -ENOMEM;
}

bool objects_take(enum object_kind kind, uint64_t key, struct object *ret_object)
{
	struct place place;

	if (!place_lock(kind, key, &place))
		return false;
	if (place.object) {
		*ret_object = *place.object;
		remove_object(place.part, place.object);
	}
	private_unlock(&place.part->lock);
	return place.object != NULL;
}

bool objects_get(enum object_kind kind, uint64_t key, struct object *ret_object)
{
	struct place place;

	if (!place_lock(kind, key, &place))
		return false;
	if (place.object)
		*ret_object = *place.object;
	private_unlock(&place.part->lock);
	return place.object != NULL;
}
