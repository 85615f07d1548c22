/* policy-book-internal.h - what policy-book.c (policies, pods, questions) and policy-count.c (where a pod
 * counts) share. */
#pragma once

#include "core/policy/policy-book.h"

struct policy_entry *policy_entry_find(const struct policy_book *book, const char *uid);
void policy_groups_clear(struct policy_entry *entry);

/* policy_pod_put_in() - finds its policy, group and unit, and counts it there. policy_pod_take_out() - out of
 * the sums again; the group stays until policy_group_drop_if_empty(), since the pod may come back into it. */
void policy_pod_put_in(struct policy_book *book, struct policy_pod *pod);
void policy_pod_take_out(struct policy_pod *pod);
void policy_group_drop_if_empty(
	struct policy_book *book, const struct resource_policy *policy, struct policy_group *group);
