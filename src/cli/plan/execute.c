#include "cli/plan/execute.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
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
#include "cli/inspect.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "cli/options.h"
#include "cli/plan/plan.h"
#include "cli/pod.h"
#include "kube/eviction-object.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "plan/eviction.h"
#include "plan/relocate.h"

#define LOOK_US 500000
#define PLACE_SIZE 320
#define WORDS_MAX 240
#define ANSWER_MAX (1u << 20)

struct executor {
	const struct plan_input *input;
	const struct plan_options *options;
	const struct relocations *moves;
	struct execution *execution;
	size_t at; /* the move that is carried out */
	FILE *tell;
	int64_t begun_ns; /* of the move */
	/* Of the move: the pods that its controller had before, and which of move->runs are bound. */
	struct table known;
	bool *ran;
};

static volatile sig_atomic_t interrupted;

static void note_signal(int signo)
{
	interrupted = signo;
}

void execution_release(struct execution *execution)
{
	for (size_t i = 0; i < execution->n; i++)
		free(execution->moves[i].new_pod);
	free(execution->moves);
	*execution = (struct execution){0};
}

/* ---- what is told ---- */

static void show_place(const struct plan_input *input, const struct plan_outcome *place, char *ret_text)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, PLACE_SIZE - 1);
	if (!place->placement.n_containers) {
		snprintf(ret_text, PLACE_SIZE, "node %s without a GPU of ration", place->node);
		return;
	}
	strbuf_addf(&text, "node %s, GPU ", place->node);
	show_gpus(&input->world, place, &text);
	snprintf(ret_text, PLACE_SIZE, "%s", strbuf_cstr(&text));
}

__attribute__((format(printf, 2, 3))) static void tell(
	const struct executor *executor, const char *format, ...)
{
	va_list args;

	fprintf(executor->tell, "%zu of %zu: ", executor->at + 1, executor->moves->n);
	va_start(args, format);
	vfprintf(executor->tell, format, args);
	va_end(args);
	fputc('\n', executor->tell);
	fflush(executor->tell);
}

static const struct relocation *move_of(const struct executor *executor)
{
	return &executor->moves->list[executor->at];
}

static struct execution_move *state_of(const struct executor *executor)
{
	return &executor->execution->moves[executor->at];
}

/* ---- where a pod is ---- */

static struct plan_outcome place_of(const struct pod_facts *facts)
{
	return (struct plan_outcome){
		.placed = true, .node = facts->node, .placement = facts->placement}; /* borrowed */
}

static bool same_place(const struct plan_outcome *a, const struct plan_outcome *b)
{
	const struct gpu_share *x[NODE_GPUS_MAX], *y[NODE_GPUS_MAX];
	size_t n = placement_gpus(&a->placement, x), same = 0;

	if (strcmp(a->node, b->node) != 0 || placement_gpus(&b->placement, y) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			same += strcmp(x[i]->uuid, y[k]->uuid) == 0;
	return same == n;
}

/* Returns 1 if the pod is bound where the plan expects it, 0 if it is not bound. */
static int look_at(const struct executor *executor, struct json_object *pod,
	const struct plan_outcome *expected, struct error *err)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct plan_outcome place;
	char there[PLACE_SIZE], planned[PLACE_SIZE];
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(pod, &facts, err);
	if (r < 0 || !*facts.node)
		return r;
	place = place_of(&facts);
	if (facts.has_placement && same_place(&place, expected))
		return 1;
	show_place(executor->input, &place, there);
	show_place(executor->input, expected, planned);
	return error_set(err, ESTALE, "pod %s/%s is on %.150s, and not on %.150s as planned",
		facts.namespace_, facts.name, there, planned);
}

/* ---- the eviction ---- */

/* The pod must be as the plan knows it. */
static int check_pod(const struct executor *executor, struct error *err)
{
	const struct relocation *move = move_of(executor);
	_cleanup_json_ struct json_object *pod = NULL;
	struct json_object *metadata;
	int r = pod_fetch(&executor->options->kubectl, move->namespace_, move->name, &pod, err);

	if (r < 0)
		return r;
	metadata = json_member(pod, "metadata");
	if (strcmp(text_of(metadata, "uid"), text_of(json_member(move->pod, "metadata"), "uid")) != 0)
		return error_set(err, ESTALE, "pod %s/%s is another pod than when the plan was made",
			move->namespace_, move->name);
	if (json_member(metadata, "deletionTimestamp"))
		return error_set(err, ESTALE, "pod %s/%s is being deleted by someone else", move->namespace_,
			move->name);
	r = look_at(executor, pod, &move->from, err);
	return r == 1	? 0
	       : r == 0 ? error_set(err, ESTALE, "pod %s/%s is not bound", move->namespace_, move->name)
			: r;
}

