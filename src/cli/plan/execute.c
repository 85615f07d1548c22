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
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "cli/options.h"
#include "cli/plan/hold-gpus.h"
#include "cli/plan/plan.h"
#include "cli/pod.h"
#include "kube/eviction-object.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "plan/eviction.h"

#define LOOK_US 500000
#define WORDS_MAX 240
#define ANSWER_MAX (1u << 20)
#define PLACE_SIZE 320

struct executor {
	const struct plan_input *input;
	const struct plan_options *options;
	const struct planned_eviction *steps;
	const struct execution_words *words;
	struct execution *execution;
	size_t at; /* the step that is carried out */
	FILE *tell;
	int64_t begun_ns; /* of the step */
	/* For the step: the pods that its controller had before, which of step->runs are bound, and the GPUs
	 * that are cordoned. */
	struct table known;
	bool *ran;
	struct held_gpus held;
};

static volatile sig_atomic_t interrupted;

static void note_signal(int signo)
{
	interrupted = signo;
}

void execution_release(struct execution *execution)
{
	for (size_t i = 0; i < execution->n; i++)
		free(execution->steps[i].new_pod);
	free(execution->steps);
	*execution = (struct execution){0};
}

int execution_set_json(const struct execution *execution, const char *stopped, struct json_object *root,
	struct json_object *list, const size_t *at)
{
	static const char *const states[] = {[STEP_NOT_BEGUN] = "not begun",
		[STEP_UNKNOWN] = "unknown",
		[STEP_EVICTED] = "evicted",
		[STEP_DONE] = "done"};
	int r = json_set_number(root, "done", execution->done);

	if (r == 0 && stopped)
		r = json_set_text(root, "stopped", stopped);
	for (size_t i = 0; r == 0 && i < execution->n; i++) {
		const struct execution_step *step = &execution->steps[i];
		struct json_object *item = json_item(list, at ? at[i] : i);

		r = json_set_text(item, "state", states[step->state]);
		if (r == 0 && step->new_pod)
			r = json_set_text(item, "newPod", step->new_pod);
	}
	return r;
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

	fprintf(executor->tell, "%zu of %zu: ", executor->at + 1, executor->execution->n);
	va_start(args, format);
	vfprintf(executor->tell, format, args);
	va_end(args);
	fputc('\n', executor->tell);
	fflush(executor->tell);
}

static const struct planned_eviction *step_of(const struct executor *executor)
{
	return &executor->steps[executor->at];
}

static struct execution_step *state_of(const struct executor *executor)
{
	return &executor->execution->steps[executor->at];
}

static const char *namespace_of(const struct executor *executor)
{
	return json_text_of(json_member(step_of(executor)->pod, "metadata"), "namespace");
}

static const char *name_of(const struct executor *executor)
{
	return json_text_of(json_member(step_of(executor)->pod, "metadata"), "name");
}

/* ---- where a pod is ---- */

/* Returns 1 if the pod is bound where the plan expects it, 0 if it is not bound. expected NULL: nowhere. */
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
	place = (struct plan_outcome){.placed = true, .node = facts.node, .placement = facts.placement};
	if (expected && facts.has_placement && plan_same_place(&place, expected))
		return 1;
	show_place(executor->input, &place, there);
	if (!expected)
		return error_set(err, ESTALE, "pod %s/%s is on %.150s, and does not wait as planned",
			facts.namespace_, facts.name, there);
	show_place(executor->input, expected, planned);
	return error_set(err, ESTALE, "pod %s/%s is on %.150s, and not on %.150s as planned",
		facts.namespace_, facts.name, there, planned);
}

/* ---- before the eviction ---- */

/* The pod must be as the plan knows it. */
static int check_pod(const struct executor *executor, struct error *err)
{
	const struct planned_eviction *step = step_of(executor);
	const char *namespace_ = namespace_of(executor), *name = name_of(executor);
	_cleanup_json_ struct json_object *pod = NULL;
	struct json_object *metadata;
	int r = pod_fetch(&executor->options->kubectl, namespace_, name, &pod, err);

	if (r < 0)
		return r;
	metadata = json_member(pod, "metadata");
	if (strcmp(json_text_of(metadata, "uid"), json_text_of(json_member(step->pod, "metadata"), "uid")) !=
		0)
		return error_set(err, ESTALE, "pod %s/%s is another pod than when the plan was made",
			namespace_, name);
	if (json_member(metadata, "deletionTimestamp"))
		return error_set(err, ESTALE, "pod %s/%s is being deleted by someone else", namespace_, name);
	if (!step->from) /* the same pod never changes its node */
		return 0;
	r = look_at(executor, pod, step->from, err);
	return r == 1 ? 0 : r == 0 ? error_set(err, ESTALE, "pod %s/%s is not bound", namespace_, name) : r;
}

