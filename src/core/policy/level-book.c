#include "core/policy/level-book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/policy/level-book-internal.h"

/* As that of a GPU: PreBind may wait for volumes for up to 600 s by default. */
#define CLAIM_NS (600 * NS_PER_S)

/* ---- policies ---- */

void level_book_init(struct level_book *book, struct level_nodes *nodes)
{
	*book = (struct level_book){.nodes = nodes, .round = 1};
	list_init(&book->policies);
	table_init(&book->pods);
	table_init(&book->annotation_keys);
}

static void entry_free(struct level_entry *entry)
{
	list_remove(&entry->item);
	level_groups_clear(entry);
	table_release(&entry->groups);
	level_policy_free(entry->policy);
	free(entry);
}

static void pod_free(struct level_pod *pod)
{
	level_pod_facts_release(&pod->facts);
	free(pod);
}

void level_book_release(struct level_book *book)
{
	struct level_pod *pod;

	table_for_each (&book->pods, cursor, pod)
		pod_free(pod);
	table_release(&book->pods);
	list_for_each_safe (item, after, &book->policies)
		entry_free(list_entry(item, struct level_entry, item));
	table_release(&book->annotation_keys);
}

const struct level_policy *level_book_policy(const struct level_book *book, const char *uid)
{
	const struct level_entry *entry = level_entry_find(book, uid);

	return entry ? entry->policy : NULL;
}

static bool comes_before(const struct level_policy *a, const struct level_policy *b)
{
	if (a->created != b->created)
		return a->created < b->created;
	return strcmp(a->name, b->name) < 0;
}

static void entry_insert(struct level_book *book, struct level_entry *entry)
{
	list_for_each (item, &book->policies)
		if (comes_before(entry->policy, list_entry(item, struct level_entry, item)->policy)) {
			list_append(item, &entry->item); /* before it */
			return;
		}
	list_append(&book->policies, &entry->item);
}

/* Pods point to policies and groups, which are about to go: whoever reads one first has them counted anew. */
static void policies_changed(struct level_book *book)
{
	struct level_pod *pod;

	table_for_each (&book->pods, cursor, pod) {
		pod->policy = NULL;
		pod->group = NULL;
		pod->level = -1;
		pod->counts = false;
	}
	book->stale = true;
	book->freed++;
	table_release(&book->annotation_keys);
	table_init(&book->annotation_keys);
	list_for_each (item, &book->policies) {
		const struct level_policy *policy = list_entry(item, struct level_entry, item)->policy;

		for (size_t i = 0; i < policy->n_levels; i++)
			for (size_t j = 0; j < policy->levels[i].pod_annotations.n; j++)
				table_set(&book->annotation_keys,
					policy->levels[i].pod_annotations.list[j].key, book);
	}
}

int level_book_set_policy(struct level_book *book, struct level_policy *policy)
{
	struct level_entry *old = level_entry_find(book, policy->uid), *entry = calloc(1, sizeof(*entry));

	if (entry) {
		policy->serial = ++book->nodes->n_policies;
		entry->policy = policy;
		table_init(&entry->groups);
	}
	if (old)
		entry_free(old);
	if (entry)
		entry_insert(book, entry);
	else
		level_policy_free(policy);
	policies_changed(book);
	return entry ? 0 : -ENOMEM;
}

void level_book_remove_policy(struct level_book *book, const char *uid)
{
	struct level_entry *entry = level_entry_find(book, uid);

	if (!entry)
		return;
	entry_free(entry);
	policies_changed(book);
}

void level_book_settle(struct level_book *book)
{
	struct level_pod *pod;

	if (!book->stale && book->nodes_generation == book->nodes->generation)
		return;
	list_for_each (item, &book->policies)
		level_groups_clear(list_entry(item, struct level_entry, item));
	table_for_each (&book->pods, cursor, pod)
		level_pod_put_in(book, pod);
	book->stale = false;
	book->nodes_generation = book->nodes->generation;
	book->freed++;
}

/* ---- pods ---- */

