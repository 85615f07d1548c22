/* The answer of ration-scheduler's page /why, as text. */
#include "cli/why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <json-c/json.h>

#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/inspect.h"
#include "cli/printable.h"
#include "core/placement/choose.h"
#include "kube/json.h"
#include "kube/names.h"

static void add_duration(struct strbuf *out, int64_t ms)
{
	if (ms < 60000)
		strbuf_addf(out, "%" PRId64 " s", ms / 1000);
	else if (ms < 3600000)
		strbuf_addf(out, "%" PRId64 " min", ms / 60000);
	else
		strbuf_addf(out, "%" PRId64 " h", ms / 3600000);
}

static void add_request(struct strbuf *out, struct json_object *pod)
{
	struct json_object *request = json_member(pod, "request");
	struct json_object *containers = json_member(request, "containers");
	int64_t core = number_of(request, "core");

	if (is_true(request, "whole"))
		strbuf_addf(out, "It asks for %" PRId64 " whole GPU%s (" RESOURCE_GPU ")",
			number_of(request, "units"), plural(number_of(request, "units")));
	else
		strbuf_addf(out, "It asks for %" PRId64 " unit%s of " RESOURCE_GPU_MEM,
			number_of(request, "units"), plural(number_of(request, "units")));
	if (json_member(request, "job"))
		strbuf_addf(out, ", near those of job %s (%" PRId64 " pods)", json_text_of(request, "job"),
			number_of(request, "jobPods"));
	if (number_of(request, "cards") > 1 && !is_true(request, "whole"))
		strbuf_addf(out, " on %" PRId64 " GPUs of one node, the same on each",
			number_of(request, "cards"));
	if (core)
		strbuf_addf(out, " and %" PRId64 " percent of computing power", core);
	for (size_t i = 0; json_count(containers) > 1 && i < json_count(containers); i++) {
		struct json_object *container = json_item(containers, i);
		const char *kind = json_text_of(container, "kind");

		strbuf_addf(out, "%s%s%s%s %" PRId64, i ? ", " : ": ", strcmp(kind, "main") == 0 ? "" : kind,
			strcmp(kind, "main") == 0 ? "" : " ", json_text_of(container, "name"),
			number_of(container, "units"));
	}
	strbuf_adds(out, ".\n");
}

static void add_waiting(struct strbuf *out, struct json_object *waiting)
{
	int64_t requeues = number_of(waiting, "nudges");

	if (!waiting)
		return;
	strbuf_adds(out, "First rejected ");
	add_duration(out, number_of(waiting, "forMs"));
	strbuf_adds(out, " ago, last ");
	add_duration(out, number_of(waiting, "lastAskedMsAgo"));
	strbuf_addf(out, " ago; woken %" PRId64 " time%s because something was freed.\n", requeues,
		plural(requeues));
}

/* What the pods of a gang wait for together. */
static void add_gang(struct strbuf *out, struct json_object *gang)
{
	int64_t min = number_of(gang, "min"), failures = number_of(gang, "failures"),
		later = number_of(gang, "labelledLater");

	if (!gang)
		return;
	strbuf_addf(out, "It is of gang %s: %" PRId64 " of %" PRId64 " pods are placed",
		json_text_of(gang, "name"), number_of(gang, "placed"), number_of(gang, "pods"));
	if (number_of(gang, "planned"))
		strbuf_addf(out, ", %" PRId64 " hold a place (%" PRId64 " of them wait to be bound together)",
			number_of(gang, "planned"), number_of(gang, "atBind"));
	if (min)
		strbuf_addf(out, "; %" PRId64 " at least, or none", min);
	strbuf_adds(out,
		is_true(gang, "minsDiffer") ? " (its pods say different numbers, the largest counts)" : "");
	if (is_true(gang, "cameAbout"))
		strbuf_adds(out, ". The gang has started: further pods are scheduled one by one");
	else if (json_member(gang, "reason"))
		strbuf_addf(out, ": %s", json_text_of(gang, "reason"));
	strbuf_adds(out, ".\n");
	if (later)
		strbuf_addf(out,
			"%" PRId64
			" running pod%s given its label only after the scheduler had bound %s, and %s not count.\n",
			later, later == 1 ? " was" : "s were", later == 1 ? "it" : "them",
			later == 1 ? "does" : "do");
	if (json_member(gang, "haveRoom"))
		strbuf_addf(out, "Of the %" PRId64 " that are needed %" PRId64 " would find room now.\n", min,
			number_of(gang, "haveRoom"));
	if (number_of(gang, "waitingForMs")) {
		strbuf_adds(out, "Enough of its pods have been waiting for ");
		add_duration(out, number_of(gang, "waitingForMs"));
		strbuf_addf(out, "%s.\n",
			is_true(gang, "keeping") ? "; GPUs are kept for them as they become free" : "");
	}
	if (failures)
		strbuf_addf(out, "They did not come to bind together %" PRId64 " time%s", failures,
			plural(failures));
	if (failures && *json_text_of(gang, "missing"))
		strbuf_addf(out,
			"; the last time pod %s was missing: something else than GPUs keeps it (see `kubectl describe pod %s`).\n",
			json_text_of(gang, "missing"), json_text_of(gang, "missing"));
	else if (failures)
		strbuf_adds(out, ": something else than GPUs keeps some of them.\n");
}

