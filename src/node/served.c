#include "node/served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void served_init(struct served *served)
{
	list_init(&served->entries);
}

static void entry_free(struct served_entry *entry)
{
	if (!entry)
		return;
	list_remove(&entry->item);
	for (size_t i = 0; entry->ids && i < entry->n_ids; i++)
		free(entry->ids[i]);
	free(entry->ids);
	free(entry->uid);
	free(entry->container);
	free(entry->device);
	free(entry->gpus);
	free(entry);
}

static void entry_free_ptr(struct served_entry **entry)
{
	entry_free(*entry);
}

void served_release(struct served *served)
{
	while (!list_empty(&served->entries))
		entry_free(list_entry(served->entries.next, struct served_entry, item));
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int served_add(struct served *served, const char *uid, const char *container, char *const *ids, size_t n_ids)
{
	_cleanup_(entry_free_ptr) struct served_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->uid = strdup(uid);
	entry->container = strdup(container);
	entry->ids = calloc(n_ids ? n_ids : 1, sizeof(*entry->ids));
	if (!entry->uid || !entry->container || !entry->ids)
		return -ENOMEM;
	for (; entry->n_ids < n_ids; entry->n_ids++) {
		entry->ids[entry->n_ids] = strdup(ids[entry->n_ids]);
		if (!entry->ids[entry->n_ids])
			return -ENOMEM;
	}
	qsort(entry->ids, n_ids, sizeof(*entry->ids), compare_ids);
	entry_free((struct served_entry *)served_find(served, uid, container));
	list_append(&served->entries, &entry->item);
	TAKE_PTR(entry);
	return 0;
}

void served_remove_pod(struct served *served, const char *uid)
{
	list_for_each_safe (item, after, &served->entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (strcmp(entry->uid, uid) == 0)
			entry_free(entry);
	}
}

void served_remove(struct served *served, const struct served_entry *entry)
{
	(void)served;
	entry_free((struct served_entry *)entry);
}

int served_set_answer(
	struct served *served, const char *uid, const char *container, const char *device, const char *gpus)
{
	struct served_entry *entry = (struct served_entry *)served_find(served, uid, container);
	_cleanup_free_ char *device_copy = device ? strdup(device) : NULL;
	char *gpus_copy = gpus ? strdup(gpus) : NULL;

	if ((device && !device_copy) || (gpus && !gpus_copy)) {
		free(gpus_copy);
		return -ENOMEM;
	}
	if (!entry) {
		free(gpus_copy);
		return 0;
	}
	free(entry->device);
	free(entry->gpus);
	entry->device = TAKE_PTR(device_copy);
	entry->gpus = gpus_copy;
	entry->settled = false;
	return 0;
}

const struct served_entry *served_find(const struct served *served, const char *uid, const char *container)
{
	list_for_each (item, &served->entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (strcmp(entry->uid, uid) == 0 && strcmp(entry->container, container) == 0)
			return entry;
	}
	return NULL;
}

bool served_knows(const struct served *served, const char *uid)
{
	list_for_each (item, &served->entries)
		if (strcmp(list_entry(item, struct served_entry, item)->uid, uid) == 0)
			return true;
	return false;
}

void served_set_waits(struct served *served, const char *uid, const char *container, bool waits)
{
	struct served_entry *entry = (struct served_entry *)served_find(served, uid, container);

	if (entry)
		entry->waits = waits;
}

bool served_has_started(const struct served *served, const char *uid)
{
	list_for_each (item, &served->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (!entry->waits && strcmp(entry->uid, uid) == 0)
			return true;
	}
	return false;
}

static bool entry_has_ids(const struct served_entry *entry, char *const *sorted, size_t n_ids)
{
	if (entry->n_ids != n_ids)
		return false;
	for (size_t i = 0; i < n_ids; i++)
		if (strcmp(entry->ids[i], sorted[i]) != 0)
			return false;
	return true;
}

const struct served_entry *served_find_ids(
	const struct served *served, const struct served_entry *before, char *const *ids, size_t n_ids)
{
	_cleanup_free_ char **sorted = calloc(n_ids ? n_ids : 1, sizeof(*sorted));

	if (!sorted)
		return NULL;
	if (n_ids)
		memcpy(sorted, ids, n_ids * sizeof(*sorted));
	qsort(sorted, n_ids, sizeof(*sorted), compare_ids);
	for (const struct list *item = before ? before->item.prev : served->entries.prev;
		item != &served->entries; item = item->prev) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (entry_has_ids(entry, sorted, n_ids))
			return entry;
	}
	return NULL;
}

bool served_has_ids(const struct served_entry *entry, char *const *ids, size_t n_ids)
{
	_cleanup_free_ char **sorted = NULL;

	if (entry->n_ids != n_ids)
		return false;
	sorted = calloc(n_ids ? n_ids : 1, sizeof(*sorted));
	if (!sorted)
		return false;
	if (n_ids)
		memcpy(sorted, ids, n_ids * sizeof(*sorted));
	qsort(sorted, n_ids, sizeof(*sorted), compare_ids);
	return entry_has_ids(entry, sorted, n_ids);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

int served_take(struct served *served, const struct served_entry *entry)
{
	const struct served_entry *known = served_find(served, entry->uid, entry->container);
	int r;

	if (known && known->n_ids == entry->n_ids && entry_has_ids(known, entry->ids, entry->n_ids) &&
		same_text(known->device, entry->device) && same_text(known->gpus, entry->gpus))
		return 0;
	r = served_add(served, entry->uid, entry->container, entry->ids, entry->n_ids);
	if (r == 0)
		r = served_set_answer(served, entry->uid, entry->container, entry->device, entry->gpus);
	served_set_waits(served, entry->uid, entry->container, entry->waits);
	return r;
}

void served_move(struct served *from, struct served *to)
{
	served_release(to);
	while (!list_empty(&from->entries)) {
		struct list *item = from->entries.next;

		list_remove(item);
		list_append(&to->entries, item);
	}
}
