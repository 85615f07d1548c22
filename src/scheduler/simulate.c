/* simulate.c - the verb simulate/filter, for programs that simulate scheduling. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/node-ledger.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node-template.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "scheduler/answer.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

/* The size up to which kube-scheduler is tested (5,000 nodes: Kubernetes' "Considerations for large
 * clusters"). */
#define SIMULATED_NODES_MAX 5000

struct simulation {
	struct scheduler *scheduler;
	struct pod_facts pod;
	struct json_object *passed, *names, *failed,
		*unresolvable; /* members of the answer, which owns them */
};

/* True if the ledger has this node, with the GPUs that the object names, if it names any. */
static bool is_in_ledger(
	const struct node_ledger *known, struct json_object *node, const struct node_facts *facts)
{
	struct json_object *annotations = json_member(json_member(node, "metadata"), "annotations");

	if (!known || !node_ledger_known(known))
		return false;
	if (!json_member(annotations, ANNOTATION_NODE_GPUS))
		return true;
	if (known->facts.n_gpus != facts->n_gpus)
		return false;
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (strcmp(known->gpus[i].facts.uuid, facts->gpus[i].uuid) != 0 ||
			known->gpus[i].facts.mib != facts->gpus[i].mib)
			return false;
	return true;
}

/* Returns the reject reason of an empty node with these facts, or -ENOMEM. */
static int template_reject_reason(const struct simulation *simulation, const struct node_facts *facts)
{
	struct ledger ledger;
	int r;

	ledger_init(&ledger);
	r = ledger_set_node(&ledger, facts);
	if (r == 0)
		r = ledger_choose(&ledger, facts->name, &simulation->pod, NULL);
	ledger_release(&ledger);
	return r;
}

static int add_failed(struct json_object *to, const char *name, const char *reason)
{
	return json_set(to, name, json_object_new_string(reason));
}

static int add_passed(struct simulation *simulation, struct json_object *node, const char *name)
{
	struct json_object *text = json_object_new_string(name);

	if (!text || json_object_array_add(simulation->names, text) < 0) {
		json_object_put(text);
		return -ENOMEM;
	}
	if (json_object_array_add(simulation->passed, json_object_get(node)) == 0)
		return 0;
	json_object_put(node);
	return -ENOMEM;
}

/* Every object of the API server has a uid, but a template may lack it. Then it gets one. False: it had one.
 */
static bool lend_uid(struct json_object *object)
{
	struct json_object *metadata = json_member(object, "metadata");

	return json_object_is_type(metadata, json_type_object) && !json_member(metadata, "uid") &&
	       json_set(metadata, "uid", json_object_new_string("simulated")) == 0;
}

static int judge_node(struct simulation *simulation, struct json_object *node, struct error *err)
{
	struct ledger *ledger = &simulation->scheduler->core.ledger;
	_cleanup_node_facts_ struct node_facts facts;
	struct error problem = {0};
	char text[64];
	bool lent = lend_uid(node);
	int reject_reason, r;

	node_facts_init(&facts);
	r = node_facts_from_json(node, &facts, &problem);
	if (lent) /* the answer repeats the node without it */
		json_object_object_del(json_member(node, "metadata"), "uid");
	if (r < 0)
		return error_set(err, -r, "%s", problem.text);
	if (request_is_empty(&simulation->pod.request))
		return add_passed(simulation, node, facts.name);
	if (is_in_ledger(ledger_node(ledger, facts.name), node, &facts)) {
		reject_reason = ledger_choose(ledger, facts.name, &simulation->pod, NULL);
	} else {
		const struct node_template_rules rules = {.unit_mib = simulation->pod.request.unit_mib,
			.max_pods_per_gpu = simulation->scheduler->max_pods_per_gpu,
			.mixing = simulation->scheduler->job_mixing};

		if (*problem.text || node_template_complete(node, &rules, &facts, &problem) < 0)
			return add_failed(simulation->unresolvable, facts.name, problem.text);
		reject_reason = template_reject_reason(simulation, &facts);
	}
	if (reject_reason < 0)
		return reject_reason;
	if (reject_reason == FITS)
		return add_passed(simulation, node, facts.name);
	return add_failed(
		reject_reason_is_occupancy(reject_reason) ? simulation->failed : simulation->unresolvable,
		facts.name,
		reject_reason_text(
			(enum reject_reason)reject_reason, &simulation->pod.request, text, sizeof(text)));
}

