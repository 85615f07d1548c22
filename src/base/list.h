/* list.h - intrusive doubly linked list with a sentinel head. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

static inline void list_init(struct list *head)
{
	head->prev = head->next = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_append(struct list *head, struct list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* list_remove() - takes an item out; doing it twice is harmless. */
static inline void list_remove(struct list *item)
{
	if (!item->next)
		return;
	item->prev->next = item->next;
	item->next->prev = item->prev;
	item->prev = item->next = NULL;
}

#define list_entry(item, type, member) ((type *)((char *)(item)-offsetof(type, member)))

/* The safe form allows removal of the current item, and of no other. */
#define list_for_each(item, head) for (struct list *item = (head)->next; item != (head); item = item->next)
#define list_for_each_safe(item, after, head)                                                                \
	for (struct list *item = (head)->next, *after = item->next; item != (head);                          \
		item = after, after = item->next)