static int hold(struct executor *executor, struct error *err)
{
	const struct planned_eviction *step = step_of(executor);
	char reason[GPU_REASON_SIZE];

	snprintf(reason, sizeof(reason), "ration plan moves pod %.50s/%.60s", namespace_of(executor),
		name_of(executor));
	return hold_gpus(&executor->options->kubectl, step->from, reason, &interrupted, &executor->held, err);
}

static void tell_eviction(const struct executor *executor)
{
	const struct planned_eviction *step = step_of(executor);
	char from[PLACE_SIZE], to[PLACE_SIZE], then[PLACE_SIZE + 40];

	snprintf(from, sizeof(from), "node %s", step->node);
	if (step->from)
		show_place(executor->input, step->from, from);
	if (step->fate == PLAN_RUNS) {
		show_place(executor->input, step->to, to);
		snprintf(then, sizeof(then), "its new pod should be on %s", to);
	} else {
		snprintf(then, sizeof(then), "%s",
			step->fate == PLAN_WAITS  ? "its new pod should wait"
			: step->fate == PLAN_LOST ? "no controller makes it again"
						  : "kube-scheduler alone places its new pod");
	}
	tell(executor, "evicting %s/%s from %s; %s", namespace_of(executor), name_of(executor), from, then);
}

/* words: the API server's error; its first line is shown. */
static int refused(
	const char *namespace_, const char *name, bool is_known, const char *words, struct error *err)
{
	size_t len = strcspn(words, "\n");

	if (strstr(words, "cannot create resource \"pods/eviction\""))
		return error_set(err, EACCES,
			"you may not evict pod %s in namespace %s: ask for the verb create on pods/eviction there",
			name, namespace_);
	if (len && words[len - 1] == '.')
		len--;
	return error_set(err, EBUSY, "%s pod %s/%s: %.*s",
		is_known ? "the API server does not evict" : "kubectl failed to evict", namespace_, name,
		len < WORDS_MAX ? (int)len : WORDS_MAX, words);
}

/* Whether the error shows that the pod was not evicted. An answer of the API server does, except those after
 * which it may still carry the request out. */
static bool says_that_nothing_happened(const char *complaint)
{
	return strstr(complaint, "Error from server (") && !strstr(complaint, "Timeout)") &&
	       !strstr(complaint, "(InternalError)") && !strstr(complaint, "(Unknown)");
}

/* Evicts the pod through the user's kubectl. The uid makes sure that no other pod of the same name is
 * evicted. */
static int evict(const struct executor *executor, struct error *err)
{
	struct json_object *metadata = json_member(step_of(executor)->pod, "metadata");
	const char *namespace_ = json_text_of(metadata, "namespace"), *name = json_text_of(metadata, "name");
	_cleanup_json_ struct json_object *answer = NULL, *object = eviction_object(namespace_, name,
								  json_text_of(metadata, "uid"));
	_cleanup_strbuf_ struct strbuf out, complaints;
	struct error reason = {""};
	enum step_state *state = &state_of(executor)->state;
	char path[640];
	int r;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	if (!object)
		return error_set(err, ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "--raw=/api/v1/namespaces/%s/pods/%s/eviction", namespace_, name);
	*state = STEP_UNKNOWN;
	r = kubectl_send(&executor->options->kubectl,
		(const char *const[]){"create", path, "--filename=-", NULL}, json_text(object), &out,
		&complaints, err);
	if (r < 0)
		return r;
	if (r == 0 && json_parse(strbuf_cstr(&out), out.len, &answer, &reason) == 0 &&
		eviction_is_refused(answer, &reason)) {
		*state = STEP_NOT_BEGUN;
		return refused(namespace_, name, true, reason.text, err);
	}
	if (r > 0) {
		if (says_that_nothing_happened(strbuf_cstr(&complaints)))
			*state = STEP_NOT_BEGUN;
		return refused(namespace_, name, *state == STEP_NOT_BEGUN,
			complaints.len ? strbuf_cstr(&complaints) : "kubectl gave no reason", err);
	}
	*state = STEP_EVICTED;
	return 0;
}

/* ---- what follows ---- */

/* The pods of the controller of the evicted pod. */
struct siblings {
	struct executor *executor;
	const char *controller; /* its uid */
	bool first;		/* before the eviction: all of them become known */
	int found;		/* 1: the new pod is as the plan expects it */
	struct error wrong;	/* the new pod is elsewhere; "": it is not */
};

static bool is_unschedulable(struct json_object *pod)
{
	struct json_object *conditions = json_member(json_member(pod, "status"), "conditions");

	return json_member_is(json_find(conditions, "type", "PodScheduled"), "reason", "Unschedulable");
}

