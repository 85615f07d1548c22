/* The verb preempt: what kube-scheduler posts with the victims that it chose, on a small cluster of pods of
 * different priority and a budget; after a NUL, the pod as the API server shows it then, perhaps nominated.
 */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/eviction.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "log-fixture.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

#define HISTORY_MAX (64u << 20)

const unsigned int fuzz_rounds = 1500;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff", "99999999999999999999",
	"\"Pod\":", "\"NodeNameToMetaVictims\":", "\"n0\":", "\"n1\":", "\"n2\":", "\"n9\":", "\"Pods\":[",
	"{\"UID\":\"n1-0\"}", "{\"UID\":\"n2-1\"}", "{\"UID\":\"n2-4\"}", "\"NumPDBViolations\":1",
	"\"nominatedNodeName\":\"n2\"", "\"priority\":9", "\"preemptionPolicy\":\"Never\"",
	"\"aliyun.com/gpu-mem\":\"7\"", "\"aliyun.com/gpu-count\":\"2\"", NULL};

static struct scheduler scheduler;
static struct strbuf history;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_open("fuzz-preempt", LOG_LEVEL_ERROR);
	return 0;
}

static struct json_object *object_from(const char *text)
{
	struct json_object *object = NULL;

	MUST(json_parse(text, strlen(text), &object, NULL) == 0);
	return object;
}

/* Node i has i + 1 GPUs of 8 units. */
static void add_node(int i)
{
	_cleanup_node_facts_ struct node_facts facts;

	node_facts_init(&facts);
	MUST(asprintf(&facts.name, "n%d", i) > 0 && asprintf(&facts.uid, "node-%d", i) > 0);
	facts.mode = GPU_MODE_SHARE;
	facts.unit_mib = 1024;
	facts.serving = true;
	facts.n_gpus = (size_t)i + 1;
	for (size_t k = 0; k < facts.n_gpus; k++) {
		snprintf(facts.gpus[k].uuid, sizeof(facts.gpus[k].uuid), "GPU-%d-%zu", i, k);
		facts.gpus[k] = (struct gpu_facts){.index = (int)k, .mib = 8192, .healthy = true};
		snprintf(facts.gpus[k].uuid, sizeof(facts.gpus[k].uuid), "GPU-%d-%zu", i, k);
	}
	MUST(core_see_node(&scheduler.core, &facts) == 0);
}

/* Two pods of 4 units on each GPU, the more important the higher k. */
static void add_pod(int node, int k)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	_cleanup_json_ struct json_object *object = NULL;
	char text[1024];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"n%d-%d\",\"name\":\"p%d-%d\",\"namespace\":\"d\",\"labels\":{"
		"\"app\":\"a%d\"},\"annotations\":{\"ration.dev/placement\":\"{\\\"unit\\\":1024,"
		"\\\"containers\\\":{\\\"c\\\":[{\\\"uuid\\\":\\\"GPU-%d-%d\\\",\\\"units\\\":4}]}}\"}},"
		"\"spec\":{\"priority\":%d,\"nodeName\":\"n%d\",\"containers\":[{\"name\":\"c\","
		"\"resources\":{"
		"\"limits\":{\"aliyun.com/gpu-mem\":\"4\"}}}]},\"status\":{\"phase\":\"Running\"}}",
		node, k, node, k, k % 2, node, k / 2, k, node);
	object = object_from(text);
	MUST(pod_facts_from_json(object, &facts, NULL) == 0 && facts.has_placement);
	MUST(core_see_pod(&scheduler.core, &facts, 0, 1) == 0);
}

