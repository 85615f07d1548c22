/* Restores a book as it was, without counting any change. */
#include <errno.h>
#include <stdlib.h>

#include "core/policy/policy-book-internal.h"

int policy_book_restore_policy(struct policy_book *book, struct resource_policy *policy)
{
	struct policy_entry *entry = calloc(1, sizeof(*entry));

	if (!entry) {
		resource_policy_free(policy);
		return -ENOMEM;
	}
	entry->policy = policy;
	table_init(&entry->groups);
	list_append(&book->policies, &entry->item);
	return policy_book_note_keys(book, policy);
}

int policy_book_restore_pod(struct policy_book *book, struct policy_pod *image, bool selected, bool grouped)
{
	struct policy_pod *pod = malloc(sizeof(*pod));
	int r = -ENOMEM;

	if (!pod)
		return -ENOMEM;
	*pod = *image;
	pod->policy = NULL;
	pod->group = NULL;
	if (table_set(&book->pods, pod->facts.uid, pod) == 0)
		r = policy_pod_put_back(book, pod, selected, grouped);
	if (r == 0) {
		image->facts = (struct policy_pod_facts){0};
		return 0;
	}
	table_remove(&book->pods, pod->facts.uid);
	free(pod);
	return r;
}
