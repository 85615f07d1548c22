#include "core/log/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log/state-internal.h"
#include "core/registry/reject-reason.h"
#include "model/facts-archive.h"

#define NAMES_MAX 65536 /* names of nodes in one line that is read */

/* ---- writing and reading by one function ---- */

/* Writes a text from where it is, or reads it into storage. */
static void member_text(struct archive *archive, const char *key, const char **text, char **storage)
{
	char *written = (char *)*text;

	archive_text(archive, key, archive_reads(archive) ? storage : &written);
	if (archive_reads(archive))
		*text = *storage;
}

static void member_names(
	struct archive *archive, const char *key, const char *const **names, size_t *n, char ***storage)
{
	struct archive_place place;
	size_t count = archive_list(archive, key, *n, NAMES_MAX, &place);

	if (archive_reads(archive) && count) {
		*storage = calloc(count, sizeof(**storage));
		if (!*storage) {
			archive_fail(archive, ENOMEM, "out of memory");
			count = 0;
		}
	}
	for (size_t i = 0; i < count; i++) {
		const char *name = archive_item_text(archive, i, archive_reads(archive) ? NULL : (*names)[i]);

		if (!archive_reads(archive))
			continue;
		(*storage)[i] = name ? strdup(name) : NULL;
		*n = i + 1;
		if (!(*storage)[i]) {
			archive_fail(archive, ENOMEM, "out of memory");
			break;
		}
	}
	archive_list_end(archive, &place);
	if (archive_reads(archive))
		*names = (const char *const *)*storage;
}

static void archive_group(struct archive *archive, struct gang_group *group)
{
	archive_uint32(archive, "min", &group->min, UINT32_MAX);
	archive_int64(archive, "timeout", &group->timeout_ns, 0, STATE_TIME_MAX);
}

static void archive_candidates(struct archive *archive, struct core_event *event, struct read_event *storage)
{
	struct archive_place place;
	size_t n = archive_list(archive, "candidates", event->n_candidates, NAMES_MAX, &place);

	if (archive_reads(archive) && n && !(storage->candidates = calloc(n, sizeof(*storage->candidates)))) {
		archive_fail(archive, ENOMEM, "out of memory");
		n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct preempt_node node = archive_reads(archive) ? (struct preempt_node){0}
								  : event->candidates[i];
		char *name = (char *)node.name, **uids = NULL;

		archive_item(archive, i);
		archive_need_text(archive, "node", &name);
		member_names(archive, "uids", &node.uids, &node.n_uids, &uids);
		archive_size(archive, "violations", &node.n_violations, INT32_MAX);
		archive_item_end(archive);
		node.name = name;
		if (archive_reads(archive)) {
			storage->candidates[i] = node;
			storage->n_candidates = i + 1;
		}
	}
	archive_list_end(archive, &place);
	if (archive_reads(archive)) {
		event->candidates = storage->candidates;
		event->n_candidates = storage->n_candidates;
	}
}

/* Writes a struct from *part, which is only read, or reads it into storage. */
#define archive_part(archive, key, part, storage, function)                                                  \
	do {                                                                                                 \
		struct archive_place place_;                                                                 \
		if (!archive_enter(archive, key, *(part), &place_))                                          \
			break;                                                                               \
		if (archive_reads(archive))                                                                  \
			*(part) = (storage);                                                                 \
		function(archive, (typeof(storage))*(part));                                                 \
		archive_leave(archive, &place_);                                                             \
	} while (0)

static void archive_event(struct archive *archive, struct core_event *event, struct read_event *storage)
{
	bool reads = archive_reads(archive);
	struct archive_place place;

	archive_int64(archive, "at", &event->now_ns, 0, STATE_TIME_MAX);
	member_text(archive, "name", &event->name, &storage->name);
	member_text(archive, "uid", &event->uid, &storage->uid);
	member_text(archive, "namespace", &event->namespace_, &storage->namespace_);
	member_text(archive, "text", &event->text, &storage->text);
	archive_bool(archive, "yes", &event->yes);
	archive_int(archive, "outcome", &event->outcome, 0, INT32_MAX);
	archive_int64(archive, "number", &event->number, INT64_MIN, INT64_MAX);
	archive_uint64(archive, "bind", &event->bind);
	archive_part(archive, "node", &event->node, &storage->node, archive_node_facts);
	archive_part(archive, "pod", &event->pod, &storage->pod, archive_pod_facts);
	archive_part(archive, "ownership", &event->ownership, &storage->ownership, state_archive_ownership);
	archive_part(archive, "group", &event->group, &storage->group, archive_group);
	if (archive_enter(archive, "policy", event->policy, &place)) {
		if (reads && !(storage->policy = resource_policy_new()))
			archive_fail(archive, ENOMEM, "out of memory");
		if (!reads || storage->policy)
			state_archive_policy(
				archive, reads ? storage->policy : (struct resource_policy *)event->policy);
		archive_leave(archive, &place);
		event->policy = reads ? storage->policy : event->policy;
	}
	archive_part(archive, "policyPod", &event->policy_pod, &storage->policy_pod,
		state_archive_policy_pod_facts);
	if (archive_enter(archive, "budget", event->budget, &place)) {
		if (reads && !(storage->budget = calloc(1, sizeof(*storage->budget))))
			archive_fail(archive, ENOMEM, "out of memory");
		if (!reads || storage->budget)
			state_archive_budget(
				archive, reads ? storage->budget : (struct budget *)event->budget);
		archive_leave(archive, &place);
		event->budget = reads ? storage->budget : event->budget;
	}
	archive_candidates(archive, event, storage);
}

