#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t table_seed(void)
{
	static uint64_t seed;

	if (!seed) {
		if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
			seed = (uint64_t)(uintptr_t)&seed;
		seed |= 1;
	}
	return seed;
}

/* Both halves of a product of 128 bits: each bit of the result depends on all bits of both numbers. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes at a time, since a filter call looks up thousands of names of nodes. */
static uint64_t table_hash(const char *key)
{
	size_t len = strlen(key);
	uint64_t seed = table_seed(), hash = seed ^ len, word;

	for (; len >= sizeof(word); len -= sizeof(word), key += sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = fold(hash ^ 0x9e3779b97f4a7c15ULL, word ^ seed);
	}
	word = 0;
	memcpy(&word, key, len);
	return fold(fold(hash ^ 0x9e3779b97f4a7c15ULL, word ^ seed), 0xff51afd7ed558ccdULL);
}

void table_init(struct table *table)
{
	*table = (struct table){0};
}

void table_release(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->used; i++)
		free(table->entries[i].key);
	free(table->entries);
	free(table->slots);
	*table = (struct table){0};
}

static struct table_entry *table_find(const struct table *table, const char *key, uint64_t hash)
{
	if (!table->size)
		return NULL;
	for (size_t i = hash & (table->size - 1); table->slots[i]; i = (i + 1) & (table->size - 1)) {
		struct table_entry *e = &table->entries[table->slots[i] - 1];

		if (e->key && e->hash == hash && strcmp(e->key, key) == 0)
			return e;
	}
	return NULL;
}

/* The caller has made room. */
static void table_append(struct table *table, struct table_entry entry)
{
	size_t i = entry.hash & (table->size - 1);

	while (table->slots[i])
		i = (i + 1) & (table->size - 1);
	table->entries[table->used++] = entry;
	table->slots[i] = (uint32_t)table->used;
	table->count++;
}

/* Keeps at least a quarter of the slots unused, so that table_find always ends. */
static int table_make_room(struct table *table)
{
	struct table bigger = {.size = 16};

	if (table->size && (table->used + 1) * 4 <= table->size * 3)
		return 0;
	while (bigger.size < (table->count + 1) * 2)
		bigger.size *= 2;
	if (bigger.size > UINT32_MAX)
		return -ENOMEM;
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	bigger.entries = calloc(bigger.size * 3 / 4, sizeof(*bigger.entries));
	if (!bigger.slots || !bigger.entries) {
		free(bigger.slots);
		free(bigger.entries);
		return -ENOMEM;
	}
	for (size_t i = 0; i < table->used; i++)
		if (table->entries[i].key)
			table_append(&bigger, table->entries[i]);
	free(table->slots);
	free(table->entries);
	*table = bigger;
	return 0;
}

int table_set(struct table *table, const char *key, void *value)
{
	uint64_t hash = table_hash(key);
	struct table_entry *found = table_find(table, key, hash);
	char *copy;

	if (found) {
		found->value = value;
		return 0;
	}
	copy = strdup(key);
	if (!copy || table_make_room(table) < 0) {
		free(copy);
		return -ENOMEM;
	}
	table_append(table, (struct table_entry){.key = copy, .value = value, .hash = hash});
	return 0;
}

void *table_get(const struct table *table, const char *key)
{
	struct table_entry *found = table_find(table, key, table_hash(key));

	return found ? found->value : NULL;
}

#define MANY 16

void table_get_many(const struct table *table, const char *const *keys, size_t n, void **ret_values)
{
	uint64_t hashes[MANY];
	uint32_t slots[MANY];

	for (size_t first = 0; first < n; first += MANY) {
		size_t count = n - first < MANY ? n - first : MANY;

		for (size_t i = 0; i < count; i++) {
			hashes[i] = table_hash(keys[first + i]);
			if (table->size)
				__builtin_prefetch(&table->slots[hashes[i] & (table->size - 1)]);
		}
		for (size_t i = 0; i < count; i++) {
			slots[i] = table->size ? table->slots[hashes[i] & (table->size - 1)] : 0;
			if (slots[i])
				__builtin_prefetch(&table->entries[slots[i] - 1]);
		}
		for (size_t i = 0; i < count; i++)
			if (slots[i])
				__builtin_prefetch(table->entries[slots[i] - 1].key);
		for (size_t i = 0; i < count; i++) {
			struct table_entry *found = table_find(table, keys[first + i], hashes[i]);

			ret_values[first + i] = found ? found->value : NULL;
		}
	}
}

void *table_remove(struct table *table, const char *key)
{
	struct table_entry *found = table_find(table, key, table_hash(key));
	void *value;

	if (!found)
		return NULL;
	value = found->value;
	free(found->key);
	*found = (struct table_entry){0};
	table->count--;
	return value;
}

bool table_next(const struct table *table, size_t *cursor, const char **ret_key, void **ret_value)
{
	while (*cursor < table->used) {
		const struct table_entry *e = &table->entries[(*cursor)++];

		if (!e->key)
			continue;
		if (ret_key)
			*ret_key = e->key;
		if (ret_value)
			*ret_value = e->value;
		return true;
	}
	return false;
}
