/* Levels once more, right before a Binding leaves: what filter gave may be lost by then. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "scheduler/levels-internal.h"
#include "scheduler/levels.h"

/* The lowest of these levels that it can be counted in, by its labels as they are; -1: none. */
static int level_to_confirm(const struct level_pod *pod, uint64_t levels)
{
	for (size_t i = 0; i < pod->policy->n_levels; i++)
		if ((levels & UINT64_C(1) << i) && !level_pod_owes_marks(pod, i))
			return (int)i;
	return -1;
}

/* It may have been lost since filter: with another process, or to other members of its gang. Or it is
 * elsewhere: by another version of the policy, or since the gang is planned anew and goes there. */
int levels_confirm(
	struct levels *levels, const char *namespace_, const char *uid, const char *node, struct error *err)
{
	struct level_space *space = levels_are_used(levels) ? levels_space(levels, namespace_) : NULL;
	struct level_pod *pod = space ? level_book_pod(&space->book, uid) : NULL;
	uint64_t bits;
	int level;

	if (!levels_are_known(levels))
		return error_set(err, EBUSY, "ResourcePolicies are not read yet, trying again");
	if (!pod)
		return 0;
	level_book_settle(&space->book);
	if (!pod->policy || *pod->facts.node)
		return 0;
	if (pod->claim >= 0 && pod->claim_serial != pod->policy->serial)
		level_book_drop_claim(&space->book, pod); /* another version's level, by other labels */
	bits = level_book_levels_of(&space->book, pod->policy, node);
	if (pod->claim >= 0 && (bits & UINT64_C(1) << pod->claim))
		return 0;
	level = pod->claim < 0 && levels_space_is_ready(space) && pod->group
			? level_to_confirm(pod, bits & level_book_open(&space->book, pod, 1))
			: -1;
	if (level < 0)
		return error_set(err, EBUSY,
			"ResourcePolicy %.63s: the pod has no place in a level of node %s any more, trying again",
			pod->policy->name, node);
	level_book_claim(&space->book, pod, (size_t)level, monotonic_ns());
	return 0;
}
