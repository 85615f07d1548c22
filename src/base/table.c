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

/* FNV-1a with the seed, and a final mix so that the low bits depend on all input. */
static uint64_t table_hash(const char *key)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ table_seed();

	for (const unsigned char *p = (const unsigned char *)key; *p; p++)
		h = (h ^ *p) * 0x100000001b3ULL;
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	return h ^ (h >> 33);
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
