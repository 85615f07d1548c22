/* ConfigMaps that the agent, which runs as root, reads. Input: pieces that end with a NUL. Their first byte
 * says what the rest is: s, u and p are the objects <node>-device-status, unhealthy-gpu-<node> and
 * ration-policy as a watch shows them; S, U and P say that they were deleted, with the last object; d is only
 * the text of data.devices, g that of data.gpus with the annotation ration.dev/cordoned after a byte 1, o
 * that of data.policy; n are the annotations of the Node; y ends the first LIST of all three. */
#include "fuzz.h"

#include <ctype.h>
#include <json-c/json.h>

#include "agent/agent.h"
#include "agent/events.h"
#include "agent/node/faults.h"
#include "agent/gpu/power-policy.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/fault-list.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"- deviceId: ", "deviceType: gpu", "healthy: false", "healthy: true",
	"reason: r", "\n", "  ", "---", "...", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "|\n", "\"",
	"GPU-a", "GPU-b", "0", "1", "4095", "4096", "\x01",
	"{\"gpus\":\"0\",\"cards\":{\"0\":", "{\"uuid\":\"GPU-a\",\"reason\":\"r\"}",
	"\"metadata\":{\"name\":\"n1-device-status\"}", "\"metadata\":{\"name\":\"unhealthy-gpu-n1\"}",
	"\"metadata\":{\"name\":\"ration-policy\"}", "\"data\":{\"devices\":\"", "\"data\":{\"gpus\":\"",
	"\"policy\":\"3\"", "\"gpuMemoryUnit\":\"256MiB\"", "\"maxPodsPerGPU\":\"20\"",
	"\"uninstall\":\"true\"", "\"ration.dev/policy\":\"4\"", NULL};

static struct {
	const struct kube_watch_ops *ops;
	void *userdata;
} watches[3]; /* in the order of the letters s, u, p */
static bool synced;
static size_t n_events;
static struct agent agent;

int kube_watch_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch)
{
	size_t i = strstr(query, "-device-status") ? 0 : strstr(query, "unhealthy-gpu-") ? 1 : 2;

	watches[i].ops = ops;
	watches[i].userdata = userdata;
	*ret_watch = (struct kube_watch *)&watches[i];
	return 0;
}

void kube_watch_free(struct kube_watch *watch)
{
}

bool kube_watch_synced(const struct kube_watch *watch)
{
	return synced;
}

void log_write(enum log_level unit, const char *format, ...)
{
}

void event_on_node(const struct events *events, const char *reason, const char *text)
{
	MUST(*reason && *text);
	if (strncmp(reason, "GPUPolicy", 9) != 0 && strncmp(reason, "GPUMemoryUnit", 13) != 0)
		MUST(++n_events <= EVENT_RATE_MAX);
}

static void policy_changed(void *userdata)
{
}

static void map_seen(void *userdata, struct json_object *data)
{
	settle_unit_told(&agent.settle, json_member_string(data, CONFIG_MAP_UNIT_KEY));
}

static void check_fault(const struct fault *fault)
{
	MUST(fault->index >= -1 && fault->index <= FAULT_INDEX_MAX);
	MUST(fault->index >= 0 || *fault->uuid);
	MUST(!strpbrk(fault->reason, "\n\r"));
}

/* Exactly the same faults in the same order. */
static bool lists_equal(const struct fault_list *a, const struct fault_list *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++)
		if (a->faults[i].index != b->faults[i].index ||
			strcmp(a->faults[i].uuid, b->faults[i].uuid) != 0 ||
			strcmp(a->faults[i].reason, b->faults[i].reason) != 0)
			return false;
	return a->n == b->n;
}

static void device_status(const char *text)
{
	static struct fault_list list;
	struct error err = {""};

	list.n = FAULT_LIST_MAX + 1;
	if (fault_list_from_device_status(text, &list, &err) < 0) {
		MUST(err.text[0] && list.n == FAULT_LIST_MAX + 1);
		return;
	}
	MUST(list.n <= FAULT_LIST_MAX);
	for (size_t i = 0; i < list.n; i++)
		check_fault(&list.faults[i]);
}

/* What is written from a list is read as the same list. */
static void gpus(const char *text, const char *notes)
{
	_cleanup_free_ char *again = NULL, *its_notes = NULL;
	static struct fault_list list, second;
	struct error err = {""};

	list.n = FAULT_LIST_MAX + 1;
	if (fault_list_from_gpus(text, notes, &list, &err) < 0) {
		MUST(err.text[0] && list.n == FAULT_LIST_MAX + 1);
		return;
	}
	MUST(list.n <= FAULT_LIST_MAX);
	for (size_t i = 0; i < list.n; i++)
		check_fault(&list.faults[i]);
	again = fault_list_gpus(&list);
	its_notes = fault_list_notes(&list);
	MUST(again && its_notes && !strpbrk(again, " \n"));
	MUST(fault_list_from_gpus(again, its_notes, &second, &err) == 0);
	MUST(lists_equal(&list, &second));
}

