/* Units for pods that are placed all or none. A gang is not divided. It goes to the first unit with room for
 * as many members as must be placed together, and members that kube-scheduler asks for later follow the first
 * one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/policies-internal.h"

struct seeking {
	struct core *core;
	struct policy_decision *decision;
	const char *uid;
	const char *const *names;
	size_t n;
	size_t needed;
	int64_t now_ns;
};

/* Returns how many of the names are in the unit, or -ENOMEM. */
static int names_in_unit(const struct seeking *seeking, size_t unit, struct table *names)
{
	int n = 0;

	table_init(names);
	for (size_t i = 0; i < seeking->n; i++) {
		uint64_t bits = policy_book_units_of(
			&seeking->decision->space->book, seeking->decision->pod->policy, seeking->names[i]);

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
	struct core *core = seeking->core;
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
	gangs_for_waiting(&seeking->core->gangs, seeking->uid, drop_claim, &seeking->decision->space->book);
}

/* Returns the unit of the member `uid` if it still has a place for the others. -ENOENT: its unit is unknown,
 * or has no place. */
static int policy_of_mate(const struct seeking *seeking, const char *uid)
{
	struct policy_book *book = &seeking->decision->space->book;
	const struct policy_pod *mate = uid ? policy_book_pod(book, uid) : NULL;
	int r;

	if (!mate || mate->policy != seeking->decision->pod->policy || mate->unit < 0)
		return -ENOENT;
	/* A claim for members that kube-scheduler has not asked for goes to the first one that it asks for.
	 */
	drop_claims_of_waiting(seeking);
	if (!(policy_book_open(book, seeking->decision->pod, (uint32_t)seeking->needed) &
		    UINT64_C(1) << mate->unit))
		return -ENOENT;
	r = fits_unit(seeking, (size_t)mate->unit);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	memcpy(seeking->decision->text, mate->text, sizeof(seeking->decision->text));
	return mate->unit;
}

/* Chooses the first unit with room. Members without a node give up their claims first, because they have no
 * place in a unit either. */
static int first_unit(const struct seeking *seeking)
{
	struct policy_decision *decision = seeking->decision;
	struct policy_book *book = &decision->space->book;
	uint64_t open, room = 0;

	drop_claims_of_waiting(seeking);
	open = policy_book_open(book, decision->pod, (uint32_t)seeking->needed);
	for (size_t i = 0; i < decision->pod->policy->n_units && !room; i++) {
		int r = open & UINT64_C(1) << i ? fits_unit(seeking, i) : 0;

		if (r < 0)
			return r;
		room |= (uint64_t)(r > 0) << i;
	}
	policies_ask((uint32_t)seeking->needed, room, seeking->now_ns, decision);
	if (decision->answer.verdict == POLICY_USE_UNIT)
		return (int)decision->answer.unit;
	policies_wait(seeking->core, seeking->now_ns, decision);
	return -ENOENT;
}

/* Copies the names that are in the unit. If unit is -ENOENT, no name is kept. */
static int keep_names(const struct seeking *seeking, int unit, const char ***ret_names, size_t *ret_n)
{
	const char **kept = calloc(seeking->n + 1, sizeof(*kept));
	size_t n = 0;

	if (!kept)
		return -ENOMEM;
	for (size_t i = 0; i < seeking->n && unit >= 0; i++)
		if (policy_book_units_of(&seeking->decision->space->book, seeking->decision->pod->policy,
			    seeking->names[i]) &
			UINT64_C(1) << unit)
			kept[n++] = seeking->names[i];
	*ret_names = kept;
	*ret_n = n;
	return 0;
}

int policies_narrow_gang(struct core *core, const struct pod_facts *facts, const char *const *names, size_t n,
	int64_t now_ns, const char ***ret_names, size_t *ret_n, struct policy_decision *decision)
{
	struct seeking seeking = {.core = core,
		.decision = decision,
		.uid = facts->uid,
		.names = names,
		.n = n,
		.now_ns = now_ns};
	struct policy_pod *pod = decision->pod;
	const char *mate;
	int unit = -ENOENT;

	*ret_names = NULL;
	if (!pod || !gangs_seek(&core->gangs, &core->ledger, facts, now_ns, &seeking.needed, &mate)) {
		/* kube-scheduler asks again, so it has forgotten the last answer. */
		if (pod && gangs_has_none(&core->gangs, facts->uid))
			policy_book_drop_claim(&decision->space->book, pod);
		return 0;
	}
	if (!policies_cannot_say(core, now_ns, decision)) {
		pod->asked = pod->fresh = true;
		unit = policy_of_mate(&seeking, mate);
		if (unit == -ENOENT)
			unit = first_unit(&seeking);
		if (unit == -ENOMEM)
			return unit;
	}
	decision->unit = unit;
	decision->together = seeking.needed;
	return keep_names(&seeking, unit, ret_names, ret_n);
}

struct taking {
	struct policy_book *book;
	const struct resource_policy *policy;
	size_t unit, left; /* left: how many members still need a place */
	int64_t now_ns;
};

static void claim_too(void *userdata, const char *uid)
{
	struct taking *taking = userdata;
	struct policy_pod *pod = policy_book_pod(taking->book, uid);

	if (!taking->left || !pod || pod->policy != taking->policy || !pod->group || pod->claim.unit >= 0)
		return;
	policy_book_claim(taking->book, pod, taking->unit, taking->now_ns);
	pod->claim.for_gang = true;
	taking->left--;
}

void core_policy_take_gang(struct core *core, int64_t now_ns, struct policy_decision *decision)
{
	struct taking taking = {&decision->space->book, decision->pod->policy, (size_t)decision->unit,
		decision->together ? decision->together - 1 : 0, now_ns};

	policies_use(core, taking.unit, now_ns, decision);
	gangs_for_waiting(&core->gangs, decision->pod->facts.uid, claim_too, &taking);
}

/* Drops only claims that were made for a gang. A pod that was told its own unit may still be on its way there
 * and wait for its volumes. */
void policies_drop_given_up(struct core *core, struct policy_space *space)
{
	struct policy_pod *pod;

	table_for_each (&space->book.pods, cursor, pod)
		if (pod->claim.unit >= 0 && pod->claim.for_gang &&
			gangs_has_none(&core->gangs, pod->facts.uid))
			policy_book_drop_claim(&space->book, pod);
}
