/* Binds, each with the list in which it is, and the orders to the caller. The open calls and the texts of
 * Bindings belong to the caller. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bind.h"
#include "core/core.h"
#include "core/log/state-internal.h"

/* The list that a bind is in, as a number in the archive. */
enum whereabouts {
	BIND_QUEUED,
	BIND_AWAITS_LIST,
	BIND_GATHERING,
	BIND_IN_FLIGHT,
	BIND_ENDED,
	BIND_DOUBTFUL,
	WHEREABOUTS_MAX
};

static struct list *list_of(struct binds *binds, enum whereabouts where)
{
	struct list *const lists[WHEREABOUTS_MAX] = {[BIND_QUEUED] = &binds->queued,
		[BIND_AWAITS_LIST] = &binds->awaiting_list,
		[BIND_GATHERING] = &binds->gathering,
		[BIND_IN_FLIGHT] = &binds->in_flight,
		[BIND_ENDED] = &binds->ended,
		[BIND_DOUBTFUL] = &binds->doubtful};

	return lists[where];
}

static void archive_bind(struct archive *archive, struct bind *bind)
{
	bool has_text = bind->text;

	archive_uint64(archive, "number", &bind->number);
	archive_need_text(archive, "uid", &bind->what.uid);
	archive_need_text(archive, "namespace", &bind->what.namespace_);
	archive_need_text(archive, "name", &bind->what.name);
	archive_need_text(archive, "node", &bind->what.node);
	archive_enum(archive, "order", &bind->order, BIND_ANSWER + 1);
	archive_int64(archive, "asked", &bind->asked_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "period", &bind->leadership_period, INT64_MIN, INT64_MAX);
	archive_int64(archive, "doubtEnds", &bind->doubt_ends_ns, 0, STATE_TIME_MAX);
	archive_bool(archive, "text", &has_text);
	archive_enum(archive, "outcome", &bind->outcome, BIND_RESULT_MAX);
	archive_chars(archive, "error", bind->error.text, sizeof(bind->error.text));
	if (archive_reads(archive) && has_text && !(bind->text = strdup("")))
		archive_fail(archive, ENOMEM, "out of memory");
}

static void write_bind(struct bind *bind, enum whereabouts where, struct state_writer *writer)
{
	struct archive *archive = state_begin(writer, "bind");

	archive_enum(archive, "where", &where, WHEREABOUTS_MAX);
	archive_bind(archive, bind);
	state_end(writer);
}

static bool is_consistent(const struct bind *bind, enum whereabouts where)
{
	switch (where) {
	case BIND_IN_FLIGHT:
		return bind->order != BIND_ANSWER && !bind->text == (bind->order != BIND_SEND);
	case BIND_ENDED:
		return bind->order == BIND_ANSWER && !bind->text;
	case BIND_DOUBTFUL:
		return bind->order == BIND_ANSWER && bind->outcome == BIND_IN_DOUBT && !bind->text;
	default:
		return bind->order != BIND_ANSWER && !bind->text;
	}
}

/* The limit of a state that is read, because each bind is searched among all others. */
#define BINDS_MAX 5000

static int check_bind(
	const struct core *core, struct archive *archive, const struct bind *bind, enum whereabouts where)
{
	unsigned long long number = bind->number;

	if (archive->failed)
		return archive->failed;
	if (!number)
		return archive_fail(archive, EINVAL, "a bind without \"number\"");
	if (core->binds.n_open + binds_doubtful(&core->binds) > BINDS_MAX)
		return archive_fail(archive, E2BIG, "more than %d binds", BINDS_MAX);
	if (number > core->binds.n_begun)
		return archive_fail(archive, EINVAL, "bind %llu came later than the last of all", number);
	if (binds_find(&core->binds, number))
		return archive_fail(archive, EINVAL, "bind %llu is there twice", number);
	if (!is_consistent(bind, where))
		return archive_fail(archive, EINVAL, "bind %llu cannot be where it is", number);
	return 0;
}

void state_read_bind(struct core *core, struct archive *archive)
{
	struct binds *binds = &core->binds;
	struct bind *bind = calloc(1, sizeof(*bind));
	enum whereabouts where = BIND_QUEUED;

	if (!bind) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	archive_enum(archive, "where", &where, WHEREABOUTS_MAX);
	archive_bind(archive, bind);
	if (check_bind(core, archive, bind, where) < 0) {
		bind_target_release(&bind->what);
		free(bind->text);
		free(bind);
		return;
	}
	list_append(list_of(binds, where), &bind->item);
	binds->n_in_flight += where == BIND_IN_FLIGHT;
	binds->n_open += where != BIND_DOUBTFUL;
}

void state_read_binds(struct core *core, struct archive *archive)
{
	archive_uint64(archive, "begun", &core->binds.n_begun);
}

/* ---- orders ---- */

static bool may_have_order(const struct bind *bind, struct binds *binds)
{
	list_for_each (item, &binds->in_flight)
		if (item == &bind->item)
			return true;
	list_for_each (item, &binds->ended)
		if (item == &bind->item)
			return true;
	return false;
}

void state_read_bind_orders(struct core *core, struct archive *archive)
{
	struct binds *binds = &core->binds;
	struct archive_place place;
	size_t n = archive_list(archive, "of", 0, SIZE_MAX, &place);

	for (size_t i = 0; i < n && !archive->failed; i++) {
		uint64_t number = 0;
		struct bind *bind;

		archive_item(archive, i);
		archive_uint64(archive, "bind", &number);
		bind = binds_find(binds, number);
		if (bind && !bind->order_item.next && may_have_order(bind, binds))
			list_append(&binds->orders, &bind->order_item);
		else
			archive_fail(archive, EINVAL, "bind %llu has no order, or is not there",
				(unsigned long long)number);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

void state_write_binds(struct core *core, struct state_writer *writer)
{
	struct binds *binds = &core->binds;
	struct archive *archive;
	struct archive_place place;
	size_t n = 0, i = 0;

	archive_uint64(state_begin(writer, "binds"), "begun", &binds->n_begun);
	state_end(writer);
	for (enum whereabouts where = 0; where < WHEREABOUTS_MAX; where++)
		list_for_each (item, list_of(binds, where))
			write_bind(list_entry(item, struct bind, item), where, writer);
	if (list_empty(&binds->orders))
		return;
	archive = state_begin(writer, "bindOrders");
	list_for_each (item, &binds->orders)
		n++;
	archive_list(archive, "of", n, SIZE_MAX, &place);
	list_for_each (item, &binds->orders) {
		archive_item(archive, i++);
		archive_uint64(archive, "bind", &list_entry(item, struct bind, order_item)->number);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
	state_end(writer);
}
