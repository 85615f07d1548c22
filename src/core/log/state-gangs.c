/* Gangs, their members, and the sets of nodes that kube-scheduler has offered them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "core/gang/gang-internal.h"
#include "core/log/state-internal.h"
#include "model/facts-archive.h"

/* ---- sets of nodes ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names are sorted: the order in which kube-scheduler named them decides nothing, and a log does not have
 * it. */
static void write_nodes(const struct gang_nodes *nodes, struct state_writer *writer)
{
	_cleanup_free_ const char **names = calloc(nodes->names.count + 1, sizeof(*names));
	struct archive *archive = state_begin(writer, "gangNodes");
	struct archive_place place;
	size_t cursor = 0, n = 0;

	if (!names)
		archive_fail(archive, ENOMEM, "out of memory");
	while (names && table_next(&nodes->names, &cursor, &names[n], NULL))
		n++;
	if (n)
		qsort(names, n, sizeof(*names), compare_names);
	archive_list(archive, "names", n, SIZE_MAX, &place);
	for (size_t i = 0; i < n; i++)
		archive_item_text(archive, i, names[i]);
	archive_list_end(archive, &place);
	state_end(writer);
}

void state_read_gang_nodes(struct core *core, struct archive *archive)
{
	struct gangs *gangs = &core->gangs;
	struct gang_nodes *nodes = gangs->n_node_sets < GANG_NODE_SETS_MAX ? calloc(1, sizeof(*nodes)) : NULL;
	struct archive_place place;
	size_t n;

	if (!nodes) {
		archive_fail(
			archive, E2BIG, "more than %d sets of nodes, or out of memory", GANG_NODE_SETS_MAX);
		return;
	}
	table_init(&nodes->names);
	list_append(&gangs->node_sets, &nodes->item);
	gangs->n_node_sets++;
	n = archive_list(archive, "names", 0, SIZE_MAX, &place);
	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *name = archive_item_text(archive, i, NULL);

		if (name && table_set(&nodes->names, name, nodes) < 0)
			archive_fail(archive, ENOMEM, "out of memory");
	}
	archive_list_end(archive, &place);
}

/* The set's place in the list, from 1; 0: no set. */
static size_t number_of_nodes(const struct gangs *gangs, const struct gang_nodes *nodes)
{
	size_t n = 0;

	list_for_each (item, &gangs->node_sets) {
		n++;
		if (list_entry(item, struct gang_nodes, item) == nodes)
			return n;
	}
	return 0;
}

static struct gang_nodes *nodes_of_number(const struct gangs *gangs, size_t number)
{
	list_for_each (item, &gangs->node_sets)
		if (--number == 0)
			return list_entry(item, struct gang_nodes, item);
	return NULL;
}

/* ---- gangs ---- */

static void archive_owners(struct archive *archive, struct gang *gang)
{
	struct table *owners = &gang->past.owners;
	struct archive_place place;
	size_t n = archive_list(archive, "owners", owners->count, SIZE_MAX, &place), cursor = 0;
	const char *uid = NULL;

	for (size_t i = 0; i < n && !archive->failed; i++) {
		if (!archive_reads(archive))
			table_next(owners, &cursor, &uid, NULL);
		uid = archive_item_text(archive, i, uid);
		if (archive_reads(archive) && uid && table_set(owners, uid, gang) < 0)
			archive_fail(archive, ENOMEM, "out of memory");
	}
	archive_list_end(archive, &place);
}

static void archive_gang(struct archive *archive, struct gang *gang)
{
	archive_bool(archive, "hasGroup", &gang->has_group);
	archive_uint32(archive, "min", &gang->group.min, UINT32_MAX);
	archive_int64(archive, "timeout", &gang->group.timeout_ns, 0, STATE_TIME_MAX);
	archive_owners(archive, gang);
	archive_int64(archive, "short", &gang->past.short_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "recall", &gang->past.recall_ns, 0, INT64_MAX);
	archive_bool(archive, "started", &gang->started);
	archive_int64(archive, "waiting", &gang->waiting_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "partly", &gang->partly_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "plan", &gang->plan_ns, 0, STATE_TIME_MAX);
	archive_uint32(archive, "failures", &gang->backoff.failures, UINT32_MAX);
	archive_int64(archive, "notBefore", &gang->backoff.not_before_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "noRoomAt", &gang->no_room.generation);
	archive_int64(archive, "noRoomUntil", &gang->no_room.until_ns, 0, INT64_MAX);
	archive_uint64(archive, "round", &gang->round);
	archive_uint64(archive, "hopelessCapacity", &gang->hopeless_capacity);
}