/* The pod waits for other pods of its gang, so it does not matter whether a single pod has room. */
static bool waits_for_gang(struct json_object *answer)
{
	struct json_object *gang = json_member(answer, "gang");

	return gang && !is_true(gang, "cameAbout");
}

static bool is_bound(struct json_object *pod)
{
	const char *state = json_text_of(pod, "state");

	return strcmp(state, "bound") == 0 || strcmp(state, "reserved") == 0;
}

/* The last decision that chose a GPU for the pod where it is now. */
static struct json_object *decision_that_placed(struct json_object *answer, const char *node)
{
	struct json_object *decisions = json_member(answer, "decisions");

	for (size_t i = json_count(decisions); i-- > 0;) {
		struct json_object *decision = json_item(decisions, i);

		if (strcmp(json_text_of(decision, "node"), node) == 0 &&
			json_count(json_member(decision, "cards")))
			return decision;
	}
	return NULL;
}

static void add_why_that_gpu(struct strbuf *out, struct json_object *answer, const char *node)
{
	bool whole = is_true(json_member(json_member(answer, "pod"), "request"), "whole");
	struct json_object *decision = decision_that_placed(answer, node);
	int64_t fitting = number_of(decision, "cardsFitting");
	enum gpu_policy policy = GPU_POLICY_BINPACK;

	if (!decision) {
		strbuf_adds(out,
			"The decision for that GPU is no longer recorded: the leading scheduler keeps its last 10,000 decisions.\n");
		return;
	}
	gpu_policy_parse(json_text_of(decision, "policy"), &policy);
	strbuf_adds(out, "Chosen: ");
	if (whole) {
		strbuf_addf(out, "of %" PRId64 " GPUs with room %s.\n", fitting,
			placement_order_text(true, policy));
		return;
	}
	why_add_gpus(out, decision);
	if (fitting == 1)
		strbuf_adds(out, ", the only GPU of the node with room for it.\n");
	else
		strbuf_addf(out, ", of %" PRId64 " GPUs with room: %s.\n", fitting,
			placement_order_text(false, policy));
}

static void add_where(
	struct strbuf *out, struct json_object *answer, struct json_object *pod, const char *who)
{
	struct json_object *gpus = json_member(pod, "cards");
	const char *node = json_text_of(pod, "node");

