/* Levels for pods that are placed all or none. A gang is not divided: it goes to the first level that has
 * room for as many as have to be placed together, and those of its pods that ask later follow the first one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/registry/ledger.h"
#include "scheduler/gangs.h"
#include "scheduler/levels-internal.h"
#include "scheduler/scheduler.h"

struct seeking {
	struct level_space *space;
	struct level_pod *pod;
	const char *uid;
	const char *const *names;
	size_t n;
	size_t needed;
};

/* -ENOMEM; else how many of the names are in the level. */
static int names_in_level(const struct seeking *seeking, size_t level, struct table *names)
{
	int n = 0;

	table_init(names);
	for (size_t i = 0; i < seeking->n; i++) {
		uint64_t bits = level_book_levels_of(
			&seeking->space->book, seeking->pod->policy, seeking->names[i]);

		if (!(bits & UINT64_C(1) << level))
			continue;
		if (table_set(names, seeking->names[i], names) < 0)
			return -ENOMEM;
		n++;
	}
	return n;
}

static int fits_level(const struct seeking *seeking, size_t level)
{
	struct table names;
	int r = names_in_level(seeking, level, &names);

	if (r > 0)
		r = gang_controller_fit_on(
			seeking->space->levels->scheduler->gangs, seeking->uid, &names, seeking->needed);
	table_release(&names);
	return r;
}

static void drop_claim(void *userdata, const char *uid)
{
	struct level_book *book = userdata;
	struct level_pod *pod = level_book_pod(book, uid);

	if (pod)
		level_book_drop_claim(book, pod);
}

static void drop_claims_of_waiting(const struct seeking *seeking)
{
	gang_controller_for_waiting(
		seeking->space->levels->scheduler->gangs, seeking->uid, drop_claim, &seeking->space->book);
}

/* Where the others go, if there is still a place; -ENOENT: not known, or none. */
static int level_of_mate(const struct seeking *seeking, const char *uid, struct levels_say *say)
{
	struct level_book *book = &seeking->space->book;
	const struct level_pod *mate = uid ? level_book_pod(book, uid) : NULL;
	int r;

	if (!mate || mate->policy != seeking->pod->policy || mate->level < 0)
		return -ENOENT;
	/* What is claimed for those that have not asked yet is for whoever of them asks. */
	drop_claims_of_waiting(seeking);
	if (!(level_book_open(book, seeking->pod, (uint32_t)seeking->needed) & UINT64_C(1) << mate->level))
		return -ENOENT;
	r = fits_level(seeking, (size_t)mate->level);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	memcpy(say->text, mate->text, sizeof(say->text));
	return mate->level;
}

/* Those that have no place yet have none in a level either. */
static int first_level(const struct seeking *seeking, struct levels_say *say)
{
	struct level_book *book = &seeking->space->book;
	struct level_answer answer;
	int64_t now = monotonic_ns();
	uint64_t open, room = 0;

	drop_claims_of_waiting(seeking);
	open = level_book_open(book, seeking->pod, (uint32_t)seeking->needed);
	for (size_t i = 0; i < seeking->pod->policy->n_levels && !room; i++) {
		int r = open & UINT64_C(1) << i ? fits_level(seeking, i) : 0;

		if (r < 0)
			return r;
		room |= (uint64_t)(r > 0) << i;
	}
	level_book_ask(book, seeking->pod, (uint32_t)seeking->needed, room, now, &answer);
	level_answer_text(seeking->pod->policy, &answer, say->text);
	level_status_note(seeking->space, seeking->pod->policy, &answer, say->text);
	if (answer.verdict == LEVEL_USE)
		return (int)answer.level;
	levels_wait(seeking->space, seeking->pod, &answer, now, say);
	return -ENOENT;
}

/* Of level -ENOENT none. */
static int keep_names(const struct seeking *seeking, int level, const char ***ret_names, size_t *ret_n)
{
	const char **kept = calloc(seeking->n + 1, sizeof(*kept));
	size_t n = 0;

	if (!kept)
		return -ENOMEM;
	for (size_t i = 0; i < seeking->n && level >= 0; i++)
		if (level_book_levels_of(&seeking->space->book, seeking->pod->policy, seeking->names[i]) &
			UINT64_C(1) << level)
			kept[n++] = seeking->names[i];
	*ret_names = kept;
	*ret_n = n;
	return 0;
}

int levels_narrow_gang(struct levels *levels, const struct pod_facts *facts, struct json_object *object,
	const char *const *names, size_t n, const char ***ret_names, size_t *ret_n,
	struct levels_say *ret_say)
{
	struct seeking seeking = {.uid = facts->uid, .names = names, .n = n};
	const char *mate;
	int level = -ENOENT;

	*ret_names = NULL;
	seeking.pod = levels_select(levels, object, &seeking.space, ret_say);
	if (!seeking.pod || !gang_controller_seek(levels->scheduler->gangs, facts, &seeking.needed, &mate)) {
		/* kube-scheduler asks anew: what it was told before it has forgotten. */
		if (seeking.pod && gang_controller_has_none(levels->scheduler->gangs, facts->uid))
			level_book_drop_claim(&seeking.space->book, seeking.pod);
		*ret_say = (struct levels_say){.levels = levels};
		return 0;
	}
	if (!levels_cannot_say(seeking.space, seeking.pod, ret_say)) {
		seeking.pod->asked = seeking.pod->fresh = true;
		level = level_of_mate(&seeking, mate, ret_say);
		if (level == -ENOENT)
			level = first_level(&seeking, ret_say);
		if (level == -ENOMEM)
			return level;
		levels_look_soon(levels);
	}
	ret_say->level = level;
	ret_say->together = seeking.needed;
	return keep_names(&seeking, level, ret_names, ret_n);
}

struct taking {
	struct level_book *book;
	const struct level_policy *policy;
	size_t level, left; /* so many are still to have a place */
};

static void claim_too(void *userdata, const char *uid)
{
	struct taking *taking = userdata;
	struct level_pod *pod = level_book_pod(taking->book, uid);

	if (!taking->left || !pod || pod->policy != taking->policy || !pod->group || pod->claim >= 0)
		return;
	level_book_claim(taking->book, pod, taking->level, monotonic_ns());
	pod->for_gang = true;
	taking->left--;
}

void levels_take_gang(struct levels_say *say)
{
	struct level_space *space = levels_space(say->levels, say->pod->facts.namespace_);
	struct taking taking = {
		&space->book, say->pod->policy, (size_t)say->level, say->together ? say->together - 1 : 0};

	levels_use(space, say->pod, taking.level, say);
	gang_controller_for_waiting(say->levels->scheduler->gangs, say->pod->facts.uid, claim_too, &taking);
}

/* Whoever was told itself where it may go can be on its way there still, and waits for its volumes. */
void levels_drop_given_up(struct level_space *space)
{
	struct level_pod *pod;

	table_for_each (&space->book.pods, cursor, pod)
		if (pod->claim >= 0 && pod->for_gang &&
			gang_controller_has_none(space->levels->scheduler->gangs, pod->facts.uid))
			level_book_drop_claim(&space->book, pod);
}
