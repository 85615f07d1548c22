/* policy-book-internal.h - what policy-book.c (policies, pods, decisions) and policy-count.c (where a pod
 * counts) share. */
#pragma once

#include "core/policy/policy-book.h"

struct policy_entry *policy_entry_find(const struct policy_book *book, const char *uid);
void policy_groups_clear(struct policy_entry *entry);

/* policy_pod_put_in() - finds the pod's policy, group and unit, and counts it there. policy_pod_take_out() -
 * takes the pod out of the sums. The group stays until policy_group_drop_if_empty(), because the pod may
 * return into it. */
void policy_pod_put_in(struct policy_book *book, struct policy_pod *pod);
void policy_pod_take_out(struct policy_pod *pod);
void policy_group_drop_if_empty(
	struct policy_book *book, const struct resource_policy *policy, struct policy_group *group);

/* policy_pod_put_back() - counts the pod by pod->unit and pod->counts, even if its node has other labels now.
 * selected: it has a policy; grouped: and a group. -EINVAL: it cannot be there; -ENOMEM. */
int policy_pod_put_back(struct policy_book *book, struct policy_pod *pod, bool selected, bool grouped);

/* policy_book_note_keys() - keeps the annotations that this policy names from now on. -ENOMEM. */
int policy_book_note_keys(struct policy_book *book, const struct resource_policy *policy);

/* policy_book_restore_policy(), policy_book_restore_pod() - add to a new book, in the order of the old book.
 * The first takes the policy over in any case. The second takes over the facts of the image if it returns 0.
 * -ENOMEM; -EINVAL as above. */
int policy_book_restore_policy(struct policy_book *book, struct resource_policy *policy);
int policy_book_restore_pod(struct policy_book *book, struct policy_pod *image, bool selected, bool grouped);