void level_pod_facts_release(struct level_pod_facts *facts)
{
	free(facts->uid);
	free(facts->namespace_);
	free(facts->name);
	free(facts->node);
	free(facts->labels);
	free(facts->annotations);
	level_amounts_release(&facts->requests);
	*facts = (struct level_pod_facts){0};
}

struct level_pod *level_book_pod(const struct level_book *book, const char *uid)
{
	return table_get(&book->pods, uid);
}

static struct level_pod *pod_get_or_add(struct level_book *book, const char *uid)
{
	struct level_pod *pod = level_book_pod(book, uid);

	if (pod)
		return pod;
	pod = calloc(1, sizeof(*pod));
	if (!pod || table_set(&book->pods, uid, pod) < 0) {
		free(pod);
		return NULL;
	}
	pod->claim = pod->level = pod->given = -1;
	return pod;
}

/* Where a pod stands in the sums. */
struct standing {
	const struct level_policy *policy;
	struct level_group *group;
	int level;
	bool counts, terminating;
};

static struct standing standing_of(const struct level_pod *pod)
{
	return (struct standing){pod->policy, pod->group, pod->level, pod->counts, pod->facts.terminating};
}

/* The pod has left its old standing: did it leave something that others may wait for? */
static void leave(struct level_book *book, const struct standing *before, const struct level_pod *pod)
{
	bool moved = pod->group != before->group || pod->level != before->level;

	level_group_drop_if_empty(book, before->policy, before->group);
	if (before->level < 0)
		return;
	if (moved || (before->counts && !pod->counts) || (before->terminating && !pod->facts.terminating))
		book->freed++;
}

static void take_facts(struct level_pod *pod, struct level_pod_facts *facts)
{
	level_pod_facts_release(&pod->facts);
	pod->facts = *facts;
	*facts = (struct level_pod_facts){0};
	pod->busy = false;
	if (!*pod->facts.node)
		return;
	pod->claim = -1;
	pod->waits = false;
}

static void pod_remove(struct level_book *book, struct level_pod *pod)
{
	struct standing before = standing_of(pod);

	level_pod_take_out(pod);
	leave(book, &before, pod);
	table_remove(&book->pods, pod->facts.uid);
	pod_free(pod);
}

void level_book_delete_pod(struct level_book *book, const char *uid)
{
	struct level_pod *pod = level_book_pod(book, uid);

	snprintf(book->gone[book->next_gone], LEVEL_UID_SIZE, "%s", uid);
	book->next_gone = (book->next_gone + 1) % LEVEL_GONE_MAX;
	if (pod)
		pod_remove(book, pod);
}

bool level_book_is_gone(const struct level_book *book, const char *uid)
{
	for (size_t i = 0; i < LEVEL_GONE_MAX; i++)
		if (strcmp(book->gone[i], uid) == 0)
			return true;
	return false;
}

/* No Binding of theirs can land, and nobody would end what they are given. */
static bool is_to_be_ignored(const struct level_book *book, const struct level_pod_facts *facts, bool listed)
{
	return facts->finished ||
	       (!listed && !level_book_pod(book, facts->uid) && level_book_is_gone(book, facts->uid));
}

struct level_pod *level_book_set_pod(struct level_book *book, struct level_pod_facts *facts, bool listed)
{
	struct level_pod *pod = level_book_pod(book, facts->uid);
	struct standing before;

	if (is_to_be_ignored(book, facts, listed)) {
		if (pod)
			pod_remove(book, pod);
		level_pod_facts_release(facts);
		return NULL;
	}
	level_book_settle(book);
	pod = pod_get_or_add(book, facts->uid);
	if (!pod || (!listed && pod->round)) {
		if (pod)
			pod->facts.nominated = facts->nominated;
		level_pod_facts_release(facts);
		return pod;
	}
	before = standing_of(pod);
	level_pod_take_out(pod);
	take_facts(pod, facts);
	if (listed)
		pod->round = book->round;
	level_pod_put_in(book, pod);
	leave(book, &before, pod);
	return pod;
}

void level_book_begin_list(struct level_book *book)
{
	book->round++;
}

bool level_book_is_shown(const struct level_book *book, const char *uid)
{
	const struct level_pod *pod = level_book_pod(book, uid);

	return pod && pod->round == book->round;
}

