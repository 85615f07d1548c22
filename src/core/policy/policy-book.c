#include "core/policy/policy-book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/policy/policy-book-internal.h"

/* The same time as for the hold of a GPU: PreBind may wait for volumes for up to 600 s by default. */
#define CLAIM_NS (600 * NS_PER_S)

/* ---- policies ---- */

void policy_book_init(struct policy_book *book, struct policy_nodes *nodes, struct requeue_list *requeues)
{
	*book = (struct policy_book){.nodes = nodes, .requeues = requeues, .round = 1};
	list_init(&book->policies);
	table_init(&book->pods);
	table_init(&book->annotation_keys);
}

static void entry_free(struct policy_entry *entry)
{
	list_remove(&entry->item);
	policy_groups_clear(entry);
	table_release(&entry->groups);
	resource_policy_free(entry->policy);
	free(entry);
}

static void pod_free(struct policy_book *book, struct policy_pod *pod)
{
	requeue_list_stop(book->requeues, pod->facts.uid, REQUEUE_UNIT);
	policy_pod_facts_release(&pod->facts);
	free(pod);
}

void policy_book_release(struct policy_book *book)
{
	struct policy_pod *pod;

	table_for_each (&book->pods, cursor, pod)
		pod_free(book, pod);
	table_release(&book->pods);
	list_for_each_safe (item, after, &book->policies)
		entry_free(list_entry(item, struct policy_entry, item));
	table_release(&book->annotation_keys);
}

const struct resource_policy *policy_book_policy(const struct policy_book *book, const char *uid)
{
	const struct policy_entry *entry = policy_entry_find(book, uid);

	return entry ? entry->policy : NULL;
}

static bool comes_before(const struct resource_policy *a, const struct resource_policy *b)
{
	if (a->created != b->created)
		return a->created < b->created;
	return strcmp(a->name, b->name) < 0;
}

static void entry_insert(struct policy_book *book, struct policy_entry *entry)
{
	list_for_each (item, &book->policies)
		if (comes_before(entry->policy, list_entry(item, struct policy_entry, item)->policy)) {
			list_append(item, &entry->item); /* link before the old entry */
			return;
		}
	list_append(&book->policies, &entry->item);
}

int policy_book_note_keys(struct policy_book *book, const struct resource_policy *policy)
{
	int r = 0;

	for (size_t i = 0; i < policy->n_units; i++) {
		const struct label_pairs *pairs = &policy->units[i].pod_annotations;

		for (size_t j = 0; j < pairs->n; j++)
			if (table_set(&book->annotation_keys, pairs->list[j].key, book) < 0)
				r = -ENOMEM;
	}
	return r;
}

/* The pods point to policies and groups that are about to be freed. The next reader counts all pods anew
 * (policy_book_settle()). */
static void policies_changed(struct policy_book *book)
{
	struct policy_pod *pod;

	table_for_each (&book->pods, cursor, pod) {
		pod->policy = NULL;
		pod->group = NULL;
		pod->unit = -1;
		pod->counts = false;
	}
	book->stale = true;
	book->freed++;
	table_release(&book->annotation_keys);
	table_init(&book->annotation_keys);
	list_for_each (item, &book->policies)
		policy_book_note_keys(book, list_entry(item, struct policy_entry, item)->policy);
}

int policy_book_set_policy(struct policy_book *book, struct resource_policy *policy)
{
	struct policy_entry *old = policy_entry_find(book, policy->uid), *entry = calloc(1, sizeof(*entry));

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
		resource_policy_free(policy);
	policies_changed(book);
	return entry ? 0 : -ENOMEM;
}

void policy_book_remove_policy(struct policy_book *book, const char *uid)
{
	struct policy_entry *entry = policy_entry_find(book, uid);

	if (!entry)
		return;
	entry_free(entry);
	policies_changed(book);
}

void policy_book_settle(struct policy_book *book)
{
	struct policy_pod *pod;

	if (!book->stale && book->nodes_generation == book->nodes->generation)
		return;
	list_for_each (item, &book->policies)
		policy_groups_clear(list_entry(item, struct policy_entry, item));
	table_for_each (&book->pods, cursor, pod)
		policy_pod_put_in(book, pod);
	book->stale = false;
	book->nodes_generation = book->nodes->generation;
	book->freed++;
}

/* ---- pods ---- */

