#include "core/policy/level-book-internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

#define GROUP_TEXT_MAX 4096

void level_groups_clear(struct level_entry *entry)
{
	struct level_group *group;

	table_for_each (&entry->groups, cursor, group) {
		free(group->use);
		free(group);
	}
	table_release(&entry->groups);
	table_init(&entry->groups);
}

struct level_entry *level_entry_find(const struct level_book *book, const char *uid)
{
	list_for_each (item, &book->policies) {
		struct level_entry *entry = list_entry(item, struct level_entry, item);

		if (strcmp(entry->policy->uid, uid) == 0)
			return entry;
	}
	return NULL;
}

static struct level_entry *entry_of(struct level_book *book, const struct level_pod *pod)
{
	list_for_each (item, &book->policies) {
		struct level_entry *entry = list_entry(item, struct level_entry, item);

		if (selector_selects(&entry->policy->selector, pod->facts.labels))
			return entry;
	}
	return NULL;
}

/* false: a key is missing. */
static bool group_text(const struct level_policy *policy, const struct level_pod *pod, struct strbuf *text)
{
	for (size_t i = 0; i < policy->n_keys; i++) {
		size_t len = 0;
		const char *value = labels_find(pod->facts.labels, policy->keys[i], &len);

		if (!value)
			return false;
		strbuf_add(text, value, len);
		strbuf_add(text, "\n", 1);
	}
	return !text->failed;
}

static struct level_group *group_get_or_add(struct level_entry *entry, const char *text)
{
	struct level_group *group = table_get(&entry->groups, text);

	if (group)
		return group;
	group = calloc(1, sizeof(*group) + strlen(text) + 1);
	if (group)
		group->use = calloc(entry->policy->n_levels, sizeof(*group->use));
	if (!group || !group->use || table_set(&entry->groups, text, group) < 0) {
		if (group)
			free(group->use);
		free(group);
		return NULL;
	}
	strcpy(group->key, text);
	return group;
}

static struct level_group *group_of(struct level_entry *entry, const struct level_pod *pod)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, GROUP_TEXT_MAX);
	return group_text(entry->policy, pod, &text) ? group_get_or_add(entry, strbuf_cstr(&text)) : NULL;
}

bool level_pod_has_marks(const struct level_pod *pod, size_t at)
{
	const struct level *level = &pod->policy->levels[at];

	return level_pairs_hold(&level->pod_labels, pod->facts.labels) &&
	       level_pairs_hold(&level->pod_annotations, pod->facts.annotations);
}

static bool names(const struct label_pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (strcmp(pairs->list[i].key, key) == 0)
			return true;
	return false;
}

/* Of these pairs the pod has one that is not to be there. */
static bool has_other(const struct label_pairs *pairs, const struct label_pairs *wanted, const char *labels)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (!names(wanted, pairs->list[i].key) &&
			labels_have(labels, pairs->list[i].key, pairs->list[i].value))
			return true;
	return false;
}

bool level_pod_owes_marks(const struct level_pod *pod, size_t at)
{
	const struct level *levels = pod->policy->levels, *own = &levels[at];

	if (!level_pod_has_marks(pod, at))
		return true;
	for (size_t i = 0; i < pod->policy->n_levels; i++)
		if (i != at && (has_other(&levels[i].pod_labels, &own->pod_labels, pod->facts.labels) ||
				       has_other(&levels[i].pod_annotations, &own->pod_annotations,
					       pod->facts.annotations)))
			return true;
	return false;
}

static bool is_in(const struct level_pod *pod, const struct level_node *node, size_t at)
{
	return level_has_node(&pod->policy->levels[at], node->labels, node->is_virtual) &&
	       level_pod_has_marks(pod, at);
}

static int level_of_pod(const struct level_book *book, const struct level_pod *pod)
{
	const struct level_node *node;

	if (!*pod->facts.node)
		return pod->claim;
	node = table_get(&book->nodes->by_name, pod->facts.node);
	if (!node)
		return -1;
	if (pod->given >= 0 && pod->given < (int)pod->policy->n_levels &&
		is_in(pod, node, (size_t)pod->given))
		return pod->given;
	for (size_t i = 0; i < pod->policy->n_levels; i++)
		if (is_in(pod, node, i))
			return (int)i;
	return -1;
}

static bool counts_there(const struct level_pod *pod)
{
	const struct level_policy *policy = pod->policy;

	if (policy->ignores_terminating && pod->facts.terminating)
		return false;
	return !policy->ignores_previous || !*pod->facts.node || !pod->facts.scheduled ||
	       pod->facts.scheduled >= policy->created;
}

static void use_change(struct level_pod *pod, int sign)
{
	const struct level *level = &pod->policy->levels[pod->level];
	struct level_use *use = &pod->group->use[pod->level];

	use->terminating += (uint32_t)(pod->facts.terminating ? sign : 0);
	if (!pod->counts)
		return;
	use->pods += (uint32_t)sign;
	for (size_t i = 0; i < level->max_resources.n; i++)
		use->milli[i] += sign *
				 level_amount(&pod->facts.requests, level->max_resources.list[i].resource);
}

/* The group stays until level_group_drop_if_empty(): the pod may come back into it. */
void level_pod_take_out(struct level_pod *pod)
{
	if (!pod->group)
		return;
	if (pod->level >= 0)
		use_change(pod, -1);
	pod->group->members--;
	pod->group = NULL;
	pod->level = -1;
	pod->counts = false;
}

/* Groups come and go with every change of a Deployment's template. */
void level_group_drop_if_empty(
	struct level_book *book, const struct level_policy *policy, struct level_group *group)
{
	struct level_entry *entry = group && !group->members ? level_entry_find(book, policy->uid) : NULL;

	if (!entry)
		return;
	table_remove(&entry->groups, group->key);
	free(group->use);
	free(group);
}

/* With another policy, or another version of it. */
static void begin_anew(struct level_pod *pod)
{
	pod->wait_serial = pod->policy->serial;
	pod->wait = (struct level_wait){0};
	pod->given = -1;
}

void level_pod_put_in(struct level_book *book, struct level_pod *pod)
{
	struct level_entry *entry = entry_of(book, pod);

	pod->policy = entry ? entry->policy : NULL;
	pod->group = entry ? group_of(entry, pod) : NULL;
	pod->level = -1;
	pod->counts = false;
	if (!pod->policy)
		pod->claim = -1;
	else if (pod->wait_serial != pod->policy->serial)
		begin_anew(pod);
	if (!pod->group)
		return;
	pod->group->members++;
	if (pod->claim >= (int)pod->policy->n_levels)
		pod->claim = -1;
	pod->level = level_of_pod(book, pod);
	if (pod->level < 0)
		return;
	pod->counts = counts_there(pod);
	use_change(pod, 1);
}
