/* The answer of why_claims_read() as text. */
#include "cli/why.h"

#include <inttypes.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/tabwriter.h"
#include "kube/json.h"

#define TEXT_MAX (32u << 20)
#define ROWS_MAX 100

static void add_amounts(struct strbuf *out, struct json_object *object, const char *before)
{
	if (!json_member(object, "memoryBytes") && !json_member(object, "cores"))
		return;
	strbuf_adds(out, before);
	if (json_member(object, "memoryBytes")) {
		add_bytes(out, (uint64_t)number_of(object, "memoryBytes"));
		strbuf_adds(out, " of memory");
	}
	if (!number_of(object, "cores"))
		return;
	strbuf_addf(out, "%s%" PRId64 " percent of computing power",
		json_member(object, "memoryBytes") ? " and " : "", number_of(object, "cores"));
}

static void add_gpu(struct strbuf *out, struct json_object *device)
{
	const char *model = json_text_of(device, "model");

	if (json_member(device, "index"))
		strbuf_addf(out, "GPU %" PRId64, number_of(device, "index"));
	else
		strbuf_addf(out, "device %s", json_text_of(device, "device"));
	strbuf_addf(out, " of node %s", json_text_of(device, "node"));
	if (*json_text_of(device, "uuid"))
		strbuf_addf(out, " (%s%s%s)", model, *model ? ", " : "", json_text_of(device, "uuid"));
}

static void add_share(struct strbuf *out, struct json_object *share)
{
	strbuf_adds(out, "  ");
	add_gpu(out, share);
	if (number_of(share, "memoryBytes"))
		add_amounts(out, share, ": ");
	strbuf_adds(
		out, is_true(share, "gone")
			     ? ". No ResourceSlice lists this device: it is gone, or the node's agent has "
			       "withdrawn it; the pod does not start. `ration doctor` says what to do.\n"
			     : ".\n");
}

static void add_allocated(struct strbuf *out, struct json_object *claim)
{
	struct json_object *shares = json_member(claim, "allocated"),
			   *others = json_member(claim, "otherPods");

	if (!json_count(shares)) {
		strbuf_addf(out, "Claim %s is allocated, and has no GPU of ration.\n",
			json_text_of(claim, "name"));
		return;
	}
	strbuf_addf(out, "Claim %s is allocated:\n", json_text_of(claim, "name"));
	for (size_t i = 0; i < json_count(shares); i++)
		add_share(out, json_item(shares, i));
	if (!is_true(claim, "reserved"))
		strbuf_addf(out,
			"It is not reserved for this pod. The pod can only run on node %s, where the claim's GPU is.\n",
			json_text_of(json_item(shares, 0), "node"));
	for (size_t i = 0; i < json_count(others); i++)
		strbuf_addf(
			out, "%s%s", i ? ", " : "It is shared with pod ", json_string(json_item(others, i)));
	strbuf_adds(out, json_count(others) ? ".\n" : "");
}

static size_t count_result(struct json_object *devices, const char *result)
{
	size_t n = 0;

	for (size_t i = 0; i < json_count(devices); i++)
		n += strcmp(json_text_of(json_item(devices, i), "result"), result) == 0;
	return n;
}

static void add_row(struct strbuf *rows, struct json_object *device)
{
	strbuf_addf(rows, "  %s\t%s\t", json_text_of(device, "node"), json_text_of(device, "device"));
	add_bytes(rows, (uint64_t)number_of(device, "freeMemoryBytes"));
	strbuf_adds(rows, " of ");
	add_bytes(rows, (uint64_t)number_of(device, "memoryBytes"));
	strbuf_addf(
		rows, "\t%" PRId64 "%%\t%s\n", number_of(device, "freeCores"), json_text_of(device, "text"));
}

static void add_devices(struct strbuf *out, struct json_object *devices, const char *node)
{
	_cleanup_strbuf_ struct strbuf rows;
	size_t n = 0;

	strbuf_init(&rows, TEXT_MAX);
	strbuf_adds(&rows, "  NODE\tDEVICE\tFREE MEMORY\tFREE CORES\tRESULT\n");
	for (size_t i = 0; i < json_count(devices); i++) {
		struct json_object *device = json_item(devices, i);

		if ((!node || strcmp(json_text_of(device, "node"), node) == 0) && n++ < ROWS_MAX)
			add_row(&rows, device);
	}
	if (rows.failed || (n && tabwriter_format(strbuf_cstr(&rows), out) < 0))
		strbuf_adds(out, "  (out of memory)\n");
	if (n > ROWS_MAX)
		strbuf_addf(out,
			"  %zu further devices are not listed: --node names a node, -o json lists all.\n",
			n - ROWS_MAX);
}