/* words: of the API server; the first line counts. */
static int refused(const struct executor *executor, const char *words, struct error *err)
{
	const struct relocation *move = move_of(executor);
	size_t len = strcspn(words, "\n");

	if (strstr(words, "cannot create resource \"pods/eviction\""))
		return error_set(err, EACCES,
			"you may not evict pod %s in namespace %s: ask for the verb create on pods/eviction there",
			move->name, move->namespace_);
	if (len && words[len - 1] == '.')
		len--;
	return error_set(err, EBUSY, "the API server does not evict pod %s/%s: %.*s", move->namespace_,
		move->name, len < WORDS_MAX ? (int)len : WORDS_MAX, words);
}

static int evict(const struct executor *executor, struct error *err)
{
	const struct relocation *move = move_of(executor);
	_cleanup_json_ struct json_object *answer = NULL,
					  *object = eviction_object(move->namespace_, move->name,
						  text_of(json_member(move->pod, "metadata"), "uid"));
	_cleanup_strbuf_ struct strbuf out, complaints;
	struct error reason = {""};
	char path[640];
	int r;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	if (!object)
		return error_set(err, ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "--raw=/api/v1/namespaces/%s/pods/%s/eviction", move->namespace_,
		move->name);
	state_of(executor)->state = MOVE_UNKNOWN;
	r = kubectl_send(&executor->options->kubectl,
		(const char *const[]){"create", path, "--filename=-", NULL}, json_text(object), &out,
		&complaints, err);
	if (r < 0)
		return r;
	if (r == 0 && json_parse(strbuf_cstr(&out), out.len, &answer, &reason) == 0 &&
		eviction_is_refused(answer, &reason)) {
		state_of(executor)->state = MOVE_NOT_BEGUN;
		return refused(executor, reason.text, err);
	}
	if (r > 0) {
		/* Only an answer of the API server says that nothing has happened. */
		if (strstr(strbuf_cstr(&complaints), "Error from server ("))
			state_of(executor)->state = MOVE_NOT_BEGUN;
		return refused(
			executor, complaints.len ? strbuf_cstr(&complaints) : "kubectl gave no reason", err);
	}
	state_of(executor)->state = MOVE_EVICTED;
	return 0;
}

/* ---- what follows ---- */

/* The pods of the controller of the evicted pod. */
struct siblings {
	struct executor *executor;
	const char *controller; /* its uid */
	bool first;		/* before the eviction: all of them become known */
	int found;		/* 1: the new pod is where the plan expects it */
	struct error wrong;	/* the new pod is elsewhere; "": it is not */
};

static int on_sibling(void *userdata, struct json_object *pod, struct error *err)
{
	struct siblings *siblings = userdata;
	struct executor *executor = siblings->executor;
	struct json_object *metadata = json_member(pod, "metadata"), *controller = plan_controller(pod);
	const char *uid = text_of(metadata, "uid");
	int r;

	if (!controller || strcmp(text_of(controller, "uid"), siblings->controller) != 0)
		return 0;
	if (siblings->first)
		return table_set(&executor->known, uid, executor) < 0
			       ? error_set(err, ENOMEM, "out of memory")
			       : 0;
	if (table_get(&executor->known, uid) || json_member(metadata, "deletionTimestamp") || siblings->found)
		return 0;
	free(state_of(executor)->new_pod);
	state_of(executor)->new_pod = strdup(text_of(metadata, "name"));
	r = look_at(executor, pod, &move_of(executor)->to, &siblings->wrong);
	siblings->found = r == 1;
	return 0;
}

/* Returns 1 if the new pod is where the plan expects it, 0 if none is bound yet. */
static int look_at_siblings(struct executor *executor, bool first, struct error *err)
{
	const struct relocation *move = move_of(executor);
	struct siblings siblings = {.executor = executor,
		.controller = text_of(plan_controller(move->pod), "uid"),
		.first = first,
		.wrong = {""}};
	struct warnings left_out = {0};
	struct list_reader reader = {.kind = "PodList",
		.sign = siblings.controller,
		.read = on_sibling,
		.userdata = &siblings,
		.warnings = &left_out};
	char path[300];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", move->namespace_);
	r = list_read(&executor->options->kubectl, path, NULL, &reader, err);
	if (r < 0 || siblings.found)
		return r < 0 ? r : 1;
	return *siblings.wrong.text ? error_set(err, ESTALE, "%s", siblings.wrong.text) : 0;
}

/* Returns 1 if all pods that the move lets run are where the plan expects them. */
static int look_at_runs(struct executor *executor, struct error *err)
{
	const struct relocation *move = move_of(executor);
	bool all = true;

	for (size_t i = 0; i < move->runs.n; i++) {
		const struct plan_move *run = &move->runs.list[i];
		_cleanup_json_ struct json_object *pod = NULL;
		int r;

		if (executor->ran[i])
			continue;
		r = pod_fetch(&executor->options->kubectl, run->namespace_, run->name, &pod, err);
		if (r == 0)
			r = look_at(executor, pod, &run->outcome, err);
		if (r < 0)
			return r;
		all &= r == 1;
		if (r == 0)
			continue;
		executor->ran[i] = true;
		tell(executor, "%s/%s runs on node %s", run->namespace_, run->name, run->outcome.node);
	}
	return all;
}

