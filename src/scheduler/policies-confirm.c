/* Units once more, right before a Binding leaves: what filter gave may be lost by then. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "scheduler/policies-internal.h"
#include "scheduler/policies.h"

/* The lowest of these units that it can be counted in, by its labels as they are; -1: none. */
static int policy_to_confirm(const struct policy_pod *pod, uint64_t policies)
{
	for (size_t i = 0; i < pod->policy->n_units; i++)
		if ((policies & UINT64_C(1) << i) && !policy_pod_owes_marks(pod, i))
			return (int)i;
	return -1;
}

/* It may have been lost since filter: with another process, or to other members of its gang. Or it is
 * elsewhere: by another version of the policy, or since the gang is planned anew and goes there. */
int policies_confirm(struct policies *policies, const char *namespace_, const char *uid, const char *node,
	struct error *err)
{
	struct policy_namespace *ns = policies_are_used(policies) ? policies_namespace(policies, namespace_)
								  : NULL;
	struct policy_pod *pod = ns ? policy_book_pod(&ns->book, uid) : NULL;
	uint64_t bits;
	int unit;

	if (!policies_are_known(policies))
		return error_set(err, EBUSY, "ResourcePolicies are not read yet, trying again");
	/* Another process has answered filter, and nothing says yet how many pods are in its units. */
	if (ns && !list_empty(&ns->book.policies) && !policy_namespace_is_ready(ns))
		return error_set(err, EBUSY,
			"ResourcePolicies: the pods of namespace %s are not read yet, trying again",
			namespace_);
	if (!pod)
		return 0;
	policy_book_settle(&ns->book);
	if (!pod->policy || *pod->facts.node)
		return 0;
	if (pod->claim >= 0 && pod->claim_serial != pod->policy->serial)
		policy_book_drop_claim(&ns->book, pod); /* another version's unit, by other labels */
	bits = policy_book_units_of(&ns->book, pod->policy, node);
	if (pod->claim >= 0 && (bits & UINT64_C(1) << pod->claim))
		return 0;
	unit = pod->claim < 0 && pod->group
		       ? policy_to_confirm(pod, bits & policy_book_open(&ns->book, pod, 1))
		       : -1;
	if (unit < 0)
		return error_set(err, EBUSY,
			"ResourcePolicy %.63s: the pod has no place in a level of node %s any more, trying again",
			pod->policy->name, node);
	policy_book_claim(&ns->book, pod, (size_t)unit, monotonic_ns());
	return 0;
}