static int on_sibling(void *userdata, struct json_object *pod, struct error *err)
{
	struct siblings *siblings = userdata;
	struct executor *executor = siblings->executor;
	struct json_object *metadata = json_member(pod, "metadata"), *controller = plan_controller(pod);
	const struct planned_eviction *step = step_of(executor);
	const char *uid = json_text_of(metadata, "uid");
	int r;

	if (!controller || strcmp(json_text_of(controller, "uid"), siblings->controller) != 0)
		return 0;
	if (siblings->first)
		return table_set(&executor->known, uid, executor) < 0
			       ? error_set(err, ENOMEM, "out of memory")
			       : 0;
	if (table_get(&executor->known, uid) || json_member(metadata, "deletionTimestamp") || siblings->found)
		return 0;
	free(state_of(executor)->new_pod);
	state_of(executor)->new_pod = strdup(json_text_of(metadata, "name"));
	if (!state_of(executor)->new_pod)
		return error_set(err, ENOMEM, "out of memory");
	r = look_at(executor, pod, step->fate == PLAN_RUNS ? step->to : NULL, &siblings->wrong);
	siblings->found = r == 1 || (r == 0 && step->fate == PLAN_WAITS && is_unschedulable(pod));
	return 0;
}

/* Returns 1 if the new pod is as the plan expects it, 0 if that is not so yet. */
static int look_at_siblings(struct executor *executor, bool first, struct error *err)
{
	struct siblings siblings = {.executor = executor,
		.controller = json_text_of(plan_controller(step_of(executor)->pod), "uid"),
		.first = first,
		.wrong = {""}};
	const struct list_reader reader = {
		.kind = "PodList", .sign = siblings.controller, .read = on_sibling, .userdata = &siblings};
	char path[300];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", namespace_of(executor));
	r = list_read(&executor->options->kubectl, path, NULL, &reader, err);
	if (r < 0 || siblings.found)
		return r < 0 ? r : 1;
	return *siblings.wrong.text ? error_set(err, ESTALE, "%s", siblings.wrong.text) : 0;
}