static void add_conclusion(struct strbuf *out, struct json_object *request)
{
	struct json_object *devices = json_member(request, "devices");
	size_t n = json_count(devices), fit = count_result(devices, "fits"),
	       unknown = count_result(devices, "unknown");

	if (!is_true(request, "classExists"))
		strbuf_addf(out,
			"  There is no DeviceClass %s: no device is considered. `kubectl get deviceclasses` lists them; "
			"the chart ack-ai-installer creates those of ration.\n",
			json_text_of(request, "class"));
	else if (!n)
		strbuf_adds(out, "  No node publishes a GPU to claims: label a GPU node "
				 "ack.node.gpu.schedule=dra, and look at `ration doctor`.\n");
	else if (count_result(devices, "selector") == n)
		strbuf_adds(out, "  Its selectors select no device of ration.\n");
	else if (!fit && !unknown)
		strbuf_addf(out, "  None of %zu device%s fits now.\n", n, plural((int64_t)n));
	else if (!fit)
		strbuf_addf(out, "  %zu of %zu device%s may fit now.\n", unknown, n, plural((int64_t)n));
	else if (number_of(request, "count") > (int64_t)fit)
		strbuf_addf(out, "  %zu of %zu device%s %s now, and %" PRId64 " on one node are asked for.\n",
			fit, n, plural((int64_t)n), fit == 1 ? "fits" : "fit", number_of(request, "count"));
	else
		strbuf_addf(out,
			"  %zu of %zu device%s %s now: something else keeps the pod from %s (`kubectl describe pod`), "
			"or kube-scheduler has not tried again yet.\n",
			fit, n, plural((int64_t)n), fit == 1 ? "fits" : "fit",
			fit == 1 ? "its node" : "their nodes");
}

static void add_request(struct strbuf *out, struct json_object *request, const char *node)
{
	strbuf_addf(out, "  Request %s asks for ", json_text_of(request, "name"));
	if (json_member(request, "count"))
		strbuf_addf(out, "%" PRId64 " device%s", number_of(request, "count"),
			plural(number_of(request, "count")));
	else
		strbuf_adds(out, "all devices");
	strbuf_addf(out, " of class %s", json_text_of(request, "class"));
	add_amounts(out, request, " with ");
	strbuf_adds(out, ".\n");
	add_conclusion(out, request);
	add_devices(out, json_member(request, "devices"), node);
}

static void add_claim(struct strbuf *out, struct json_object *claim, const char *node)
{
	struct json_object *requests = json_member(claim, "requests");
	const char *state = json_text_of(claim, "state"), *name = json_text_of(claim, "name");

	strbuf_adds(out, "\n");
	if (strcmp(state, "notCreated") == 0)
		strbuf_addf(out,
			"The claim of template %s is not created yet: kube-controller-manager does so. "
			"`kubectl describe pod` shows why it cannot.\n",
			json_text_of(claim, "template"));
	else if (strcmp(state, "missing") == 0)
		strbuf_addf(out, "Claim %s does not exist: create it, and the pod is scheduled.\n", name);
	else if (strcmp(state, "invalid") == 0)
		strbuf_addf(out, "Claim %s cannot be used: %s.\n", name, json_text_of(claim, "problem"));
	else if (strcmp(state, "allocated") == 0)
		add_allocated(out, claim);
	else
		strbuf_addf(out, "Claim %s is not allocated.\n", name);
	for (size_t i = 0; i < json_count(requests); i++)
		add_request(out, json_item(requests, i), node);
}

int why_claims_text(struct json_object *answer, const char *node, struct strbuf *out)
{
	struct json_object *claims = json_member(answer, "claims");
	const char *message = json_text_of(answer, "kubeScheduler");

	strbuf_addf(out,
		"Pod %s/%s asks for devices by ResourceClaims. kube-scheduler allocates them; ration's scheduler has no "
		"part in that.\n",
		json_text_of(answer, "namespace"), json_text_of(answer, "name"));
	if (*json_text_of(answer, "node"))
		strbuf_addf(out, "It is on node %s.\n", json_text_of(answer, "node"));
	else if (*message)
		strbuf_addf(out, "It is not scheduled: %s\n", message);
	for (size_t i = 0; i < json_count(claims); i++)
		add_claim(out, json_item(claims, i), node);
	return out->failed;
}
