/* The owner of the ledger, and the nodes that were listed since the leader may have changed. */
#include <errno.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/log/state-internal.h"

void state_archive_ownership(struct archive *archive, struct ownership *ownership)
{
	archive_enum(archive, "owner", &ownership->owner, LEDGER_OWNER_OTHER + 1);
	archive_chars(archive, "holder", ownership->holder, sizeof(ownership->holder));
	archive_int64(archive, "validUntil", &ownership->valid_until_ns, 0, INT64_MAX);
	archive_chars(archive, "trouble", ownership->trouble, sizeof(ownership->trouble));
}

void state_read_ownership(struct core *core, struct archive *archive)
{
	core->ownership = (struct ownership){.owner = LEDGER_OWNER_UNKNOWN};
	state_archive_ownership(archive, &core->ownership);
}

static void archive_leadership(struct archive *archive, struct leadership *leadership)
{
	archive_int64(archive, "lastCall", &leadership->last_call_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "freshUntil", &leadership->fresh_until_ns, 0, STATE_TIME_MAX);
	archive_uint32(archive, "period", &leadership->period, UINT32_MAX);
}

/* A node, and when it was listed; 1 stands for a list that is under way. */
static void archive_listed(struct archive *archive, char **name, int64_t *listed)
{
	archive_need_text(archive, "name", name);
	archive_int64(archive, "listed", listed, 1, STATE_TIME_MAX);
}

void state_read_leadership(struct core *core, struct archive *archive)
{
	struct archive_place place;
	size_t n;

	archive_leadership(archive, &core->leadership);
	n = archive_list(archive, "nodes", 0, SIZE_MAX, &place);
	for (size_t i = 0; i < n && !archive->failed; i++) {
		int64_t listed = 0;
		char *name = NULL;

		archive_item(archive, i);
		archive_listed(archive, &name, &listed);
		if (!archive->failed && !listed)
			archive_fail(archive, EINVAL, "node %s was not listed", name);
		if (!archive->failed && table_get(&core->leadership.nodes, name))
			archive_fail(archive, EINVAL, "node %s is there twice", name);
		if (!archive->failed &&
			table_set(&core->leadership.nodes, name, (void *)(intptr_t)listed) < 0)
			archive_fail(archive, ENOMEM, "out of memory");
		free(name);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

void state_write_leadership(struct core *core, struct state_writer *writer)
{
	const struct table *nodes = &core->leadership.nodes;
	struct archive *archive = state_begin(writer, "ownership");
	struct archive_place place;
	const char *name;
	size_t i = 0;
	void *value;

	state_archive_ownership(archive, &core->ownership);
	state_end(writer);
	archive = state_begin(writer, "leadership");
	archive_leadership(archive, &core->leadership);
	archive_list(archive, "nodes", nodes->count, SIZE_MAX, &place);
	for (size_t cursor = 0; table_next(nodes, &cursor, &name, &value);) {
		int64_t listed = (intptr_t)value;
		char *key = (char *)name;

		archive_item(archive, i++);
		archive_listed(archive, &key, &listed);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
	state_end(writer);
}