void policy_pod_facts_release(struct policy_pod_facts *facts)
{
	free(facts->uid);
	free(facts->namespace_);
	free(facts->name);
	free(facts->node);
	free(facts->labels);
	free(facts->annotations);
	amounts_release(&facts->requests);
	*facts = (struct policy_pod_facts){0};
}

struct policy_pod *policy_book_pod(const struct policy_book *book, const char *uid)
{
	return table_get(&book->pods, uid);
}

static struct policy_pod *pod_get_or_add(struct policy_book *book, const char *uid)
{
	struct policy_pod *pod = policy_book_pod(book, uid);

	if (pod)
		return pod;
	pod = calloc(1, sizeof(*pod));
	if (!pod || table_set(&book->pods, uid, pod) < 0) {
		free(pod);
		return NULL;
	}
	pod->claim.unit = pod->unit = pod->claim.given = -1;
	return pod;
}

/* Where a pod is counted. */
struct standing {
	const struct resource_policy *policy;
	struct policy_group *group;
	int unit;
	bool counts, terminating;
};

static struct standing standing_of(const struct policy_pod *pod)
{
	return (struct standing){pod->policy, pod->group, pod->unit, pod->counts, pod->facts.terminating};
}

/* The pod now counts elsewhere. If its old place has become free, waiting pods are asked about again. */
static void leave(struct policy_book *book, const struct standing *before, const struct policy_pod *pod)
{
	bool moved = pod->group != before->group || pod->unit != before->unit;

	policy_group_drop_if_empty(book, before->policy, before->group);
	if (before->unit < 0)
		return;
	if (moved || (before->counts && !pod->counts) || (before->terminating && !pod->facts.terminating))
		book->freed++;
}

static void take_facts(struct policy_book *book, struct policy_pod *pod, struct policy_pod_facts *facts)
{
	policy_pod_facts_release(&pod->facts);
	pod->facts = *facts;
	*facts = (struct policy_pod_facts){0};
	pod->busy = false;
	if (!*pod->facts.node)
		return;
	pod->claim.unit = -1;
	requeue_list_stop(book->requeues, pod->facts.uid, REQUEUE_UNIT);
}

static void pod_remove(struct policy_book *book, struct policy_pod *pod)
{
	struct standing before = standing_of(pod);

	policy_pod_take_out(pod);
	leave(book, &before, pod);
	table_remove(&book->pods, pod->facts.uid);
	pod_free(book, pod);
}

void policy_book_delete_pod(struct policy_book *book, const char *uid)
{
	struct policy_pod *pod = policy_book_pod(book, uid);

	snprintf(book->gone[book->next_gone], POLICY_UID_SIZE, "%s", uid);
	book->next_gone = (book->next_gone + 1) % POLICY_GONE_MAX;
	if (pod)
		pod_remove(book, pod);
}

bool policy_book_is_gone(const struct policy_book *book, const char *uid)
{
	for (size_t i = 0; i < POLICY_GONE_MAX; i++)
		if (strcmp(book->gone[i], uid) == 0)
			return true;
	return false;
}

struct policy_pod *policy_book_set_pod(struct policy_book *book, struct policy_pod_facts *facts, bool listed)
{
	struct policy_pod *pod = policy_book_pod(book, facts->uid);
	struct standing before;

	/* A finished or deleted pod can no longer be bound, so nothing would end a claim that it was given.
	 */
	if (facts->finished ||
		(!listed && !policy_book_pod(book, facts->uid) && policy_book_is_gone(book, facts->uid))) {
		if (pod)
			pod_remove(book, pod);
		policy_pod_facts_release(facts);
		return NULL;
	}
	policy_book_settle(book);
	pod = pod_get_or_add(book, facts->uid);
	if (!pod || (!listed && pod->round)) {
		if (pod)
			pod->facts.nominated = facts->nominated;
		policy_pod_facts_release(facts);
		return pod;
	}
	if (listed)
		pod->round = book->round;
	/* A Binding is never undone, so this event is older than the list that has shown the pod bound. */
	if (pod->facts.node && *pod->facts.node && !*facts->node) {
		policy_pod_facts_release(facts);
		return pod;
	}
	before = standing_of(pod);
	policy_pod_take_out(pod);
	take_facts(book, pod, facts);
	policy_pod_put_in(book, pod);
	leave(book, &before, pod);
	return pod;
}

void policy_book_begin_list(struct policy_book *book)
{
	book->round++;
}

void policy_book_end_list(struct policy_book *book)
{
	struct policy_pod *pod;

	policy_book_settle(book);
	table_for_each (&book->pods, cursor, pod)
		if (pod->round && pod->round != book->round)
			pod_remove(book, pod);
}

