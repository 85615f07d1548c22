#include "core/log/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/bind.h"
#include "core/events.h"
#include "core/evicting.h"
#include "core/log/replay-internal.h"
#include "core/resizing.h"

/* ---- queries of the core ---- */

const struct core_output *replay_answer(
	const struct replay *replay, enum core_output_kind kind, uint64_t bind, const char *uid, bool yes)
{
	for (size_t i = 0; i < replay->n_answers; i++) {
		const struct core_output *answer = &replay->answers[i].answer;

		if (answer->kind == kind && answer->bind == bind && answer->yes == yes &&
			(!uid || (answer->uid && strcmp(answer->uid, uid) == 0)))
			return answer;
	}
	return NULL;
}

static bool caller_is_gone(void *userdata, const struct bind *bind)
{
	return replay_answer(userdata, TOLD_CALLER_GONE, bind->number, NULL, false);
}

static char *write_binding(void *userdata, const struct bind *bind, const struct pod_facts *facts,
	const struct placement *placement, bool forming, struct error *err)
{
	const struct core_output *answer = replay_answer(
		userdata, TOLD_NO_BINDING, bind->number, NULL, false);

	if (!answer)
		return strdup("");
	error_set(err, EINVAL, "%s", answer->text ? answer->text : "");
	return NULL;
}

/* Returns the errno that was recorded, with its sentence. Without a record, the request counts as unreadable.
 */
static int recorded_error(const struct core_output *answer, struct error *err)
{
	int64_t r = answer ? answer->number : -EINVAL;

	error_set(err, EINVAL, "%s", answer && answer->text ? answer->text : "it is not in the log");
	return r >= INT32_MIN && r <= 0 ? (int)r : -EINVAL;
}

static int parse_resize(
	void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err)
{
	const struct core_output *answer = replay_answer(userdata, TOLD_RESIZE, 0, facts->uid, false);

	if (!answer || !answer->placement)
		return recorded_error(answer, err);
	placement_release(target);
	return placement_copy(answer->placement, target);
}

static int write_patch(void *userdata, const struct pod_facts *facts, bool yes,
	struct resize_answer *ret_answer, struct error *err)
{
	const struct core_output *answer = replay_answer(userdata, TOLD_PATCH, 0, facts->uid, yes);

	if (!answer || answer->number)
		return recorded_error(answer, err);
	ret_answer->text = strdup("");
	ret_answer->said = answer->text ? strdup(answer->text) : NULL;
	return ret_answer->text && (ret_answer->said || !answer->text) ? 0 : -EAGAIN;
}

static int write_yes(void *userdata, void *shown, const struct pod_facts *facts,
	const struct placement *target, bool same, struct resize_answer *ret_answer, struct error *err)
{
	return write_patch(userdata, facts, true, ret_answer, err);
}

static int write_no(void *userdata, void *shown, const struct pod_facts *facts, const struct error *why,
	struct resize_answer *ret_answer)
{
	struct error err;

	return write_patch(userdata, facts, false, ret_answer, &err);
}

void replay_init(struct replay *replay)
{
	*replay = (struct replay){0};
	core_init(&replay->core, NULL);
	replay->core.binds.ops = (struct bind_ops){
		.write_binding = write_binding, .caller_is_gone = caller_is_gone, .userdata = replay};
	replay->core.resizings.ops = (struct resize_ops){
		.parse = parse_resize, .write_yes = write_yes, .write_no = write_no, .userdata = replay};
}

void replay_release(struct replay *replay)
{
	if (replay)
		core_release(&replay->core);
}

int replay_event(struct replay *replay, struct read_event *read, const struct read_answer *answers,
	size_t n_answers, struct error *err)
{
	const struct core_event *event = &read->event;
	struct core *core = &replay->core;
	struct gang_order *order;
	int r;

	if (!event_is_whole(event))
		return error_set(
			err, EINVAL, "an event %s that lacks something", core_event_kind_text(event->kind));
	replay->answers = answers;
	replay->n_answers = n_answers;
	r = event_apply(replay, read, err);
	while (core_next_bind_order(core) || core_next_resize_order(core) || core_next_eviction_order(core))
		;
	while ((order = core_next_gang_order(core)))
		gang_order_free(order);
	return r;
}