	strbuf_addf(out, "Pod %s is %s node %s", who,
		strcmp(json_text_of(pod, "state"), "bound") == 0 ? "bound to" : "just being bound to", node);
	if (!is_true(pod, "placed")) {
		strbuf_adds(out,
			" without ration-scheduler: it has no GPU, and the node's agent does not start it. Delete it and create it again with schedulerName: " SCHEDULER_NAME
			".\n");
		add_request(out, pod);
		return;
	}
	for (size_t i = 0; i < json_count(gpus); i++)
		strbuf_addf(out, ", GPU %" PRId64 " (%s)", number_of(json_item(gpus, i), "index"),
			json_text_of(json_item(gpus, i), "uuid"));
	if (!json_count(gpus))
		strbuf_adds(out, ", on a GPU that the node no longer has");
	strbuf_adds(out, is_true(pod, "assigned") ? "; the node has given it its devices.\n"
						  : "; the node has not given it its devices yet.\n");
	add_request(out, pod);
	add_gang(out, json_member(answer, "gang"));
	if (json_member(answer, "gangLabel"))
		strbuf_addf(out,
			"Its labels name gang %s now, but did not when it was bound: it is not part of that gang.\n",
			json_text_of(answer, "gangLabel"));
	add_why_that_gpu(out, answer, node);
}

/* The pod has no place, and its ResourcePolicy is the reason. */
static bool waits_for_level(struct json_object *answer, struct json_object *pod)
{
	struct json_object *level = json_member(answer, "resourcePolicy");

	return pod && strcmp(json_text_of(pod, "state"), "waiting") == 0 && !is_true(pod, "finished") &&
	       is_true(level, "waits") && *json_text_of(level, "text");
}

static void add_waits_for(struct strbuf *out, struct json_object *answer, struct json_object *pod)
{
	add_request(out, pod);
	add_gang(out, json_member(answer, "gang"));
	add_waiting(out, json_member(answer, "waiting"));
}

static void add_pod(struct strbuf *out, struct json_object *answer, struct json_object *pod, const char *who)
{
	const char *state = json_text_of(pod, "state");

	if (is_true(pod, "finished")) {
		strbuf_addf(out, "Pod %s has ended and no longer holds a GPU.\n", who);
	} else if (is_bound(pod)) {
		add_where(out, answer, pod, who);
		if (is_true(pod, "deleting"))
			strbuf_adds(out,
				"It is being deleted, and holds its GPU until its containers have ended.\n");
	} else if (strcmp(state, "tentative") == 0) {
		strbuf_addf(out, "Pod %s is being placed: a GPU on node %s is held for it for ", who,
			json_text_of(pod, "node"));
		add_duration(out, number_of(pod, "holdEndsInMs"));
		strbuf_adds(out, " at most, until kube-scheduler binds it.\n");
		add_request(out, pod);
		add_gang(out, json_member(answer, "gang"));
	} else if (number_of(pod, "annotationsFull")) {
		strbuf_addf(out,
			"Pod %s cannot be bound: its annotations have %" PRId64
			" bytes, and its GPU placement would not fit into the 256 KiB that the API server allows. Remove one: kubectl annotate pod %s -n %s KEY-\n",
			who, number_of(pod, "annotationsFull"), json_text_of(pod, "name"),
			json_text_of(pod, "namespace"));
		add_waits_for(out, answer, pod);
	} else if (waits_for_level(answer, pod)) {
		strbuf_addf(out, "Pod %s is held back by its ResourcePolicy: %s.\n", who,
			json_text_of(json_member(answer, "resourcePolicy"), "text"));
		add_waits_for(out, answer, pod);
	} else {
		strbuf_addf(out, "Pod %s waits for a GPU%s.\n", who,
			number_of(answer, "fittingNodes") && !waits_for_gang(answer)
				? ", although there is room now: kube-scheduler has not asked again yet, or other rules keep the pod from the nodes below (see `kubectl describe pod`)"
				: "");
		add_waits_for(out, answer, pod);
	}
}

static void add_holders(struct strbuf *out, struct json_object *object, bool whole)
{
	struct json_object *pods = json_member(object, "pods");
	int64_t more = number_of(object, "morePods");

	for (size_t i = 0; i < json_count(pods); i++) {
		struct json_object *pod = json_item(pods, i);
		const char *state = json_text_of(pod, "state");
		bool bound = strcmp(state, "bound") == 0;

		strbuf_addf(out, "%s%s/%s", i ? ", " : "; held by ", json_text_of(pod, "namespace"),
			json_text_of(pod, "name"));
		if (!whole)
			strbuf_addf(out, " %" PRId64, number_of(pod, "units"));
		if (!bound)
			strbuf_addf(out, " (%s)", state);
	}
	if (more)
		strbuf_addf(out, "%s%" PRId64 " more pods", json_count(pods) ? " and " : "; held by ", more);
}

