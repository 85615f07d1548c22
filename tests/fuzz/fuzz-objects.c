/* Pods, nodes and PodDisruptionBudgets as the API server shows them, whoever wrote them. */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/error.h"
#include "core/preemption/budget.h"
#include "kube/eviction.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "kube/resource-policy.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "1e999", "99999999999999999999", "-1",
	"\\u0000", "\\ud800", "\xff", "\"metadata\":", "\"uid\":\"u\"",
	"\"annotations\":", "\"ration.dev/placement\":", "\"ration.dev/gpus\":\"[]\"",
	"\"ration.dev/held\":\"{}\"", "\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}", "\"initContainers\":[",
	"\"matchLabels\":{\"app\":\"a\"}", "\"matchExpressions\":[", "\"operator\":\"NotIn\"",
	"\"restartPolicy\":\"Always\"", "\"status\":", "\"spec\":", "\"units\":[{\"resource\":\"ecs\",",
	"\"maxResources\":{\"cpu\":\"1\"}", "\"whenTryNextUnits\":{\"timeout\":\"1h\"}",
	"\"podLabels\":{\"a\":\"b\"}", "\"aliyun.com/gpu-count\":\"2\"", NULL};

/* What any selector can be asked about. */
static void guards(const char *labels)
{
	static const char *const values[] = {"a", ""};
	struct budget *budget = calloc(1, sizeof(*budget));

	MUST(budget && selector_require(&budget->selector, "app", SELECTOR_IN, values, 2) == 0 &&
		selector_require(&budget->selector, "k", SELECTOR_EXISTS, NULL, 0) == 0);
	selector_selects(&budget->selector, labels);
	budget_free(budget);
}

static void budget(struct json_object *object)
{
	const struct budget *found[2];
	struct error err = {""};
	struct budgets budgets;
	struct budget *read;

	if (budget_from_json(object, &read, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	MUST(*read->uid && *read->name && *read->namespace_ && read->allowed >= 0);
	selector_selects(&read->selector, "app=a\nk=b\n");
	budgets_init(&budgets);
	MUST(budgets_set(&budgets, read) == 0);
	MUST(budgets_matching(&budgets, read->namespace_, "app=a\nk=b\n", found, 2) <= 1);
	budgets_release(&budgets);
}

static void pod(struct json_object *object)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err = {""};

	pod_facts_init(&facts);
	if (pod_facts_from_json(object, &facts, &err) < 0)
		MUST(err.text[0] && request_is_empty(&facts.request));
	else
		MUST(*facts.uid && *facts.name && *facts.namespace_);
	if (facts.labels)
		guards(facts.labels);
	MUST(!facts.has_placement || placement_matches(&facts.placement, &facts.request));
}

static void policy(struct json_object *object)
{
	struct resource_policy *read;
	struct error err = {""};

	if (resource_policy_from_json(object, &read, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	MUST(*read->uid && *read->name && read->n_units > 0 && read->n_units <= POLICY_UNITS_MAX &&
		read->timeout_ns >= 0);
	selector_selects(&read->selector, "app=a\nk=b\n");
	resource_policy_free(read);
}

static void pod_of_units(struct json_object *object)
{
	_cleanup_policy_pod_facts_ struct policy_pod_facts facts;
	struct table keys;

	table_init(&keys);
	MUST(table_set(&keys, "ration.dev/placement", &keys) == 0);
	if (policy_pod_facts_from_json(object, &keys, &facts) == 0)
		MUST(*facts.uid && *facts.name && *facts.namespace_);
	for (size_t i = 0; i < facts.requests.n; i++)
		MUST(facts.requests.list[i].milli > 0);
	table_release(&keys);
}

static void node(struct json_object *object)
{
	_cleanup_node_facts_ struct node_facts facts;
	struct error err = {""};

	node_facts_init(&facts);
	if (node_facts_from_json(object, &facts, &err) == 0)
		MUST(*facts.name && *facts.uid && facts.unit_mib > 0 &&
			(!err.text[0] || facts.n_gpus == 0 || facts.held_unreadable));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *object = NULL;
	char *text = fuzz_text(data, size);

	if (json_parse(text, size, &object, NULL) == 0) {
		pod(object);
		node(object);
		budget(object);
		policy(object);
		pod_of_units(object);
	}
	json_object_put(object);
	free(text);
	return 0;
}
