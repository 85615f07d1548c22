/* Requests for another size, and their orders to the caller. The texts of PATCHes belong to the caller. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/log/state-internal.h"
#include "core/resizing.h"

static void archive_answer(struct archive *archive, struct resize_answer *answer)
{
	bool has_text = answer->text;

	archive_bool(archive, "text", &has_text);
	archive_text(archive, "said", &answer->said);
	archive_bool(archive, "applied", &answer->applied);
	archive_bool(archive, "reserved", &answer->reserved);
	if (archive_reads(archive) && has_text && !(answer->text = strdup("")))
		archive_fail(archive, ENOMEM, "out of memory");
}

static void archive_resizing(struct archive *archive, struct resizing *resizing)
{
	const struct resize_answer *answer = &resizing->answer;
	struct archive_place place;

	archive_need_text(archive, "uid", &resizing->uid);
	archive_need_text(archive, "namespace", &resizing->namespace_);
	archive_need_text(archive, "name", &resizing->name);
	archive_need_text(archive, "node", &resizing->node);
	archive_enum(archive, "order", &resizing->order, RESIZE_REPORT + 1);
	archive_bool(archive, "busy", &resizing->busy);
	archive_bool(archive, "gone", &resizing->gone);
	archive_bool(archive, "another", &resizing->another);
	archive_text(archive, "seen", &resizing->seen);
	if (archive_enter(archive, "answer",
		    answer->text || answer->said || answer->applied || answer->reserved, &place)) {
		archive_answer(archive, &resizing->answer);
		archive_leave(archive, &place);
	}
	archive_bool(archive, "doubtful", &resizing->doubtful);
	archive_bool(archive, "unclear", &resizing->unclear);
	archive_text(archive, "request", &resizing->request);
	archive_text(archive, "refusal", &resizing->refusal);
	archive_bool(archive, "stopped", &resizing->stopped);
	archive_size(archive, "annotationsSize", &resizing->annotations_size, INT32_MAX);
	archive_int64(archive, "next", &resizing->next_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "backoff", &resizing->backoff_ns, 0, RESIZE_BACKOFF_MAX_NS);
}

/* The limit of a state that is read, because each resize is searched among all others. */
#define RESIZINGS_MAX 5000

static int check_resizing(const struct core *core, struct archive *archive, const struct resizing *resizing)
{
	const char *uid = resizing->uid;

	if (archive->failed)
		return archive->failed;
	if (core->resizings.n >= RESIZINGS_MAX)
		return archive_fail(archive, E2BIG, "more than %d requests for another size", RESIZINGS_MAX);
	if (resizings_find(&core->resizings, uid))
		return archive_fail(archive, EINVAL, "pod %s is there twice", uid);
	if (!resizing->backoff_ns)
		return archive_fail(archive, EINVAL, "pod %s has no back-off", uid);
	if ((resizing->stopped || resizing->answer.text) && !resizing->request)
		return archive_fail(archive, EINVAL, "pod %s has an answer to no request", uid);
	if (resizing->busy && resizing->order == RESIZE_SEND && !resizing->answer.text)
		return archive_fail(archive, EINVAL, "pod %s is sent no answer", uid);
	if (resizing->busy && (resizing->stopped || resizing->order == RESIZE_REPORT))
		return archive_fail(archive, EINVAL, "pod %s has stopped, and has not", uid);
	return 0;
}

void state_read_resizing(struct core *core, struct archive *archive)
{
	struct resizings *resizings = &core->resizings;
	struct resizing *resizing = calloc(1, sizeof(*resizing));

	if (!resizing) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	archive_resizing(archive, resizing);
	if (check_resizing(core, archive, resizing) < 0) {
		free(resizing->uid);
		free(resizing->namespace_);
		free(resizing->name);
		free(resizing->node);
		free(resizing->seen);
		free(resizing->request);
		free(resizing->refusal);
		resize_answer_release(&resizing->answer);
		free(resizing);
		return;
	}
	resizing->resizings = resizings;
	list_append(&resizings->all, &resizing->item);
	resizings->n += !resizing->stopped;
}

/* Read after all resizes. */
void state_read_resize_orders(struct core *core, struct archive *archive)
{
	struct archive_place place;
	size_t n = archive_list(archive, "of", 0, SIZE_MAX, &place);

	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *uid = archive_item_text(archive, i, NULL);
		struct resizing *resizing = uid ? resizings_find(&core->resizings, uid) : NULL;

		/* A report needs the API server's sentence. All other orders are allowed while they are not
		 * carried out. */
		if (resizing && !resizing->order_item.next &&
			(resizing->order == RESIZE_REPORT ? resizing->request && resizing->refusal
							  : resizing->busy))
			list_append(&core->resizings.orders, &resizing->order_item);
		else
			archive_fail(
				archive, EINVAL, "pod %s has no order, or is not there", uid ? uid : "?");
	}
	archive_list_end(archive, &place);
}

void state_write_resizings(struct core *core, struct state_writer *writer)
{
	const struct list *orders = &core->resizings.orders;
	struct archive *archive;
	struct archive_place place;
	size_t n = 0, i = 0;

	list_for_each (item, &core->resizings.all) {
		archive_resizing(state_begin(writer, "resizing"), list_entry(item, struct resizing, item));
		state_end(writer);
	}
	list_for_each (item, orders)
		n++;
	if (!n)
		return;
	archive = state_begin(writer, "resizeOrders");
	archive_list(archive, "of", n, SIZE_MAX, &place);
	list_for_each (item, orders)
		archive_item_text(archive, i++, list_entry(item, struct resizing, order_item)->uid);
	archive_list_end(archive, &place);
	state_end(writer);
}
