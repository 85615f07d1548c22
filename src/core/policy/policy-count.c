/* policy-count.c - puts pods into the groups of a ResourcePolicy, and counts them by unit. */
#include "base/cleanup.h"
#include "core/policy/policy-book-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define GROUP_TEXT_MAX 4096

void policy_groups_clear(struct policy_entry *entry)
{
	struct policy_group *group;

	table_for_each (&entry->groups, cursor, group) {
		free(group->use);
		free(group);
	}
	table_release(&entry->groups);
	table_init(&entry->groups);
}

struct policy_entry *policy_entry_find(const struct policy_book *book, const char *uid)
{
	list_for_each (item, &book->policies) {
		struct policy_entry *entry = list_entry(item, struct policy_entry, item);

		if (strcmp(entry->policy->uid, uid) == 0)
			return entry;
	}
	return NULL;
}

static struct policy_entry *entry_of(struct policy_book *book, const struct policy_pod *pod)
{
	list_for_each (item, &book->policies) {
		struct policy_entry *entry = list_entry(item, struct policy_entry, item);

		if (selector_selects(&entry->policy->selector, pod->facts.labels))
			return entry;
	}
	return NULL;
}

/* Returns false if a key is missing. */
static bool group_text(
	const struct resource_policy *policy, const struct policy_pod *pod, struct strbuf *text)
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

static struct policy_group *group_get_or_add(struct policy_entry *entry, const char *text)
{
	struct policy_group *group = table_get(&entry->groups, text);

	if (group)
		return group;
	group = calloc(1, sizeof(*group) + strlen(text) + 1);
	if (group)
		group->use = calloc(entry->policy->n_units, sizeof(*group->use));
	if (!group || !group->use || table_set(&entry->groups, text, group) < 0) {
		if (group)
			free(group->use);
		free(group);
		return NULL;
	}
	strcpy(group->key, text);
	return group;
}

static struct policy_group *group_of(struct policy_entry *entry, const struct policy_pod *pod)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, GROUP_TEXT_MAX);
	return group_text(entry->policy, pod, &text) ? group_get_or_add(entry, strbuf_cstr(&text)) : NULL;
}

static bool policy_pod_has_marks(const struct policy_pod *pod, size_t at)
{
	const struct policy_unit *unit = &pod->policy->units[at];

	return label_pairs_hold(&unit->pod_labels, pod->facts.labels) &&
	       label_pairs_hold(&unit->pod_annotations, pod->facts.annotations);
}

static bool names(const struct label_pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (strcmp(pairs->list[i].key, key) == 0)
			return true;
	return false;
}

/* True if the pod has one of these pairs, and `wanted` does not have it. */
static bool has_other(const struct label_pairs *pairs, const struct label_pairs *wanted, const char *labels)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (!names(wanted, pairs->list[i].key) &&
			labels_have(labels, pairs->list[i].key, pairs->list[i].value))
			return true;
	return false;
}

bool policy_pod_owes_marks(const struct policy_pod *pod, size_t at)
{
	const struct policy_unit *units = pod->policy->units, *own = &units[at];

	if (!policy_pod_has_marks(pod, at))
		return true;
	for (size_t i = 0; i < pod->policy->n_units; i++)
		if (i != at && (has_other(&units[i].pod_labels, &own->pod_labels, pod->facts.labels) ||
				       has_other(&units[i].pod_annotations, &own->pod_annotations,
					       pod->facts.annotations)))
			return true;
	return false;
}

static bool is_in(const struct policy_pod *pod, const struct policy_node *node, size_t at)
{
	return policy_unit_has_node(&pod->policy->units[at], node->labels, node->is_virtual) &&
	       policy_pod_has_marks(pod, at);
}

static int policy_of_pod(const struct policy_book *book, const struct policy_pod *pod)
{
	const struct policy_node *node;

	if (!*pod->facts.node)
		return pod->claim.unit;
	node = table_get(&book->nodes->by_name, pod->facts.node);
	if (!node)
		return -1;
	if (pod->claim.given >= 0 && pod->claim.given < (int)pod->policy->n_units &&
		is_in(pod, node, (size_t)pod->claim.given))
		return pod->claim.given;
	for (size_t i = 0; i < pod->policy->n_units; i++)
		if (is_in(pod, node, i))
			return (int)i;
	return -1;
}

static bool counts_there(const struct policy_pod *pod)
{
	const struct resource_policy *policy = pod->policy;

	if (policy->ignores_terminating && pod->facts.terminating)
		return false;
	return !policy->ignores_previous || !*pod->facts.node || !pod->facts.scheduled ||
	       pod->facts.scheduled >= policy->created;
}

static void use_change(struct policy_pod *pod, int sign)
{
	const struct policy_unit *unit = &pod->policy->units[pod->unit];
	struct policy_unit_usage *use = &pod->group->use[pod->unit];

	use->terminating += (uint32_t)(pod->facts.terminating ? sign : 0);
	if (!pod->counts)
		return;
	use->pods += (uint32_t)sign;
	for (size_t i = 0; i < unit->max_resources.n; i++)
		use->milli[i] += sign *
				 amounts_get(&pod->facts.requests, unit->max_resources.list[i].resource);
}

/* The group stays until policy_group_drop_if_empty(), because the pod may return into it. */
void policy_pod_take_out(struct policy_pod *pod)
{
	if (!pod->group)
		return;
	if (pod->unit >= 0)
		use_change(pod, -1);
	pod->group->members--;
	pod->group = NULL;
	pod->unit = -1;
	pod->counts = false;
}

/* Groups come and go with every change of a Deployment's template. */
void policy_group_drop_if_empty(
	struct policy_book *book, const struct resource_policy *policy, struct policy_group *group)
{
	struct policy_entry *entry = group && !group->members ? policy_entry_find(book, policy->uid) : NULL;

	if (!entry)
		return;
	table_remove(&entry->groups, group->key);
	free(group->use);
	free(group);
}

void policy_pod_put_in(struct policy_book *book, struct policy_pod *pod)
{
	struct policy_entry *entry = entry_of(book, pod);

	pod->policy = entry ? entry->policy : NULL;
	pod->group = entry ? group_of(entry, pod) : NULL;
	pod->unit = -1;
	pod->counts = false;
	if (!pod->policy)
		pod->claim.unit = -1;
	else if (pod->wait_serial != pod->policy->serial) {
		/* The pod has another policy, or another version of it. */
		pod->wait_serial = pod->policy->serial;
		pod->wait = (struct policy_wait){0};
		pod->claim.given = -1;
	}
	if (!pod->group)
		return;
	pod->group->members++;
	if (pod->claim.unit >= (int)pod->policy->n_units)
		pod->claim.unit = -1;
	pod->unit = policy_of_pod(book, pod);
	if (pod->unit < 0)
		return;
	pod->counts = counts_there(pod);
	use_change(pod, 1);
}

int policy_pod_put_back(struct policy_book *book, struct policy_pod *pod, bool selected, bool grouped)
{
	struct policy_entry *entry = selected ? entry_of(book, pod) : NULL;

	pod->policy = entry ? entry->policy : NULL;
	pod->group = NULL;
	if (!pod->policy != !selected || (grouped && !selected) || (pod->counts && pod->unit < 0) ||
		pod->unit >= (grouped ? (int)pod->policy->n_units : 0))
		return -EINVAL;
	if (!grouped)
		return 0;
	pod->group = group_of(entry, pod);
	if (!pod->group)
		return -EINVAL; /* usually a label is missing */
	pod->group->members++;
	if (pod->unit >= 0)
		use_change(pod, 1);
	return 0;
}
