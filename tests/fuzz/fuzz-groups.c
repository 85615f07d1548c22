/* PodGroups, and pods of gangs. Input: pieces that end with a NUL. Their first byte says what the rest is: g
 * is a PodGroup as a watch shows it, D the uid of one that was deleted, p a pod. */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/gang/gang.h"
#include "kube/client.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/watch.h"
#include "net/loop.h"
#include "scheduler/gang-groups.h"
#include "scheduler/scheduler.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"d\"}",
	"\"spec\":{\"minMember\":2,\"scheduleTimeoutSeconds\":60}",
	"\"minMember\":", "\"scheduleTimeoutSeconds\":", "\"pod-group.scheduling.sigs.k8s.io/name\":\"a\"",
	"\"pod-group.scheduling.sigs.k8s.io/min-available\":\"2\"", "\"scheduling.x-k8s.io/pod-group\":\"a\"",
	"\"ration.dev/bound-gang\":\"{}\"", "\"ration.dev/gang\":\"forming\"", "\"nodeName\":\"n0\"",
	"\"limits\":{\"aliyun.com/gpu\":\"2\"}", "1000", "1001", "0", "-1", "1e3", "2.0", "null", "{", "}",
	"\"", "99999999999999999999", NULL};

static const struct kube_watch_ops *watch_ops;
static void *watch_userdata;
static kube_response_fn asked;
static void *asked_userdata;

int kube_watch_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch)
{
	watch_ops = ops;
	watch_userdata = userdata;
	*ret_watch = (struct kube_watch *)&watch_ops;
	return 0;
}

void kube_watch_free(struct kube_watch *watch)
{
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	fuzz_check_path(path);
	asked = fn;
	asked_userdata = userdata;
	return 0;
}

void log_write(enum log_level unit, const char *format, ...)
{
}

static void check_path(const struct pod_facts *facts)
{
	char path[700];

	if (gang_finished_path(facts, path, sizeof(path)) == 0)
		fuzz_check_path(path);
}

/* The record that a Binding makes says of the bound pod what its labels said. */
static void check_record(const struct pod_facts *facts)
{
	struct json_object *pod = json_object_new_object(), *metadata = json_object_new_object();
	struct json_object *annotations = json_object_new_object();
	_cleanup_pod_facts_ struct pod_facts bound;
	struct error err = {""};

	pod_facts_init(&bound);
	free(bound.node);
	bound.node = strdup("n0");
	MUST(json_set(pod, "metadata", metadata) == 0 && json_set(metadata, "annotations", annotations) == 0);
	MUST(bound.node && gang_record(annotations, facts) == 0);
	MUST(gang_read(pod, &bound, &err) == 0 && bound.gang_bound);
	MUST(!bound.gang == !facts->gang && (!facts->gang || strcmp(bound.gang, facts->gang) == 0));
	MUST(!facts->gang || bound.gang_min == facts->gang_min);
	json_object_put(pod);
}

static void show_pod(struct gangs *gangs, struct json_object *object)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err = {""};
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(object, &facts, &err);
	MUST(r == 0 || err.text[0]);
	MUST(facts.gang_min <= GANG_MIN_MAX);
	MUST(!facts.gang || (*facts.gang && strlen(facts.gang) <= 63));
	if (r < 0)
		return;
	check_path(&facts);
	check_record(&facts);
	gangs_has_run(gangs, &facts);
}

static void show_group(struct json_object *object)
{
	struct gang_group group = {.min = 77};
	struct error err = {""};
	char *key = NULL;
	int r = pod_group_from_json(object, &key, &group, &err);

	if (r < 0)
		MUST(err.text[0] && (key ? group.min == 0 : group.min == 77));
	else
		MUST(key && strchr(key, '/') && group.min >= 1 && group.min <= GANG_MIN_MAX);
	MUST(group.timeout_ns >= 0);
	free(key);
	watch_ops->object(watch_userdata, object);
}

static void take_piece(struct gangs *gangs, const char *text)
{
	struct json_object *object = NULL;

	if (*text == 'D')
		watch_ops->deleted(watch_userdata, text + 1, NULL);
	if ((*text != 'g' && *text != 'p') || json_parse(text + 1, strlen(text + 1), &object, NULL) < 0)
		return;
	if (*text == 'g')
		show_group(object);
	else
		show_pod(gangs, object);
	json_object_put(object);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct gang_rules rules = {.timeout_ns = NS_PER_S};
	const struct kube_response known = {.status = 200, .body = "", .text = ""};
	static struct scheduler scheduler;
	char *text = fuzz_text(data, size);
	struct gang_groups *groups;
	struct gangs *gangs = &scheduler.core.gangs;

	core_init(&scheduler.core, &rules);
	core_set_groups_known(&scheduler.core, false, 1);
	MUST(gang_groups_new(&scheduler, &groups) == 0);
	gang_groups_tick(groups, 1);
	asked(asked_userdata, &known);
	watch_ops->synced(watch_userdata);
	MUST(gangs->groups_known);
	for (size_t at = 0, turn = 0; at < size && turn < 32; at += strlen(text + at) + 1, turn++)
		if (text[at])
			take_piece(gangs, text + at);
	gang_groups_stop(groups);
	gang_groups_free(groups);
	core_release(&scheduler.core);
	free(text);
	return 0;
}