bool policy_book_is_shown(const struct policy_book *book, const char *uid)
{
	const struct policy_pod *pod = policy_book_pod(book, uid);

	return pod && pod->round == book->round;
}

/* ---- decisions ---- */

static void claim_set(struct policy_book *book, struct policy_pod *pod, int unit)
{
	struct policy_group *group = pod->group;

	policy_pod_take_out(pod);
	pod->claim.unit = unit;
	policy_pod_put_in(book, pod);
	policy_group_drop_if_empty(book, pod->policy, group);
}

static struct policy_question question_of(const struct policy_pod *pod, uint32_t together)
{
	return (struct policy_question){.policy = pod->policy,
		.use = pod->group->use,
		.requests = &pod->facts.requests,
		.nominated = pod->facts.nominated,
		.together = together};
}

void policy_book_ask(struct policy_book *book, struct policy_pod *pod, uint32_t together, uint64_t room,
	int64_t now_ns, struct policy_answer *ret_answer)
{
	struct policy_question question;
	int claim = pod->claim.unit;

	policy_book_settle(book);
	if (claim >= 0)
		claim_set(book, pod, -1);
	question = question_of(pod, together);
	question.room = room;
	question.now_ns = now_ns;
	policy_decide(&question, &pod->wait, ret_answer);
	if (claim >= 0 && (ret_answer->verdict != POLICY_USE_UNIT || (int)ret_answer->unit != claim))
		book->freed++;
}

uint64_t policy_book_open(struct policy_book *book, struct policy_pod *pod, uint32_t together)
{
	struct policy_question question;

	policy_book_settle(book);
	policy_book_drop_claim(book, pod);
	question = question_of(pod, together);
	return policy_open_units(&question);
}

void policy_book_claim(struct policy_book *book, struct policy_pod *pod, size_t unit, int64_t now_ns)
{
	if (*pod->facts.node)
		return;
	pod->claim.began_ns = now_ns;
	pod->claim.ends_ns = now_ns + CLAIM_NS;
	pod->claim.serial = pod->policy ? pod->policy->serial : 0;
	pod->claim.for_gang = false;
	pod->claim.given = (int)unit;
	claim_set(book, pod, (int)unit);
}

void policy_book_drop_claim(struct policy_book *book, struct policy_pod *pod)
{
	if (pod->claim.unit < 0)
		return;
	claim_set(book, pod, -1);
	book->freed++;
}

void policy_book_expire(struct policy_book *book, int64_t now_ns, int64_t shown_ns)
{
	struct policy_pod *pod;

	table_for_each (&book->pods, cursor, pod) {
		/* The pod was deleted while kube-scheduler's call was on its way, or while a LIST was read.
		 */
		if (pod->claim.unit >= 0 &&
			(pod->claim.ends_ns <= now_ns || (!pod->round && pod->claim.began_ns <= shown_ns)))
			policy_book_drop_claim(book, pod);
		if (pod->claim.unit < 0 && !pod->round && pod->forget_ns <= now_ns)
			pod_remove(book, pod);
	}
}

void policy_book_sum(struct policy_book *book, const char *policy_uid, struct policy_unit_usage *ret_use)
{
	struct policy_entry *entry;
	const struct policy_group *group;

	policy_book_settle(book);
	entry = policy_entry_find(book, policy_uid);
	memset(ret_use, 0, POLICY_UNITS_MAX * sizeof(*ret_use));
	if (!entry)
		return;
	table_for_each (&entry->groups, cursor, group)
		for (size_t i = 0; i < entry->policy->n_units; i++) {
			ret_use[i].pods += group->use[i].pods;
			ret_use[i].terminating += group->use[i].terminating;
			for (size_t j = 0; j < POLICY_RESOURCES_MAX; j++)
				ret_use[i].milli[j] += group->use[i].milli[j];
		}
}

uint64_t policy_book_units_of(
	const struct policy_book *book, const struct resource_policy *policy, const char *node)
{
	struct policy_node *known = table_get(&book->nodes->by_name, node);
	struct policy_seen *seen = known ? &known->seen[policy->serial % POLICY_SEEN_MAX] : NULL;

	if (!seen)
		return 0;
	if (seen->serial != policy->serial)
		*seen = (struct policy_seen){
			policy->serial, policy_units_of_node(policy, known->labels, known->is_virtual)};
	return seen->units;
}

/* Restores a book as it was, without counting any change. */
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