/* Returns 1 if all pods that the step lets run are where the plan expects them. */
static int look_at_runs(struct executor *executor, struct error *err)
{
	const struct planned_eviction *step = step_of(executor);
	bool all = true;

	for (size_t i = 0; i < step->n_runs; i++) {
		const struct plan_move *run = &step->runs[i];
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

/* The sentence for a wait that took too long: it names the pod that was waited for. */
static int late(const struct executor *executor, bool found, struct error *err)
{
	const struct planned_eviction *step = step_of(executor);
	struct json_object *controller = plan_controller(step->pod);
	const struct plan_outcome *expected = step->to;
	const char *name = state_of(executor)->new_pod, *namespace_ = namespace_of(executor);
	uint32_t timeout_s = executor->options->timeout_s;
	char planned[PLACE_SIZE];

	for (size_t i = 0; found && i < step->n_runs; i++)
		if (!executor->ran[i]) {
			name = step->runs[i].name;
			namespace_ = step->runs[i].namespace_;
			expected = &step->runs[i].outcome;
			break;
		}
	if (!name)
		return error_set(err, ETIMEDOUT,
			"no new pod has followed pod %s/%s within %" PRIu32
			" s: `kubectl describe %s %s -n %s` may tell why",
			namespace_, name_of(executor), timeout_s, json_text_of(controller, "kind"),
			json_text_of(controller, "name"), namespace_);
	if (!found && step->fate == PLAN_WAITS)
		return error_set(err, ETIMEDOUT,
			"kube-scheduler has not tried pod %s/%s within %" PRIu32 " s", namespace_, name,
			timeout_s);
	show_place(executor->input, expected, planned);
	return error_set(err, ETIMEDOUT,
		"pod %s/%s was not bound within %" PRIu32
		" s, and should be on %.120s: `ration why %s -n %s` tells what it waits for",
		namespace_, name, timeout_s, planned, name, namespace_);
}

/* Waits for the new pod (runs false), or for the pods that the step lets run. */
static int await(struct executor *executor, bool runs, struct error *err)
{
	int64_t give_up_ns = executor->begun_ns + executor->options->timeout_s * NS_PER_S;

	while (!interrupted) {
		int r = runs ? look_at_runs(executor, err) : look_at_siblings(executor, false, err);

		if (r != 0)
			return r < 0 ? r : 0;
		if (monotonic_ns() >= give_up_ns)
			return late(executor, runs, err);
		usleep(LOOK_US);
	}
	return -EINTR;
}

static int await_new_pod(struct executor *executor, struct error *err)
{
	const struct planned_eviction *step = step_of(executor);
	int r;

	if (step->fate != PLAN_RUNS && step->fate != PLAN_WAITS)
		return 0;
	r = await(executor, false, err);
	if (r < 0)
		return r;
	if (step->fate == PLAN_RUNS)
		tell(executor, "%s/%s follows on node %s", namespace_of(executor),
			state_of(executor)->new_pod, step->to->node);
	else
		tell(executor, "%s/%s follows and waits", namespace_of(executor),
			state_of(executor)->new_pod);
	return 0;
}

/* ---- one step, and all ---- */

static int carry_out(struct executor *executor, struct error *err)
{
	struct error problem = {""}; /* do_step() tries again, and says what stays cordoned */
	int r = check_pod(executor, err);

	if (r == 0 && plan_controller(step_of(executor)->pod))
		r = look_at_siblings(executor, true, err);
	if (r < 0 || interrupted)
		return r < 0 ? r : -EINTR;
	tell_eviction(executor);
	if (step_of(executor)->holds)
		r = hold(executor, err);
	if (r < 0 || interrupted)
		return r < 0 ? r : -EINTR;
	executor->begun_ns = monotonic_ns();
	r = evict(executor, err);
	if (r == 0)
		r = await_new_pod(executor, err);
	if (r == 0)
		r = release_gpus(&executor->options->kubectl, &interrupted, &executor->held, &problem);
	if (r < 0 && executor->held.n && *problem.text)
		r = error_set(err, EIO, "the GPUs that the pod had could not be uncordoned at once");
	else if (r < 0 && *problem.text)
		r = error_set(err, -r,
			"the GPUs that the pod had are uncordoned, but node %.100s does not show it: %.120s",
			step_of(executor)->node, problem.text);
	if (r == 0)
		r = await(executor, true, err);
	if (r == 0)
		state_of(executor)->state = STEP_DONE;
	return r;
}

/* Puts what has been done, and what to do, around the sentence. cordoned: "", or which GPU stays cordoned. */
static int stop(const struct executor *executor, int r, const char *cordoned, struct error *err)
{
	static const char *const states[] = {[STEP_NOT_BEGUN] = "was not evicted",
		[STEP_UNKNOWN] = "may have been evicted",
		[STEP_EVICTED] = "was evicted"};
	struct error what = *err;

	if (interrupted)
		error_set(&what, EINTR, "interrupted by signal %d", (int)interrupted);
	return error_set(err, -r, "%.280s. %.150s%s%zu of %zu %s are done, and pod %.63s %s; %s", what.text,
		cordoned, *cordoned ? ". " : "", executor->execution->done, executor->execution->n,
		executor->words->steps, name_of(executor), states[state_of(executor)->state],
		executor->words->advice);
}

static int do_step(struct executor *executor, struct error *err)
{
	struct error cordoned = {""};
	int r;

	table_init(&executor->known);
	executor->ran = calloc(step_of(executor)->n_runs + 1, sizeof(*executor->ran));
	r = executor->ran ? carry_out(executor, err) : error_set(err, ENOMEM, "out of memory");
	release_gpus(&executor->options->kubectl, NULL, &executor->held, &cordoned);
	held_gpus_release(&executor->held);
	table_release(&executor->known);
	free(executor->ran);
	return r < 0 ? stop(executor, r, cordoned.text, err) : 0;
}

int plan_execute(const struct plan_input *input, const struct planned_eviction *steps, size_t n,
	const struct execution_words *words, struct execution *execution, struct error *err)
{
	/* A lost terminal or a closed pipe must not leave GPUs cordoned, either. */
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	struct sigaction action = {.sa_handler = note_signal}, before[ARRAY_SIZE(signals)];
	struct executor executor = {.input = input,
		.options = input->options,
		.steps = steps,
		.words = words,
		.execution = execution,
		.tell = input->options->output == OUTPUT_JSON ? stderr : stdout};
	int r = 0;

	execution->steps = calloc(n + 1, sizeof(*execution->steps));
	if (!execution->steps)
		return error_set(err, ENOMEM, "out of memory");
	execution->n = n;
	interrupted = 0;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		/* A second signal ends the program. SIGPIPE does not, because each line that is written into
		 * a closed pipe raises one. */
		action.sa_flags = signals[i] == SIGPIPE ? 0 : (int)SA_RESETHAND;
		sigaction(signals[i], &action, &before[i]);
		/* nohup(1) starts the program with SIGHUP ignored; a lost terminal does not end it then. */
		if (signals[i] == SIGHUP && before[i].sa_handler == SIG_IGN)
			sigaction(SIGHUP, &before[i], NULL);
	}
	for (; r == 0 && executor.at < n; executor.at += r == 0) {
		r = do_step(&executor, err);
		execution->done += r == 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &before[i], NULL);
	return r;
}