/* The text as the value of this key, in a ConfigMap that is otherwise in order. */
static void show_text(size_t i, const char *name, const char *key, const char *text, const char *notes)
{
	struct json_object *object = json_object_new_object(), *metadata = json_new_pair("name", name);

	if (notes)
		MUST(json_set(metadata, "annotations", json_new_pair(ANNOTATION_CORDONED, notes)) == 0);
	MUST(json_set(object, "metadata", metadata) == 0 &&
		json_set(object, "data", json_new_pair(key, text)) == 0);
	watches[i].ops->object(watches[i].userdata, object);
	json_object_put(object);
}

static void take_piece(struct policy *policy, const char *text)
{
	static const char letters[] = "supSUP";
	const char *letter = strchr(letters, *text);
	struct json_object *object = NULL;
	size_t i = (size_t)(letter - letters) % 3;
	char *notes;

	if (letter && json_parse(text + 1, strlen(text + 1), &object, NULL) == 0 && islower(*text))
		watches[i].ops->object(watches[i].userdata, object);
	else if (letter && isupper(*text))
		watches[i].ops->deleted(watches[i].userdata, "u", object);
	else if (*text == 'n' && json_parse(text + 1, strlen(text + 1), &object, NULL) == 0)
		policy_node_seen(policy, object);
	else if (*text == 'o')
		show_text(2, CONFIG_MAP_POLICY, CONFIG_MAP_POLICY_KEY, text + 1, NULL);
	json_object_put(object);
	if (*text == 'd') {
		device_status(text + 1);
		show_text(0, "n1" CONFIG_MAP_DEVICE_STATUS_SUFFIX, CONFIG_MAP_DEVICE_STATUS_KEY, text + 1,
			NULL);
	} else if (*text == 'g') {
		_cleanup_free_ char *copy = strdup(text + 1);

		MUST(copy);
		notes = strchr(copy, 1);
		if (notes)
			*notes++ = '\0';
		gpus(copy, notes);
		show_text(1, CONFIG_MAP_UNHEALTHY_PREFIX "n1", CONFIG_MAP_UNHEALTHY_KEY, copy, notes);
	} else if (*text == 'y') {
		synced = true;
		for (size_t k = 0; k < 3; k++)
			watches[k].ops->synced(watches[k].userdata);
	}
}

static void check(struct policy *policy)
{
	uint32_t unit = agent.node.asked.unit_mib;

	MUST((unsigned)policy_in_force(policy) < SHARE_POLICY_MAX);
	MUST(policy_max_containers(policy) <= 1000);
	MUST(unit == 0 || unit == 1024 || unit == 512 || unit == 256 || unit == 128);
	for (size_t i = 0; i < agent.node.inventory.n_gpus; i++) {
		const struct gpu *gpu = &agent.node.inventory.gpus[i];

		MUST(gpu->facts.healthy == !*gpu->details.reason && !strpbrk(gpu->details.reason, "\n\r"));
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static void agent_begin(void)
{
	agent.node.name = "n1";
	agent.node.asked.unit_mib = 0;
	agent.settle = (struct settle){.node = &agent.node, .events = &agent.events, .unit_mib = 1024};
	synced = false;
	n_events = 0;
	agent.node.inventory.n_gpus = 3;
	agent.node.inventory.unit_mib = 1024;
	strcpy(agent.node.inventory.driver_version, "550.54");
	for (size_t i = 0; i < agent.node.inventory.n_gpus; i++) {
		struct gpu *gpu = &agent.node.inventory.gpus[i];

		memset(gpu, 0, sizeof(*gpu));
		gpu->facts.index = (int)i;
		gpu->facts.mib = 8192;
		gpu->facts.healthy = true;
		gpu->units = 8;
		snprintf(gpu->facts.uuid, sizeof(gpu->facts.uuid), "GPU-%c", (int)('a' + i));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	const struct policy_ops ops = {policy_changed, map_seen, NULL};
	const struct faults_deps faults = {
		.node = &agent.node, .events = &agent.events, .changed = policy_changed};
	struct policy *policy;

	agent_begin();
	MUST(faults_new(&faults, &agent.faults) == 0 && faults_watch(agent.faults) == 0);
	MUST(policy_new(SHARE_NATIVE, &agent.events, &ops, &policy) == 0 &&
		policy_watch(policy, NULL, NULL) == 0);
	for (size_t at = 0, turn = 0; at < size && turn < 32; at += strlen(text + at) + 1, turn++) {
		if (text[at])
			take_piece(policy, text + at);
		faults_follow(agent.faults);
		check(policy);
	}
	MUST(!synced || policy_is_told(policy));
	MUST(!synced || faults_settled(agent.faults));
	policy_free(policy);
	faults_free(agent.faults);
	free(text);
	return 0;
}