/* ---- writing ---- */

void record_event(struct archive *archive, const struct core_event *event)
{
	struct core_event copy = *event;
	struct read_event unused = {0};
	char *kind = (char *)core_event_kind_text(event->kind);

	archive_text(archive, "event", &kind);
	archive_event(archive, &copy, &unused);
}

static void add_reasons(struct archive *archive, const uint32_t *reasons)
{
	struct archive_place place;
	char key[12];

	if (!reasons || !archive_enter(archive, "reasons", true, &place))
		return;
	for (int i = 0; i < REJECT_MAX; i++) {
		uint32_t nodes = reasons[i];

		snprintf(key, sizeof(key), "%d", i);
		archive_uint32(archive, key, &nodes, UINT32_MAX);
	}
	archive_leave(archive, &place);
}

static void add_scores(struct archive *archive, const struct core_output *output)
{
	struct archive_place place;

	archive_list(archive, "scores", output->n_names, SIZE_MAX, &place);
	for (size_t i = 0; i < output->n_names; i++) {
		char *name = (char *)output->names[i];
		int score = output->scores[i];

		archive_item(archive, i);
		archive_text(archive, "node", &name);
		archive_int(archive, "score", &score, 0, INT32_MAX);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

void record_output(struct archive *archive, const struct core_output *output)
{
	char *kind = (char *)core_output_kind_text(output->kind), *unused = NULL, **none = NULL;
	struct core_output copy = *output;
	struct archive_place place;

	archive_text(archive, output->kind < TOLD_MAX ? "told" : "gave", &kind);
	member_text(archive, "uid", &copy.uid, &unused);
	member_text(archive, "name", &copy.name, &unused);
	member_text(archive, "text", &copy.text, &unused);
	archive_bool(archive, "yes", &copy.yes);
	archive_int(archive, "outcome", &copy.outcome, 0, INT32_MAX);
	archive_int64(archive, "number", &copy.number, INT64_MIN, INT64_MAX);
	archive_uint64(archive, "bind", &copy.bind);
	if (archive_enter(archive, "placement", output->placement, &place)) {
		archive_placement(archive, (struct placement *)output->placement);
		archive_leave(archive, &place);
	}
	add_reasons(archive, output->reasons);
	if (output->scores)
		add_scores(archive, output);
	else
		member_names(archive, "names", &copy.names, &copy.n_names, &none);
}

/* ---- reading ---- */

/* The kind that the member `key` names. -1: the member is absent, or (a failure) it names no kind. */
static int read_kind(struct archive *archive, const char *key, const char *(*text_of)(int kind), int n)
{
	char *text = NULL;
	int kind = 0;

	archive_text(archive, key, &text);
	if (!text)
		return -1;
	while (kind < n && strcmp(text, text_of(kind)) != 0)
		kind++;
	if (kind == n)
		kind = -1;
	if (kind < 0)
		archive_fail(
			archive, EINVAL, "\"%s\" is \"%.40s\", which this version does not know", key, text);
	free(text);
	return kind;
}

static const char *event_text(int kind)
{
	return core_event_kind_text((enum core_event_kind)kind);
}

static const char *output_text(int kind)
{
	return core_output_kind_text((enum core_output_kind)kind);
}

bool read_event(struct archive *archive, struct read_event *ret_event)
{
	int kind = read_kind(archive, "event", event_text, CORE_KIND_MAX);

	*ret_event = (struct read_event){0};
	if (kind < 0)
		return archive->failed;
	ret_event->event.kind = (enum core_event_kind)kind;
	archive_event(archive, &ret_event->event, ret_event);
	return true;
}

bool read_answer(struct archive *archive, struct read_answer *ret_answer)
{
	int kind = read_kind(archive, "told", output_text, TOLD_MAX);
	struct core_output *answer = &ret_answer->answer;
	struct archive_place place;

	*ret_answer = (struct read_answer){0};
	if (kind < 0)
		return archive->failed;
	answer->kind = (enum core_output_kind)kind;
	member_text(archive, "uid", &answer->uid, &ret_answer->uid);
	member_text(archive, "text", &answer->text, &ret_answer->text);
	archive_bool(archive, "yes", &answer->yes);
	archive_int64(archive, "number", &answer->number, INT64_MIN, INT64_MAX);
	archive_uint64(archive, "bind", &answer->bind);
	if (archive_enter(archive, "placement", true, &place)) {
		archive_placement(archive, &ret_answer->placement);
		archive_leave(archive, &place);
		answer->placement = &ret_answer->placement;
	}
	member_names(archive, "names", &answer->names, &ret_answer->n_names, &ret_answer->names);
	answer->n_names = ret_answer->n_names;
	return true;
}

static void names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

void read_event_release(struct read_event *event)
{
	free(event->name);
	free(event->uid);
	free(event->namespace_);
	free(event->text);
	node_facts_release(&event->node);
	pod_facts_release(&event->pod);
	resource_policy_free(event->policy);
	policy_pod_facts_release(&event->policy_pod);
	budget_free(event->budget);
	for (size_t i = 0; i < event->n_candidates; i++) {
		free((char *)event->candidates[i].name);
		names_free((char **)event->candidates[i].uids, event->candidates[i].n_uids);
	}
	free(event->candidates);
	*event = (struct read_event){0};
}

void read_answer_release(struct read_answer *answer)
{
	free(answer->uid);
	free(answer->text);
	placement_release(&answer->placement);
	names_free(answer->names, answer->n_names);
	*answer = (struct read_answer){0};
}
