/* ration why POD: fetches the pod's facts from the API server, finds the leading scheduler, and prints its
 * explanation. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "cli/leader.h"
#include "cli/options.h"
#include "cli/pod.h"
#include "cli/printable.h"
#include "cli/why.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"

#define ANSWER_MAX (32u << 20)

/* The owner of the ledger shows whether the cluster's own scheduler uses ration. */
static int is_ours(
	const struct why_options *options, const char *scheduler, bool *ret_ours, struct error *err)
{
	_cleanup_free_ char *owner = NULL;
	int r = strcmp(scheduler, DEFAULT_SCHEDULER_NAME) == 0
			? leader_find_owner(&options->kubectl, &owner, err)
			: 0;

	if (r == 0)
		*ret_ours = leader_serves(owner ? owner : "", scheduler);
	return r;
}

/* Returns 1, and prints why, if ration is not responsible for this pod; 0 if it is; or a negative errno. */
static int is_none_of_ours(const struct why_options *options, struct json_object *pod,
	const struct pod_facts *facts, struct error *err)
{
	bool ours = true;
	int r;
	const char *scheduler = json_member_string(json_member(pod, "spec"), "schedulerName");
	_cleanup_free_ char *named = NULL;

	if (request_is_empty(&facts->request)) {
		printf("Pod %s/%s asks for no " RESOURCE_GPU_MEM
		       ": it gets no GPU of ration, and ration does not place it.\n",
			facts->namespace_, facts->name);
		return 1;
	}
	if (!scheduler || facts->has_placement)
		return 0;
	r = is_ours(options, scheduler, &ours, err);
	if (r < 0 || ours)
		return r;
	/* The API server allows any text as the name of a scheduler; it must not control the terminal. */
	named = printable_copy(scheduler);
	printf("Pod %s/%s asks for " RESOURCE_GPU_MEM
	       " but names the scheduler %.253s, which does not use ration: %s. Delete it and create it again with schedulerName: " SCHEDULER_NAME
	       ".\n",
		facts->namespace_, facts->name, named ? named : "?",
		*facts->node ? "it has no GPU, and the node's agent does not start it"
			     : "it will get no GPU");
	return 1;
}

static int ask(const struct why_options *options, const struct pod_facts *facts, struct strbuf *body,
	struct error *err)
{
	char path[1200];

	snprintf(path, sizeof(path), "/why?namespace=%s&name=%s&uid=%s%s%s", facts->namespace_, facts->name,
		facts->uid, options->node ? "&node=" : "", options->node ? options->node : "");
	if (!pod_name_is_valid(facts->uid))
		return error_set(err, EINVAL, "the API server's answer has no valid uid");
	return leader_get(&options->kubectl, path, body, err);
}

/* Prints the text, or for -o json the answer. */
static int print_text(
	const struct why_options *options, struct json_object *answer, struct strbuf *text, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, ANSWER_MAX);
	if (options->output == OUTPUT_JSON)
		add_document(&out, answer);
	else
		strbuf_adds(&out, strbuf_cstr(text));
	if (out.failed || text->failed)
		return error_set(err, ENOMEM, "out of memory");
	fputs(strbuf_cstr(&out), stdout);
	return output_end(err);
}

static int print_answer(const struct why_options *options, const struct pod_facts *facts,
	const struct strbuf *body, struct error *err)
{
	_cleanup_json_ struct json_object *answer = NULL;
	_cleanup_strbuf_ struct strbuf text;
	char who[2 * POD_NAME_MAX + 2];
	int r;

	strbuf_init(&text, ANSWER_MAX);
	r = json_parse(strbuf_cstr(body), body->len, &answer, err);
	if (r < 0) {
		error_prefix(err, "the scheduler's answer");
		return r;
	}
	snprintf(who, sizeof(who), "%s/%s", facts->namespace_, facts->name);
	if (options->output != OUTPUT_JSON)
		r = request_is_empty(&facts->request) ? why_policy_text(answer, who, &text)
						      : why_text(answer, who, &text);
	return r < 0 ? error_set(err, -r, "out of memory") : print_text(options, answer, &text, err);
}

static int explain_claims(const struct why_options *options, struct json_object *pod,
	const struct pod_facts *facts, struct error *err)
{
	_cleanup_json_ struct json_object *answer = NULL;
	_cleanup_strbuf_ struct strbuf text;
	int r;

	strbuf_init(&text, ANSWER_MAX);
	r = why_claims_read(options, pod, facts, &answer, err);
	if (r < 0)
		return r;
	if (options->output != OUTPUT_JSON)
		why_claims_text(answer, options->node, &text);
	return print_text(options, answer, &text, err);
}

/* For a pod without a GPU, the scheduler is responsible if it has a ResourcePolicy. If that is unknown, the
 * pod counts as a pod without a ResourcePolicy. */
static bool has_level(const struct why_options *options, struct json_object *pod,
	const struct pod_facts *facts, struct strbuf *body)
{
	_cleanup_json_ struct json_object *answer = NULL;
	const char *scheduler = json_member_string(json_member(pod, "spec"), "schedulerName");
	struct error ignored;

	if (!request_is_empty(&facts->request) || !scheduler || strcmp(scheduler, SCHEDULER_NAME) != 0)
		return false;
	return ask(options, facts, body, &ignored) == 0 &&
	       json_parse(strbuf_cstr(body), body->len, &answer, &ignored) == 0 &&
	       json_member(answer, "resourcePolicy") != NULL;
}

/* The ledger has no such pod, and filter gives kube-scheduler the same sentence for every node. */
static int tell_impossible(const struct pod_facts *facts, struct error *problem)
{
	printf("Pod %s/%s gets no GPU: its request is not valid.\n"
	       "Wrong: %s.\n"
	       "No node is considered for it, so none is listed. A label can be changed with `kubectl -n %s label --overwrite pod %s KEY=VALUE`; for anything else delete the pod and create it again.\n",
		facts->namespace_, facts->name, printable(problem->text), facts->namespace_, facts->name);
	return 0;
}

static int run(void *userdata, struct error *err)
{
	const struct why_options *options = userdata;
	struct error problem = {""};
	_cleanup_json_ struct json_object *pod = NULL;
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_strbuf_ struct strbuf body;
	int r;

	strbuf_init(&body, ANSWER_MAX);
	r = pod_fetch_named(&options->kubectl, options->namespace_, options->name, &pod, err);
	if (r < 0)
		return r;
	r = pod_facts_read(pod, &facts, &problem);
	if (r == -EINVAL && *facts.uid && !*facts.node && options->output != OUTPUT_JSON)
		return tell_impossible(&facts, &problem);
	if (r < 0) {
		*err = problem;
		return r;
	}
	if (has_level(options, pod, &facts, &body))
		return print_answer(options, &facts, &body, err);
	if (request_is_empty(&facts.request) && pod_has_claims(pod))
		return explain_claims(options, pod, &facts, err);
	strbuf_clear(&body);
	r = is_none_of_ours(options, pod, &facts, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = ask(options, &facts, &body, err);
	return r < 0 ? r : print_answer(options, &facts, &body, err);
}

int why_command(int argc, char **argv)
{
	struct why_options options = {0};

	return command_run(&why_option_table, argc, argv, &options, NULL, run);
}