static void cluster_begin(void)
{
	_cleanup_json_ struct json_object *object = object_from(
		"{\"metadata\":{\"uid\":\"b\",\"name\":\"b\",\"namespace\":\"d\"},\"spec\":{\"selector\":{"
		"\"matchLabels\":{\"app\":\"a0\"}}},\"status\":{\"disruptionsAllowed\":1}}");
	struct budget *budget;

	core_init(&scheduler.core, NULL);
	scheduler.core.nodes_listed = scheduler.core.pods_listed = true;
	log_begin(&scheduler.core, &history);
	MUST(recorder_new(&scheduler.recorder) == 0);
	MUST(budget_from_json(object, &budget, NULL) == 0 && core_see_budget(&scheduler.core, budget) == 0);
	for (int i = 0; i < 3; i++) {
		add_node(i);
		for (int k = 0; k < 2 * (i + 1) - (i == 2); k++)
			add_pod(i, k);
	}
}

static bool has_uid(struct json_object *pods, const char *uid)
{
	for (size_t i = 0; i < json_object_array_length(pods); i++)
		if (strcmp(json_member_string(json_object_array_get_idx(pods, i), "UID"), uid) == 0)
			return true;
	return false;
}

/* In-tree's victims all stay, and nobody is named twice by us. */
static void check_victims(struct json_object *asked, struct json_object *answered)
{
	struct json_object *before = json_member(asked, "Pods"), *after = json_member(answered, "Pods");

	MUST(json_object_is_type(before, json_type_array) && json_object_is_type(after, json_type_array));
	for (size_t i = 0; i < json_object_array_length(before); i++) {
		const char *uid = json_member_string(json_object_array_get_idx(before, i), "UID");

		MUST(!uid || has_uid(after, uid));
	}
}

static void check_answer(const char *body, size_t len, const char *answer)
{
	_cleanup_json_ struct json_object *asked = NULL, *root = json_tokener_parse(answer);
	_cleanup_pod_facts_ struct pod_facts pod;
	struct json_object *nodes = json_member(root, "NodeNameToMetaVictims"), *given;

	pod_facts_init(&pod);
	MUST(json_parse(body, len, &asked, NULL) == 0 && json_object_is_type(nodes, json_type_object));
	given = json_member(asked, "NodeNameToMetaVictims");
	MUST(pod_facts_from_json(json_member(asked, "Pod"), &pod, NULL) == 0);
	if (request_is_empty(&pod.request)) {
		MUST(json_object_object_length(nodes) == json_object_object_length(given));
		return;
	}
	MUST(json_object_object_length(nodes) <= 1);
	json_object_object_foreach (nodes, node, victims)
		check_victims(json_member(given, node), victims);
}

static void ask(const char *body, size_t len)
{
	_cleanup_free_ char *answer = NULL;
	struct error err = {""};
	unsigned status = 0;

	answer = preempt_answer(&scheduler, body, len, &status, &err);
	if (answer)
		check_answer(body, len, answer);
	else
		MUST(err.text[0] && status == 400);
	MUST((status == 200) == (answer != NULL));
}

static void show(const char *text, size_t len)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_pod_facts_ struct pod_facts facts;

	pod_facts_init(&facts);
	if (json_parse(text, len, &object, NULL) < 0 || pod_facts_from_json(object, &facts, NULL) < 0)
		return;
	MUST(core_see_pod(&scheduler.core, &facts, 0, 1) == 0);
	core_nomination_waits_for(&scheduler.core, &facts);
	core_pods_are_listed(&scheduler.core, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	struct error err = {""};
	size_t len = nul ? (size_t)(nul - data) : size, left = size - len - (nul != NULL), over;
	_cleanup_free_ char *body = fuzz_text(data, len), *shown = fuzz_text(data + size - left, left);

	strbuf_init(&history, HISTORY_MAX);
	cluster_begin();
	ask(body, len);
	show(shown, left);
	ask(body, len);
	MUST(ledger_check(&scheduler.core.ledger, &over) == 0);
	log_end(&scheduler.core, &history);
	if (log_replay(&history, &err)) {
		fprintf(stderr, "%s\n%s\n", err.text, strbuf_cstr(&history));
		abort();
	}
	strbuf_release(&history);
	core_release(&scheduler.core);
	recorder_free(scheduler.recorder);
	return 0;
}
