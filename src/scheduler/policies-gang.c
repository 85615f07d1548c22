/* Units for pods that are placed all or none. A gang is not divided: it goes to the first unit that has
 * room for as many as have to be placed together, and those of its pods that ask later follow the first one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/registry/ledger.h"
#include "scheduler/policies-internal.h"
#include "scheduler/scheduler.h"

struct seeking {
	struct policy_namespace *ns;
	struct policy_pod *pod;
	const char *uid;
	const char *const *names;
	size_t n;
	size_t needed;
};

/* -ENOMEM; else how many of the names are in the unit. */
static int names_in_unit(const struct seeking *seeking, size_t unit, struct table *names)
{
	int n = 0;

	table_init(names);
	for (size_t i = 0; i < seeking->n; i++) {
		uint64_t bits = policy_book_units_of(
			&seeking->ns->book, seeking->pod->policy, seeking->names[i]);

		if (!(bits & UINT64_C(1) << unit))
			continue;
		if (table_set(names, seeking->names[i], names) < 0)
			return -ENOMEM;
		n++;
	}
	return n;
}

static int fits_unit(const struct seeking *seeking, size_t unit)
{
	struct core *core = &seeking->ns->policies->scheduler->core;
	struct table names;
	int r = names_in_unit(seeking, unit, &names);

	if (r > 0)
		r = gangs_fit_on(&core->gangs, &core->ledger, seeking->uid, &names, seeking->needed);
	table_release(&names);
	return r;
}

static void drop_claim(void *userdata, const char *uid)
{
	struct policy_book *book = userdata;
	struct policy_pod *pod = policy_book_pod(book, uid);

	if (pod)
		policy_book_drop_claim(book, pod);
}

static void drop_claims_of_waiting(const struct seeking *seeking)
{
	gangs_for_waiting(
		&seeking->ns->policies->scheduler->core.gangs, seeking->uid, drop_claim, &seeking->ns->book);
}

/* Where the others go, if there is still a place; -ENOENT: not known, or none. */
static int policy_of_mate(const struct seeking *seeking, const char *uid, struct policy_decision *decision)
{
	struct policy_book *book = &seeking->ns->book;
	const struct policy_pod *mate = uid ? policy_book_pod(book, uid) : NULL;
	int r;

	if (!mate || mate->policy != seeking->pod->policy || mate->unit < 0)
		return -ENOENT;
	/* What is claimed for those that have not asked yet is for whoever of them asks. */
	drop_claims_of_waiting(seeking);
	if (!(policy_book_open(book, seeking->pod, (uint32_t)seeking->needed) & UINT64_C(1) << mate->unit))
		return -ENOENT;
	r = fits_unit(seeking, (size_t)mate->unit);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	memcpy(decision->text, mate->text, sizeof(decision->text));
	return mate->unit;
}

/* Those that have no place yet have none in a unit either. */
static int first_unit(const struct seeking *seeking, struct policy_decision *decision)
{
	struct policy_book *book = &seeking->ns->book;
	struct policy_answer answer;
	int64_t now = monotonic_ns();
	uint64_t open, room = 0;

	drop_claims_of_waiting(seeking);
	open = policy_book_open(book, seeking->pod, (uint32_t)seeking->needed);
	for (size_t i = 0; i < seeking->pod->policy->n_units && !room; i++) {
		int r = open & UINT64_C(1) << i ? fits_unit(seeking, i) : 0;

		if (r < 0)
			return r;
		room |= (uint64_t)(r > 0) << i;
	}
	policy_book_ask(book, seeking->pod, (uint32_t)seeking->needed, room, now, &answer);
	policy_answer_text(seeking->pod->policy, &answer, decision->text);
	policy_status_note(seeking->ns, seeking->pod->policy, &answer, decision->text);
	if (answer.verdict == POLICY_USE_UNIT)
		return (int)answer.unit;
	policies_wait(seeking->ns, seeking->pod, &answer, now, decision);
	return -ENOENT;
}

/* Of unit -ENOENT none. */
static int keep_names(const struct seeking *seeking, int unit, const char ***ret_names, size_t *ret_n)
{
	const char **kept = calloc(seeking->n + 1, sizeof(*kept));
	size_t n = 0;

	if (!kept)
		return -ENOMEM;
	for (size_t i = 0; i < seeking->n && unit >= 0; i++)
		if (policy_book_units_of(&seeking->ns->book, seeking->pod->policy, seeking->names[i]) &
			UINT64_C(1) << unit)
			kept[n++] = seeking->names[i];
	*ret_names = kept;
	*ret_n = n;
	return 0;
}

int policies_narrow_gang(struct policies *policies, const struct pod_facts *facts, struct json_object *object,
	const char *const *names, size_t n, const char ***ret_names, size_t *ret_n,
	struct policy_decision *ret_decision)
{
	struct seeking seeking = {.uid = facts->uid, .names = names, .n = n};
	struct core *core = &policies->scheduler->core;
	const char *mate;
	int unit = -ENOENT;

	*ret_names = NULL;
	seeking.pod = policies_select(policies, object, &seeking.ns, ret_decision);
	if (!seeking.pod ||
		!gangs_seek(&core->gangs, &core->ledger, facts, monotonic_ns(), &seeking.needed, &mate)) {
		/* kube-scheduler asks anew: what it was told before it has forgotten. */
		if (seeking.pod && gangs_has_none(&core->gangs, facts->uid))
			policy_book_drop_claim(&seeking.ns->book, seeking.pod);
		*ret_decision = (struct policy_decision){.policies = policies};
		return 0;
	}
	if (!policies_cannot_say(seeking.ns, seeking.pod, ret_decision)) {
		seeking.pod->asked = seeking.pod->fresh = true;
		unit = policy_of_mate(&seeking, mate, ret_decision);
		if (unit == -ENOENT)
			unit = first_unit(&seeking, ret_decision);
		if (unit == -ENOMEM)
			return unit;
		policies_look_soon(policies);
	}
	ret_decision->unit = unit;
	ret_decision->together = seeking.needed;
	return keep_names(&seeking, unit, ret_names, ret_n);
}

struct taking {
	struct policy_book *book;
	const struct resource_policy *policy;
	size_t unit, left; /* so many are still to have a place */
};

static void claim_too(void *userdata, const char *uid)
{
	struct taking *taking = userdata;
	struct policy_pod *pod = policy_book_pod(taking->book, uid);

	if (!taking->left || !pod || pod->policy != taking->policy || !pod->group || pod->claim >= 0)
		return;
	policy_book_claim(taking->book, pod, taking->unit, monotonic_ns());
	pod->for_gang = true;
	taking->left--;
}

void policies_take_gang(struct policy_decision *decision)
{
	struct policy_namespace *ns = policies_namespace(decision->policies, decision->pod->facts.namespace_);
	struct taking taking = {&ns->book, decision->pod->policy, (size_t)decision->unit,
		decision->together ? decision->together - 1 : 0};

	policies_use(ns, decision->pod, taking.unit, decision);
	gangs_for_waiting(
		&decision->policies->scheduler->core.gangs, decision->pod->facts.uid, claim_too, &taking);
}

/* Whoever was told itself where it may go can be on its way there still, and waits for its volumes. */
void policies_drop_given_up(struct policy_namespace *ns)
{
	struct policy_pod *pod;

	table_for_each (&ns->book.pods, cursor, pod)
		if (pod->claim >= 0 && pod->for_gang &&
			gangs_has_none(&ns->policies->scheduler->core.gangs, pod->facts.uid))
			policy_book_drop_claim(&ns->book, pod);
}
