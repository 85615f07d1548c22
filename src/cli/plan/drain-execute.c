/* ration plan drain --execute. */
#include "cli/plan/execute.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/plan/plan.h"
#include "cli/pod.h"
#include "kube/json.h"

#define ANSWER_MAX (1u << 20)
#define LOOK_US 500000

static bool is_evicted(enum plan_fate fate)
{
	return fate == PLAN_RUNS || fate == PLAN_WAITS || fate == PLAN_LOST || fate == PLAN_NO_GPU;
}

static const char *uid_of(struct json_object *pod)
{
	return json_text_of(json_member(pod, "metadata"), "uid");
}

/* ---- before the first eviction ---- */

static size_t count_fate(
	const struct plan_moves *moves, enum plan_fate fate, const struct plan_move **ret_first)
{
	size_t n = 0;

	for (size_t i = 0; i < moves->n; i++)
		if (moves->list[i].fate == fate && n++ == 0)
			*ret_first = &moves->list[i];
	return n;
}

static int refuse_losses(const struct plan_moves *moves, struct error *err)
{
	const struct plan_move *first = NULL;
	size_t n = count_fate(moves, PLAN_LOST, &first);

	if (!n)
		return 0;
	return error_set(err, EPERM,
		"nothing is done: %zu pod%s would be lost, the first is %.120s/%.120s, for which no controller makes a new pod; delete what is not needed, or add --force",
		n, plural((int64_t)n), first->namespace_, first->name);
}

static int cordon_node(const struct plan_options *options, const char *node, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out, complaints;
	int r;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	r = kubectl_run(
		&options->kubectl, (const char *const[]){"cordon", node, NULL}, &out, &complaints, err);
	if (r <= 0)
		return r;
	return error_set(err, EIO, "no pod is evicted, because kubectl cannot cordon node %.200s: %.200s",
		node, complaints.len ? strbuf_cstr(&complaints) : "it gave no reason");
}

/* The pods that are on the nodes now must be in the plan. */
static int on_present(void *userdata, struct json_object *pod, struct error *err)
{
	const struct table *planned = userdata; /* uids */
	struct json_object *metadata = json_member(pod, "metadata");

	if (table_get(planned, uid_of(pod)))
		return 0;
	return error_set(err, ESTALE,
		"pod %.120s/%.120s has come to node %.120s since the plan was made; no pod is evicted: run the command again",
		json_text_of(metadata, "namespace"), json_text_of(metadata, "name"),
		json_text_of(json_member(pod, "spec"), "nodeName"));
}

static int check_present(const struct plan_input *input, struct error *err)
{
	const struct plan_options *options = input->options;
	struct table planned;
	const struct list_reader reader = {
		.kind = "PodList", .sign = "metadata", .read = on_present, .userdata = &planned};
	char selector[340];
	int r = 0;

	table_init(&planned);
	for (size_t i = 0; r == 0 && i < input->n_pods; i++)
		r = table_set(&planned, uid_of(input->pods[i]), &planned);
	if (r < 0)
		error_set(err, ENOMEM, "out of memory");
	for (char **node = options->nodes; r == 0 && *node; node++) {
		snprintf(selector, sizeof(selector),
			"spec.nodeName=%s,status.phase!=Succeeded,status.phase!=Failed", *node);
		r = list_read(&options->kubectl, "/api/v1/pods", selector, &reader, err);
	}
	table_release(&planned);
	return r;
}

static int prepare(const struct plan_input *input, const struct plan_moves *moves, struct error *err)
{
	const struct plan_options *options = input->options;
	int r = options->force ? 0 : refuse_losses(moves, err);
	size_t cordoned = 0;

	for (char **node = options->nodes; r == 0 && *node; node++) {
		r = cordon_node(options, *node, err);
		cordoned += r == 0;
	}
	if (r == 0)
		r = check_present(input, err);
	if (r < 0 && cordoned)
		error_prefix(err, "%zu node%s cordoned", cordoned, cordoned == 1 ? " is" : "s are");
	return r;
}

/* ---- after the last one ---- */

/* Returns 1 if the pod no longer exists, else 0. */
static int has_gone(const struct plan_options *options, const struct plan_move *move, struct error *err)
{
	_cleanup_json_ struct json_object *pod = NULL;
	int r = pod_fetch(&options->kubectl, move->namespace_, move->name, &pod, err);

	if (r < 0)
		return r == -ENOENT ? 1 : r;
	return strcmp(uid_of(pod), uid_of(move->pod)) != 0;
}

static int await_end(const struct plan_options *options, const struct plan_move *move, int64_t give_up_ns,
	struct error *err)
{
	int r;

	while ((r = has_gone(options, move, err)) == 0) {
		if (monotonic_ns() >= give_up_ns)
			return error_set(err, ETIMEDOUT,
				"all pods are evicted, but pod %.120s/%.120s has not ended within %" PRIu32
				" s",
				move->namespace_, move->name, options->timeout_s);
		usleep(LOOK_US);
	}
	return r < 0 ? r : 0;
}

static int tell_who_stays(const struct plan_moves *moves, struct error *err)
{
	const struct plan_move *first = NULL;
	size_t n = count_fate(moves, PLAN_FORBIDDEN, &first);

	if (!n)
		return 0;
	return error_set(err, EBUSY,
		"the evictions of the plan are done, and %zu pod%s still there: pod %.100s/%.100s, because %.160s; the nodes stay cordoned: run the command again later",
		n, n == 1 ? " is" : "s are", first->namespace_, first->name, first->text);
}

int drain_execute(const struct plan_input *input, const struct plan_moves *moves, struct execution *execution,
	size_t **ret_at, struct error *err)
{
	const struct plan_options *options = input->options;
	static const struct execution_words words = {"evictions",
		"the nodes stay cordoned: run the command again to go on, or use `kubectl uncordon`"};
	_cleanup_free_ struct planned_eviction *steps = calloc(moves->n + 1, sizeof(*steps));
	size_t *at = calloc(moves->n + 1, sizeof(*at)), n = 0;
	int r = steps && at ? prepare(input, moves, err) : error_set(err, ENOMEM, "out of memory");
	int64_t give_up_ns;

	*ret_at = at;
	if (r < 0)
		return r;
	for (size_t i = 0; i < moves->n; i++) {
		const struct plan_move *move = &moves->list[i];

		if (!is_evicted(move->fate))
			continue;
		steps[n] = (struct planned_eviction){
			.pod = move->pod, .node = move->from, .fate = move->fate, .to = &move->outcome};
		at[n++] = i;
	}
	r = plan_execute(input, steps, n, &words, execution, err);
	give_up_ns = monotonic_ns() + options->timeout_s * NS_PER_S;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = await_end(options, &moves->list[at[i]], give_up_ns, err);
	/* Pods that were being deleted before are waited for, too. */
	for (size_t i = 0; r == 0 && i < moves->n; i++)
		if (json_member(json_member(moves->list[i].pod, "metadata"), "deletionTimestamp"))
			r = await_end(options, &moves->list[i], give_up_ns, err);
	return r < 0 ? r : tell_who_stays(moves, err);
}