static void add_because(struct strbuf *out, struct json_object *gpu)
{
	if (*json_text_of(gpu, "unhealthyBecause"))
		strbuf_addf(out, " (%s)", json_text_of(gpu, "unhealthyBecause"));
}

/* What is free of the GPU; a whole GPU is either free or not. */
static void add_free(struct strbuf *out, struct json_object *gpu, bool whole)
{
	if (whole) {
		strbuf_adds(out, number_of(gpu, "free") ? "free" : "taken");
		return;
	}
	strbuf_addf(out, "%" PRId64 " of %" PRId64 " units", number_of(gpu, "free"), number_of(gpu, "total"));
	if (json_member(gpu, "coreFree"))
		strbuf_addf(out, " and %" PRId64 " percent", number_of(gpu, "coreFree"));
	strbuf_adds(out, " free");
}

static void add_gpu(struct strbuf *out, struct json_object *gpu, bool judged, bool whole)
{
	bool has_reason = judged && json_member(gpu, "reason") && !(whole && is_true(gpu, "healthy"));
	int64_t turn = number_of(gpu, "turn");

	strbuf_addf(out, "  GPU %" PRId64 ": ", number_of(gpu, "index"));
	if (has_reason)
		strbuf_adds(out, json_text_of(gpu, "reason"));
	if (judged)
		add_because(out, gpu);
	if (has_reason && turn)
		strbuf_addf(out, ", choice %" PRId64, turn);
	if (has_reason)
		strbuf_adds(out, ": ");
	add_free(out, gpu, whole);
	if (!has_reason && judged && turn)
		strbuf_addf(out, ", choice %" PRId64, turn);
	if (!judged && !is_true(gpu, "healthy"))
		strbuf_adds(out, ", unhealthy");
	if (!judged)
		add_because(out, gpu);
	add_holders(out, gpu, whole);
	strbuf_adds(out, "\n");
}

static void add_links(struct strbuf *out, struct json_object *node)
{
	int64_t job = number_of(node, "ofJob");

	if (!number_of(node, "pairsGBps"))
		return;
	strbuf_adds(out, "  Links: the first choices");
	if (job)
		strbuf_addf(out, ", with the %" PRId64 " GPU%s of its job there,", job, plural(job));
	strbuf_addf(out,
		" have a ring with %" PRId64 " GB/s at its slowest link, and %" PRId64
		" GB/s between all pairs\n",
		number_of(node, "ringGBps"), number_of(node, "pairsGBps"));
}

/* Why one node comes before another. */
static void add_left(struct strbuf *out, struct json_object *node)
{
	struct json_object *left = json_member(node, "left");
	int64_t gpus = number_of(left, "gpuMilli"), stranded = number_of(left, "strandedMilli");

	if (!left)
		return;
	strbuf_addf(out,
		"  Beside the pod, %" PRId64 ".%02" PRId64 " GPUs, %" PRId64 " CPUs and %" PRId64
		" GiB of memory would stay free",
		gpus / 1000, gpus % 1000 / 10, number_of(left, "cpuMilli") / 1000,
		number_of(left, "memoryMiB") / 1024);
	if (stranded)
		strbuf_addf(out, ", too little CPU or memory for %" PRId64 ".%02" PRId64 " of these GPUs",
			stranded / 1000, stranded % 1000 / 10);
	strbuf_adds(out, ".\n");
}

