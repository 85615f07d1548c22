#include "core/log/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "core/core.h"
#include "core/log/state-internal.h"
#include "model/facts-archive.h"

/* The longest line is a node whose `held` has HELD_PODS_MAX pods. */
#define LINE_MAX_BYTES (16u << 20)

struct state_writer {
	struct archive archive;
	struct archive_place place;
	struct strbuf text;
	state_line_fn line;
	void *userdata;
	int failed;
};

struct archive *state_begin(struct state_writer *writer, const char *kind)
{
	strbuf_clear(&writer->text);
	archive_to_write(&writer->archive, writer->archive.format, &writer->text);
	archive_begin(&writer->archive);
	archive_enter(&writer->archive, kind, true, &writer->place);
	return &writer->archive;
}

void state_end(struct state_writer *writer)
{
	archive_leave(&writer->archive, &writer->place);
	archive_end(&writer->archive);
	if (!writer->failed)
		writer->failed = writer->archive.failed ? writer->archive.failed : writer->text.failed;
	if (!writer->failed)
		writer->failed = writer->line(writer->userdata, &writer->text);
}

/* ---- the core itself ---- */

static void archive_core(struct archive *archive, struct core *core)
{
	archive_bool(archive, "nodesListed", &core->nodes_listed);
	archive_bool(archive, "podsListed", &core->pods_listed);
	archive_bool(archive, "following", &core->following);
	archive_int64(archive, "heard", &core->heard_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "nodesTold", &core->ledger.nodes_told_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "gangsLook", &core->gangs_look_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "gangsLookedAt", &core->gangs_looked_at);
}

static void read_core(struct core *core, struct archive *archive)
{
	archive_core(archive, core);
}

static void write_numbers(struct state_writer *writer, const char *kind, const struct table *table)
{
	const char *uid;
	void *value;

	for (size_t cursor = 0; table_next(table, &cursor, &uid, &value);) {
		struct archive *archive = state_begin(writer, kind);
		uint64_t number = (uintptr_t)value;
		char *key = (char *)uid;

		/* An entry of a table from uids to numbers. */
		archive_text(archive, "uid", &key);
		/* All 64 bits: a verdict is a hash. */
		archive_int64(archive, "n", (int64_t *)&number, INT64_MIN, INT64_MAX);
		state_end(writer);
	}
}

static void read_number(struct table *table, struct archive *archive)
{
	int64_t number = 0;
	char *uid = NULL;

	archive_need_text(archive, "uid", &uid);
	archive_int64(archive, "n", &number, INT64_MIN, INT64_MAX);
	if (!archive->failed && table_set(table, uid, (void *)(uintptr_t)number) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
	free(uid);
}

static void read_forgotten(struct core *core, struct archive *archive)
{
	read_number(&core->forgotten, archive);
}

static void read_verdict(struct core *core, struct archive *archive)
{
	read_number(&core->verdicts, archive);
}

static void read_failed(struct core *core, struct archive *archive)
{
	struct pod_facts *facts = calloc(1, sizeof(*facts));

	if (!facts) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	archive_pod_facts(archive, facts);
	if (!archive->failed && (!facts->has_placement || table_get(&core->failed, facts->uid)))
		archive_fail(archive, EINVAL, "a failed pod without a placement, or one that is there twice");
	if (!archive->failed && table_set(&core->failed, facts->uid, facts) == 0)
		return;
	archive_fail(archive, ENOMEM, "out of memory");
	pod_facts_release(facts);
	free(facts);
}

static void write_core(struct core *core, struct state_writer *writer)
{
	struct pod_facts *facts;

	archive_core(state_begin(writer, "core"), core);
	state_end(writer);
	write_numbers(writer, "forgotten", &core->forgotten);
	write_numbers(writer, "verdict", &core->verdicts);
	table_for_each (&core->failed, cursor, facts) {
		archive_pod_facts(state_begin(writer, "failed"), facts);
		state_end(writer);
	}
}

/* ---- all ---- */

static const struct {
	const char *kind;
	void (*take)(struct core *core, struct archive *archive);
} kinds[] = {
	{"core", read_core},
	{"forgotten", read_forgotten},
	{"verdict", read_verdict},
	{"failed", read_failed},
	{"node", state_read_node},
	{"pod", state_read_pod},
	{"hostPod", state_read_host_pod},
	{"order", state_read_order},
	{"ledger", state_read_ledger},
	{"requeue", state_read_requeue},
	{"requeuePod", state_read_requeue_pod},
	{"policies", state_read_policies},
	{"policyNode", state_read_policy_node},
	{"policySpace", state_read_policy_space},
	{"policy", state_read_policy},
	{"policyPod", state_read_policy_pod},
	{"binds", state_read_binds},
	{"bind", state_read_bind},
	{"bindOrders", state_read_bind_orders},
	{"resizing", state_read_resizing},
	{"resizeOrders", state_read_resize_orders},
	{"ownership", state_read_ownership},
	{"leadership", state_read_leadership},
	{"budget", state_read_budget},
	{"eviction", state_read_eviction},
	{"evictions", state_read_evictions},
	{"gangNodes", state_read_gang_nodes},
	{"gang", state_read_gang},
	{"gangMember", state_read_gang_member},
	{"gangOrder", state_read_gang_order},
	{"gangs", state_read_gangs},
};

int core_write_state(
	struct core *core, const struct archive_format *format, state_line_fn line, void *userdata)
{
	struct state_writer writer = {.archive = {.format = format}, .line = line, .userdata = userdata};

	strbuf_init(&writer.text, LINE_MAX_BYTES);
	write_core(core, &writer);
	state_write_registry(core, &writer);
	state_write_requeue(core, &writer);
	state_write_policies(core, &writer);
	state_write_binds(core, &writer);
	state_write_resizings(core, &writer);
	state_write_leadership(core, &writer);
	state_write_evictions(core, &writer);
	state_write_gangs(core, &writer);
	strbuf_release(&writer.text);
	return writer.failed;
}

int core_read_state_line(
	struct core *core, const struct archive_format *format, void *parsed, struct error *err)
{
	struct archive archive;
	struct archive_place place;

	archive_to_read(&archive, format, parsed);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!archive_enter(&archive, kinds[i].kind, false, &place))
			continue;
		kinds[i].take(core, &archive);
		if (archive.failed)
			return error_set(err, -archive.failed, "%s: %s", kinds[i].kind, archive.error.text);
		return 0;
	}
	return error_set(err, EINVAL, "a line of a state that names nothing known");
}