/* The pod that is waited for is named. */
static int late(const struct executor *executor, bool found, struct error *err)
{
	const struct relocation *move = move_of(executor);
	const struct plan_outcome *expected = &move->to;
	const char *name = state_of(executor)->new_pod, *namespace_ = move->namespace_;
	char planned[PLACE_SIZE];

	for (size_t i = 0; found && i < move->runs.n; i++)
		if (!executor->ran[i]) {
			name = move->runs.list[i].name;
			namespace_ = move->runs.list[i].namespace_;
			expected = &move->runs.list[i].outcome;
			break;
		}
	if (!name)
		return error_set(err, ETIMEDOUT,
			"no new pod has followed pod %s/%s within %" PRIu32
			" s: `kubectl describe %s %s -n %s` may tell why",
			move->namespace_, move->name, executor->options->timeout_s,
			text_of(plan_controller(move->pod), "kind"),
			text_of(plan_controller(move->pod), "name"), move->namespace_);
	show_place(executor->input, expected, planned);
	return error_set(err, ETIMEDOUT,
		"pod %s/%s was not bound within %" PRIu32
		" s, and should be on %.120s: `ration why %s -n %s` tells what it waits for",
		namespace_, name, executor->options->timeout_s, planned, name, namespace_);
}

static int await(struct executor *executor, struct error *err)
{
	int64_t give_up_ns = executor->begun_ns + executor->options->timeout_s * NS_PER_S;
	bool found = false;

	while (!interrupted) {
		int r = found ? 1 : look_at_siblings(executor, false, err);

		if (r < 0)
			return r;
		if (r == 1 && !found)
			tell(executor, "%s/%s follows on node %s", move_of(executor)->namespace_,
				state_of(executor)->new_pod, move_of(executor)->to.node);
		found |= r == 1;
		r = look_at_runs(executor, err);
		if (r < 0 || (r == 1 && found))
			return r < 0 ? r : 0;
		if (monotonic_ns() >= give_up_ns)
			return late(executor, found, err);
		usleep(LOOK_US);
	}
	return -EINTR;
}

/* ---- one move, and all ---- */

static int carry_out(struct executor *executor, struct error *err)
{
	const struct relocation *move = move_of(executor);
	char from[PLACE_SIZE], to[PLACE_SIZE];
	int r = check_pod(executor, err);

	if (r == 0)
		r = look_at_siblings(executor, true, err);
	if (r < 0 || interrupted)
		return r < 0 ? r : -EINTR;
	show_place(executor->input, &move->from, from);
	show_place(executor->input, &move->to, to);
	tell(executor, "evicting %s/%s from %s; its new pod should be on %s", move->namespace_, move->name,
		from, to);
	executor->begun_ns = monotonic_ns();
	r = evict(executor, err);
	if (r == 0)
		r = await(executor, err);
	if (r == 0)
		state_of(executor)->state = MOVE_DONE;
	return r;
}

static int begin_move(struct executor *executor, struct error *err)
{
	int r;

	table_init(&executor->known);
	executor->ran = calloc(move_of(executor)->runs.n + 1, sizeof(*executor->ran));
	r = executor->ran ? carry_out(executor, err) : error_set(err, ENOMEM, "out of memory");
	table_release(&executor->known);
	free(executor->ran);
	return r;
}

/* Puts what has been done, and what to do, around the sentence. */
static int stop(const struct executor *executor, int r, struct error *err)
{
	static const char *const states[] = {[MOVE_NOT_BEGUN] = "was not evicted",
		[MOVE_UNKNOWN] = "may have been evicted",
		[MOVE_EVICTED] = "was evicted"};
	const struct relocation *move = move_of(executor);
	struct error what = *err;

	if (interrupted)
		error_set(&what, EINTR, "interrupted by signal %d", (int)interrupted);
	return error_set(err, -r,
		"%.320s. %zu of %zu moves are done, and pod %.63s %s; `ration plan moves` makes a new plan of what is left",
		what.text, executor->execution->done, executor->moves->n, move->name,
		states[state_of(executor)->state]);
}

static int execute_all(struct executor *executor, struct error *err)
{
	struct execution *execution = executor->execution;
	int r = 0;

	for (; r == 0 && executor->at < execution->n; executor->at += r == 0) {
		r = begin_move(executor, err);
		execution->done += r == 0;
	}
	return r < 0 ? stop(executor, r, err) : 0;
}

int plan_execute(const struct plan_input *input, const struct plan_options *options,
	const struct relocations *moves, struct execution *execution, struct error *err)
{
	/* A second signal ends the program. */
	struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND}, before[2];
	struct executor executor = {.input = input,
		.options = options,
		.moves = moves,
		.execution = execution,
		.tell = options->output == OUTPUT_JSON ? stderr : stdout};
	int r;

	execution->moves = calloc(moves->n + 1, sizeof(*execution->moves));
	if (!execution->moves)
		return error_set(err, ENOMEM, "out of memory");
	execution->n = moves->n;
	interrupted = 0;
	sigaction(SIGINT, &action, &before[0]);
	sigaction(SIGTERM, &action, &before[1]);
	r = execute_all(&executor, err);
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	return r;
}
