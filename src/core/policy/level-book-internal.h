/* level-book-internal.h - what level-book.c (policies, pods, questions) and level-count.c (where a pod
 * counts) share. */
#pragma once

#include "core/policy/level-book.h"

struct level_entry *level_entry_find(const struct level_book *book, const char *uid);
void level_groups_clear(struct level_entry *entry);

/* level_pod_put_in() - finds its policy, group and level, and counts it there. level_pod_take_out() - out of
 * the sums again; the group stays until level_group_drop_if_empty(), since the pod may come back into it. */
void level_pod_put_in(struct level_book *book, struct level_pod *pod);
void level_pod_take_out(struct level_pod *pod);
void level_group_drop_if_empty(
	struct level_book *book, const struct level_policy *policy, struct level_group *group);