/* ---- questions ---- */

static void claim_set(struct level_book *book, struct level_pod *pod, int level)
{
	struct level_group *group = pod->group;

	level_pod_take_out(pod);
	pod->claim = level;
	level_pod_put_in(book, pod);
	level_group_drop_if_empty(book, pod->policy, group);
}

static struct level_question question_of(const struct level_pod *pod, uint32_t together)
{
	return (struct level_question){.policy = pod->policy,
		.use = pod->group->use,
		.requests = &pod->facts.requests,
		.nominated = pod->facts.nominated,
		.together = together};
}

void level_book_ask(struct level_book *book, struct level_pod *pod, uint32_t together, uint64_t room,
	int64_t now_ns, struct level_answer *ret_answer)
{
	struct level_question question;
	int claim = pod->claim;

	level_book_settle(book);
	if (claim >= 0)
		claim_set(book, pod, -1);
	question = question_of(pod, together);
	question.room = room;
	question.now_ns = now_ns;
	level_decide(&question, &pod->wait, ret_answer);
	if (claim >= 0 && (ret_answer->verdict != LEVEL_USE || (int)ret_answer->level != claim))
		book->freed++;
}

uint64_t level_book_open(struct level_book *book, struct level_pod *pod, uint32_t together)
{
	struct level_question question;

	level_book_settle(book);
	level_book_drop_claim(book, pod);
	question = question_of(pod, together);
	return levels_open(&question);
}

void level_book_claim(struct level_book *book, struct level_pod *pod, size_t level, int64_t now_ns)
{
	if (*pod->facts.node)
		return;
	pod->claim_began_ns = now_ns;
	pod->claim_ends_ns = now_ns + CLAIM_NS;
	pod->claim_serial = pod->policy ? pod->policy->serial : 0;
	pod->for_gang = false;
	pod->given = (int)level;
	claim_set(book, pod, (int)level);
}

void level_book_drop_claim(struct level_book *book, struct level_pod *pod)
{
	if (pod->claim < 0)
		return;
	claim_set(book, pod, -1);
	book->freed++;
}

/* Its pod was deleted when the question was on its way, or while a LIST was read. */
static bool is_unseen(const struct level_pod *pod, int64_t shown_ns)
{
	return !pod->round && pod->claim_began_ns <= shown_ns;
}

void level_book_expire(struct level_book *book, int64_t now_ns, int64_t shown_ns)
{
	struct level_pod *pod;

	table_for_each (&book->pods, cursor, pod) {
		if (pod->claim >= 0 && (pod->claim_ends_ns <= now_ns || is_unseen(pod, shown_ns)))
			level_book_drop_claim(book, pod);
		if (pod->claim < 0 && !pod->round && pod->forget_ns <= now_ns)
			pod_remove(book, pod);
	}
}

void level_book_sum(struct level_book *book, const char *policy_uid, struct level_use *ret_use)
{
	struct level_entry *entry;
	const struct level_group *group;

	level_book_settle(book);
	entry = level_entry_find(book, policy_uid);
	memset(ret_use, 0, LEVELS_MAX * sizeof(*ret_use));
	if (!entry)
		return;
	table_for_each (&entry->groups, cursor, group)
		for (size_t i = 0; i < entry->policy->n_levels; i++) {
			ret_use[i].pods += group->use[i].pods;
			ret_use[i].terminating += group->use[i].terminating;
			for (size_t j = 0; j < LEVEL_RESOURCES_MAX; j++)
				ret_use[i].milli[j] += group->use[i].milli[j];
		}
}

uint64_t level_book_levels_of(
	const struct level_book *book, const struct level_policy *policy, const char *node)
{
	struct level_node *known = table_get(&book->nodes->by_name, node);
	struct level_seen *seen = known ? &known->seen[policy->serial % LEVEL_SEEN_MAX] : NULL;

	if (!seen)
		return 0;
	if (seen->serial != policy->serial)
		*seen = (struct level_seen){
			policy->serial, levels_of_node(policy, known->labels, known->is_virtual)};
	return seen->levels;
}