static void add_node(struct strbuf *out, struct json_object *node, bool judged)
{
	bool whole = strcmp(json_text_of(node, "mode"), "topology") == 0;
	struct json_object *gpus = json_member(node, "cards");
	int64_t unplaced = number_of(node, "unplacedUnits");
	char unit[32];

	if (whole)
		strbuf_addf(out, "\nNode %s (whole GPUs)", json_text_of(node, "name"));
	else
		strbuf_addf(out, "\nNode %s (%s, unit %s)", json_text_of(node, "name"),
			json_text_of(node, "policy"),
			unit_text((uint32_t)number_of(node, "unitMiB"), unit, sizeof(unit)));
	if (judged)
		strbuf_addf(out, ": %s", json_text_of(node, "reason"));
	strbuf_adds(out, "\n");
	if (judged)
		add_links(out, node);
	if (judged)
		add_left(out, node);
	for (size_t i = 0; i < json_count(gpus); i++)
		add_gpu(out, json_item(gpus, i), judged, whole);
	if (!unplaced)
		return;
	strbuf_addf(out, "  %" PRId64 " unit%s count against the node as a whole: pods without a GPU",
		unplaced, plural(unplaced));
	add_holders(out, node, whole);
	strbuf_adds(out, "\n");
}

static void add_nodes(struct strbuf *out, struct json_object *answer, bool judged)
{
	struct json_object *nodes = json_member(answer, "nodes"), *more = json_member(answer, "moreNodes");

	if (json_member(answer, "nodes") && !json_count(nodes))
		strbuf_adds(out,
			"\nThere is no such node with GPUs. Label GPU nodes " LABEL_SCHEDULE
			"=share, and see that the DaemonSet gpushare-device-plugin-ds in " NAMESPACE_SYSTEM
			" runs there.\n");
	for (size_t i = 0; i < json_count(nodes); i++)
		add_node(out, json_item(nodes, i), judged);
	for (size_t i = 0; i < json_count(more); i++) {
		struct json_object *group = json_item(more, i), *examples = json_member(group, "examples");
		int64_t n = number_of(group, "nodes");

		strbuf_addf(
			out, "\n%" PRId64 " more node%s: %s (", n, plural(n), json_text_of(group, "reason"));
		for (size_t k = 0; k < json_count(examples); k++)
			strbuf_addf(out, "%s%s", k ? ", " : "", json_string(json_item(examples, k)));
		strbuf_adds(
			out, (size_t)n > json_count(examples) ? ", ...; --node NODE shows one)\n" : ")\n");
	}
}

/* told: the text already contains the last answer. */
static void add_level(struct json_object *answer, bool told, struct strbuf *out)
{
	struct json_object *level = json_member(answer, "resourcePolicy");

	if (!level)
		return;
	if (is_true(level, "waits")) {
		strbuf_adds(out, "It waits for a level, for ");
		add_duration(out, number_of(level, "waitsForMs"));
	} else if (number_of(level, "level")) {
		strbuf_addf(out, "It is in level %" PRId64 " of %" PRId64 " (%s) of ResourcePolicy %s",
			number_of(level, "level"), number_of(level, "levels"),
			json_text_of(level, "resource"), json_text_of(level, "policy"));
	} else {
		strbuf_addf(out, "It is in no level of ResourcePolicy %s", json_text_of(level, "policy"));
	}
	if (*json_text_of(level, "text") && !told)
		strbuf_addf(out, ". Last answer: %s", json_text_of(level, "text"));
	strbuf_adds(out, ".\n");
}

int why_policy_text(struct json_object *answer, const char *who, struct strbuf *out)
{
	strbuf_addf(out, "Pod %s asks for no " RESOURCE_GPU_MEM ".\n", who);
	add_level(answer, false, out);
	why_add_decisions(answer, who, out);
	if (!out->failed)
		printable_lines(out);
	return out->failed;
}

int why_text(struct json_object *answer, const char *who, struct strbuf *out)
{
	struct json_object *pod = json_member(answer, "pod");

	if (!is_true(answer, "ready"))
		strbuf_adds(
			out, "The scheduler has not read all nodes and pods yet: ask again in a moment.\n");
	if (pod)
		add_pod(out, answer, pod, who);
	else
		strbuf_addf(out,
			"The scheduler's ledger has no pod %s: it has ended, or was created a moment ago.\n",
			who);
	add_level(answer, waits_for_level(answer, pod), out);
	add_nodes(out, answer, !is_bound(pod));
	why_add_decisions(answer, who, out);
	if (!out->failed)
		printable_lines(out);
	return out->failed;
}