/* Creates the members of the answer to which the nodes are assigned. */
static int answer_begin(struct simulation *simulation, struct json_object *answer)
{
	struct json_object *list = json_object_new_object();

	if (json_set(answer, "Nodes", list) < 0)
		return -ENOMEM;
	simulation->passed = json_object_new_array();
	if (json_set(list, "items", simulation->passed) < 0)
		return -ENOMEM;
	simulation->names = json_object_new_array();
	if (json_set(answer, "NodeNames", simulation->names) < 0)
		return -ENOMEM;
	simulation->failed = json_object_new_object();
	if (json_set(answer, "FailedNodes", simulation->failed) < 0)
		return -ENOMEM;
	simulation->unresolvable = json_object_new_object();
	if (json_set(answer, "FailedAndUnresolvableNodes", simulation->unresolvable) < 0)
		return -ENOMEM;
	return json_set(answer, "Error", json_object_new_string(""));
}

static int question_items(struct json_object *question, struct json_object **ret_items, struct error *err)
{
	struct json_object *items = json_member(json_member(question, "Nodes"), "items");

	if (!json_object_is_type(json_member(question, "Pod"), json_type_object))
		return error_set(err, EINVAL, "request has no Pod");
	if (!json_object_is_type(items, json_type_array))
		return error_set(err, EINVAL,
			"request has no Nodes.items: set nodeCacheCapable: false for this extender");
	if (json_object_array_length(items) > SIMULATED_NODES_MAX)
		return error_set(err, EINVAL, "request has %zu nodes, more than %d; ask in several requests",
			json_object_array_length(items), SIMULATED_NODES_MAX);
	*ret_items = items;
	return 0;
}

static int simulate(struct simulation *simulation, const char *body, size_t len, struct json_object *answer,
	struct error *err)
{
	_cleanup_json_ struct json_object *question = NULL;
	struct json_object *items = NULL;
	struct error problem = {0};
	int r;

	if (json_parse(body, len, &question, NULL) < 0 || !json_object_is_type(question, json_type_object))
		return error_set(err, EINVAL, "request is not a JSON object");
	r = question_items(question, &items, err);
	if (r < 0)
		return r;
	lend_uid(json_member(question, "Pod"));
	r = pod_facts_read(json_member(question, "Pod"), &simulation->pod, err);
	if (r == 0)
		r = answer_begin(simulation, answer);
	for (size_t i = 0; r == 0 && i < json_object_array_length(items); i++) {
		r = judge_node(simulation, json_object_array_get_idx(items, i), &problem);
		if (r < 0 && *problem.text)
			error_set(err, -r, "Nodes.items[%zu]: %s", i, problem.text);
	}
	return r;
}

char *simulate_filter(struct scheduler *scheduler, const char *body, size_t len)
{
	_cleanup_json_ struct json_object *answer = json_object_new_object();
	struct simulation simulation = {.scheduler = scheduler};
	struct error err = {0};
	const char *text;
	int r;

	if (!core_is_ready(&scheduler->core))
		return answer_error("ration-scheduler has not read the cluster's nodes and pods yet");
	pod_facts_init(&simulation.pod);
	r = answer ? simulate(&simulation, body, len, answer, &err) : -ENOMEM;
	pod_facts_release(&simulation.pod);
	if (r < 0 && r != -ENOMEM)
		return answer_error(err.text);
	text = r == 0 ? json_text(answer) : NULL;
	return text ? strdup(text) : NULL;
}