void state_read_gang(struct core *core, struct archive *archive)
{
	struct gang *gang = calloc(1, sizeof(*gang));

	if (!gang) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	list_init(&gang->members);
	list_init(&gang->past.done);
	table_init(&gang->past.owners);
	archive_need_text(archive, "key", &gang->key);
	if (gang->key && !strchr(gang->key, '/'))
		archive_fail(archive, EINVAL, "\"key\" is no namespace and name");
	if (!archive->failed && table_get(&core->gangs.by_key, gang->key))
		archive_fail(archive, EINVAL, "gang %s is there twice", gang->key);
	if (!archive->failed && table_set(&core->gangs.by_key, gang->key, gang) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
	if (!archive->failed) {
		archive_gang(archive, gang);
		return;
	}
	free(gang->key);
	free(gang);
}

/* ---- members ---- */

static void archive_member(struct archive *archive, struct gangs *gangs, struct gang_member *member)
{
	size_t nodes = member->nodes ? number_of_nodes(gangs, member->nodes) : 0;

	archive_enum(archive, "stage", &member->stage, GANG_DONE + 1);
	archive_bool(archive, "listed", &member->listed);
	archive_bool(archive, "recalled", &member->recalled);
	archive_bool(archive, "missed", &member->missed);
	archive_bool(archive, "labelsIfRefused", &member->labels_if_refused);
	archive_int64(archive, "asked", &member->asked_ns, 0, STATE_TIME_MAX);
	archive_enum(archive, "told", &member->told, GANG_NOT_NEEDED + 1);
	archive_size(archive, "nodes", &nodes, GANG_NODE_SETS_MAX);
	archive_int64(archive, "nodesValid", &member->nodes_valid_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "kept", &member->kept_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "ordered", &member->ordered_ns, 0, STATE_TIME_MAX);
	if (!archive_reads(archive) || !nodes)
		return;
	member->nodes = nodes_of_number(gangs, nodes);
	if (member->nodes)
		member->nodes->users++;
	else
		archive_fail(archive, EINVAL, "\"nodes\" is none of the sets of nodes");
}

void state_read_gang_member(struct core *core, struct archive *archive)
{
	struct gang_member *member = calloc(1, sizeof(*member));
	struct gangs *gangs = &core->gangs;
	struct archive_place place;
	char *key = NULL;

	if (!member) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	archive_need_text(archive, "gang", &key);
	if (archive_enter(archive, "facts", true, &place)) {
		archive_pod_facts(archive, &member->facts);
		archive_leave(archive, &place);
	}
	if (!archive->failed && !member->facts.uid)
		archive_fail(archive, EINVAL, "a member without \"facts\"");
	if (!archive->failed && !(member->gang = table_get(&gangs->by_key, key)))
		archive_fail(archive, EINVAL, "gang %s is not there", key);
	if (!archive->failed && table_get(&gangs->by_uid, member->facts.uid))
		archive_fail(archive, EINVAL, "member %s is there twice", member->facts.uid);
	if (!archive->failed && table_set(&gangs->by_uid, member->facts.uid, member) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
	free(key);
	if (archive->failed) {
		pod_facts_release(&member->facts);
		free(member);
		return;
	}
	/* The member is in a list from now on and is freed with its gang. */
	list_append(&member->gang->members, &member->item);
	archive_member(archive, gangs, member);
	if (member->stage != GANG_DONE)
		return;
	list_remove(&member->item);
	list_append(&member->gang->past.done, &member->item);
}

/* ---- the order of members, and all gangs together ---- */

static void read_members(
	struct core *core, struct archive *archive, const char *key, struct gang *gang, struct list *head)
{
	struct archive_place place;
	size_t n = archive_list(archive, key, 0, SIZE_MAX, &place);

	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *uid = archive_item_text(archive, i, NULL);
		struct gang_member *member = uid ? table_get(&core->gangs.by_uid, uid) : NULL;

		if (!member || member->gang != gang ||
			(member->stage == GANG_DONE) != (head == &gang->past.done)) {
			archive_fail(
				archive, EINVAL, "\"%s\" names a member that does not belong there", key);
			break;
		}
		list_remove(&member->item);
		list_append(head, &member->item);
	}
	archive_list_end(archive, &place);
}

void state_read_gang_order(struct core *core, struct archive *archive)
{
	struct gang *gang = NULL;
	char *key = NULL;

	archive_need_text(archive, "key", &key);
	if (key && !(gang = table_get(&core->gangs.by_key, key)))
		archive_fail(archive, EINVAL, "gang %s is not there", key);
	if (gang) {
		read_members(core, archive, "members", gang, &gang->members);
		read_members(core, archive, "done", gang, &gang->past.done);
	}
	free(key);
}

static void archive_gang_key(
	struct archive *archive, const char *key, struct gangs *gangs, struct gang **gang)
{
	char *text = *gang ? (*gang)->key : NULL;

	if (!archive_reads(archive)) {
		archive_text(archive, key, &text);
		return;
	}
	archive_text(archive, key, &text);
	if (text && !(*gang = table_get(&gangs->by_key, text)))
		archive_fail(archive, EINVAL, "gang %s is not there", text);
	free(text);
}

static void archive_gangs(struct archive *archive, struct gangs *gangs)
{
	archive_int64(archive, "keepAfter", &gangs->rules.keep_after_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "timeout", &gangs->rules.timeout_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "looked", &gangs->looked_ns, 0, STATE_TIME_MAX);
	archive_bool(archive, "groupsKnown", &gangs->groups_known);
	archive_bool(archive, "following", &gangs->following);
	archive_int64(archive, "fitCheck", &gangs->fit_check_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "round", &gangs->round);
	archive_gang_key(archive, "kept", gangs, &gangs->kept);
}

void state_read_gangs(struct core *core, struct archive *archive)
{
	core->gangs.groups_known = core->gangs.following = false; /* these are not written */
	archive_gangs(archive, &core->gangs);
}

static void write_order(const struct gang *gang, struct state_writer *writer)
{
	struct archive *archive = state_begin(writer, "gangOrder");
	const struct list *heads[] = {&gang->members, &gang->past.done};
	static const char *const keys[] = {"members", "done"};
	char *key = gang->key;

	archive_text(archive, "key", &key);
	for (int k = 0; k < 2; k++) {
		struct archive_place place;
		size_t n = 0, i = 0;

		list_for_each (item, heads[k])
			n++;
		archive_list(archive, keys[k], n, SIZE_MAX, &place);
		list_for_each (item, heads[k])
			archive_item_text(
				archive, i++, list_entry(item, struct gang_member, item)->facts.uid);
		archive_list_end(archive, &place);
	}
	state_end(writer);
}

void state_write_gangs(struct core *core, struct state_writer *writer)
{
	struct gangs *gangs = &core->gangs;
	struct gang_member *member;
	struct archive *archive;
	struct archive_place place;
	struct gang *gang;

	list_for_each (item, &gangs->node_sets)
		write_nodes(list_entry(item, struct gang_nodes, item), writer);
	table_for_each (&gangs->by_key, cursor, gang) {
		archive = state_begin(writer, "gang");
		archive_text(archive, "key", &gang->key);
		archive_gang(archive, gang);
		state_end(writer);
	}
	table_for_each (&gangs->by_uid, cursor, member) {
		archive = state_begin(writer, "gangMember");
		archive_text(archive, "gang", &member->gang->key);
		archive_enter(archive, "facts", true, &place);
		archive_pod_facts(archive, &member->facts);
		archive_leave(archive, &place);
		archive_member(archive, gangs, member);
		state_end(writer);
	}
	table_for_each (&gangs->by_key, cursor, gang)
		write_order(gang, writer);
	archive_gangs(state_begin(writer, "gangs"), gangs);
	state_end(writer);
}
