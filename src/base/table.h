/* table.h - a hash table from strings to pointers. The table copies its keys and never owns the values.
 *
 * Users choose the keys, through the API server. So the hash is seeded per process, and chosen names cannot
 * degrade look-ups to linear search. Iteration is in the order of insertion, whatever the seed, so that
 * results are the same in each process. An entry whose value is replaced keeps its place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_entry {
	char *key; /* NULL: removed */
	void *value;
	uint64_t hash;
};

struct table {
	struct table_entry *entries; /* in the order of insertion */
	uint32_t *slots;	     /* by hash: number of the entry, from 1; 0: never used */
	size_t size;		     /* number of slots: a power of two, 0 before the first insertion */
	size_t count;		     /* present entries */
	size_t used;		     /* present and removed entries */
};

void table_init(struct table *table);
/* table_release() - frees the table. The values are the caller's (free them first with table_for_each). */
void table_release(struct table *table);

/* table_set() - inserts or replaces. Returns 0 or -ENOMEM (the table is unchanged). */
int table_set(struct table *table, const char *key, void *value);
void *table_get(const struct table *table, const char *key);
/* table_get_many() - table_get() for each of n keys. With thousands of keys, the time of a look-up is mostly
 * waiting for memory, and here several keys wait at once. */
void table_get_many(const struct table *table, const char *const *keys, size_t n, void **ret_values);
/* table_remove() - returns the removed value, or NULL. Safe during table_for_each. */
void *table_remove(struct table *table, const char *key);

/* table_next() - cursor iteration: start with *cursor = 0. False at the end. */
bool table_next(const struct table *table, size_t *cursor, const char **ret_key, void **ret_value);

/* table_for_each() - `value` must be a void pointer variable. Only removal is allowed inside. */
#define table_for_each(table, cursor, value)                                                                 \
	for (size_t cursor = 0; table_next((table), &cursor, NULL, (void **)&(value));)
