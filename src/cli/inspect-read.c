#include "cli/inspect-read.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/kubectl.h"
#include "kube/json.h"
#include "kube/json-split.h"
#include "kube/names.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "model/quantity.h"
#include "model/units.h"

#define PAGE_ITEMS 500
#define PAGE_BYTES_MAX (256u << 20)
#define ITEM_MAX (4 << 20)
#define PAGES_MAX 10000
#define WARNINGS_TOLD_MAX 10
#define ALLOCATION_TEXT_MAX 65536

typedef int item_reader(
	struct inspect *inspect, struct json_object *item, struct warnings *warnings, struct error *err);

static void warn(struct warnings *warnings, const char *text)
{
	warnings->n++;
	if (!warnings->tell)
		return;
	if (warnings->n <= WARNINGS_TOLD_MAX)
		warnings->tell(warnings->userdata, text);
	if (warnings->n == WARNINGS_TOLD_MAX + 1)
		warnings->tell(warnings->userdata, "further objects that cannot be understood are not named");
}

static int64_t allocatable(struct json_object *node, const char *resource)
{
	struct json_object *list = json_member(json_member(node, "status"), "allocatable");
	const char *text = json_member_string(list, resource);
	int64_t value;

	if (!text)
		return 0;
	switch (quantity_parse_count(text, &value)) {
	case 0:
		return value;
	case -ERANGE:
		return INT64_MAX;
	default:
		return 0;
	}
}

static int read_node(
	struct inspect *inspect, struct json_object *item, struct warnings *warnings, struct error *err)
{
	_cleanup_node_facts_ struct node_facts facts;
	struct node_capacity capacity = {.gpu_mem = allocatable(item, RESOURCE_GPU_MEM),
		.gpu_count = allocatable(item, RESOURCE_GPU_COUNT)};
	struct error reason;
	int r;

	node_facts_init(&facts);
	r = node_facts_from_json(item, &facts, &reason);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (*reason.text)
		warn(warnings, reason.text);
	if (r < 0)
		return 0;
	if (inspect_add_node(inspect, &facts, &capacity) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* {"0":{"1":3}}: container 0 has 3 units of GPU 1. Returns false if the text has another form. */
static bool add_older_container(struct json_object *gpus, struct older_placement *older)
{
	if (!json_object_is_type(gpus, json_type_object))
		return false;
	json_object_object_foreach (gpus, index_text, value) {
		uint32_t index;
		int64_t units;

		if (parse_u32(index_text, NODE_GPUS_MAX - 1, &index) < 0 ||
			json_whole(value, 0, UNITS_MAX, &units) < 0)
			return false;
		older->units[index] = units_add(older->units[index], (uint32_t)units);
	}
	return true;
}

static bool older_from_allocation(const char *text, struct older_placement *ret_older)
{
	_cleanup_json_ struct json_object *containers = NULL;
	struct older_placement older = {0};

	if (strlen(text) > ALLOCATION_TEXT_MAX || json_parse(text, strlen(text), &containers, NULL) < 0 ||
		!json_object_is_type(containers, json_type_object) || !json_object_object_length(containers))
		return false;
	json_object_object_foreach (containers, container, gpus) {
		(void)container;
		if (!add_older_container(gpus, &older))
			return false;
	}
	*ret_older = older;
	return true;
}

static bool older_from_index(
	const char *text, const struct request *request, struct older_placement *ret_older)
{
	uint32_t index;

	if (parse_u32(text, NODE_GPUS_MAX - 1, &index) < 0)
		return false;
	*ret_older = (struct older_placement){0};
	ret_older->units[index] = request->units;
	return true;
}

/* Reads only pods that ration's scheduler has not placed: if there is a ration.dev/placement, nothing else
 * counts. */
static bool read_older(
	struct json_object *pod, const struct request *request, struct older_placement *ret_older)
{
	struct json_object *annotations = json_member(json_member(pod, "metadata"), "annotations");
	const char *allocation = json_member_string(annotations, ANNOTATION_ALLOCATION);
	const char *index = json_member_string(annotations, ANNOTATION_MEM_IDX);

	if (json_member(annotations, ANNOTATION_PLACEMENT))
		return false;
	if (allocation && older_from_allocation(allocation, ret_older))
		return true;
	return index && older_from_index(index, request, ret_older);
}

static int read_pod(
	struct inspect *inspect, struct json_object *item, struct warnings *warnings, struct error *err)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct older_placement older;
	struct error reason;
	bool has_older;
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(item, &facts, &reason);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (*reason.text)
		warn(warnings, reason.text);
	/* An invalid pod matters only if it occupies something: with a bad label for several GPUs, it still
	 * has its units. */
	if (r < 0 && request_is_empty(&facts.request))
		return 0;
	has_older = read_older(item, &facts.request, &older);
	if (inspect_add_pod(inspect, &facts, has_older ? &older : NULL) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* ---- one page, while it arrives -------------------------------------------------------------------------
 */

/* Members of nodes and pods that are not needed; they are most of the text. */
static const char *const unwanted[] = {"managedFields", "images", "conditions", "nodeInfo", "env", "envFrom",
	"command", "args", "volumes", "volumeMounts", "volumesAttached", "volumesInUse", "tolerations",
	"affinity", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
	"securityContext", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", NULL};
#define UNWANTED_DEPTH_MAX 4 /* item, spec, containers, container */

struct page {
	struct inspect *inspect;
	const char *kind; /* the kind of the list's objects */
	item_reader *read;
	const char *sign; /* a text that occurs in every object that matters */
	struct warnings *warnings;
	struct error *err;
	bool told; /* err has a sentence */
	size_t seen;
	struct json_split split;
};

static int page_failed(struct page *page, int r)
{
	bool at_end = json_split_end(&page->split) == 0;

	page->told = true;
	if (r == -EMSGSIZE)
		return error_set(page->err, EMSGSIZE, "the API server's answer has an object over %d MiB",
			ITEM_MAX >> 20);
	if (r == -ENOMEM)
		return error_set(page->err, ENOMEM, "out of memory");
	return error_set(page->err, EBADMSG, "the API server's answer cannot be read: %s",
		at_end ? "text after the end" : "it is no valid JSON, or no NodeList or PodList");
}

/* An invalid object must not hide the others. */
static int page_on_item(void *userdata, const char *text, size_t len)
{
	_cleanup_json_ struct json_object *item = NULL;
	struct page *page = userdata;
	struct error reason = {""};
	int r;

	if (!memmem(text, len, page->sign, strlen(page->sign)))
		return 0;
	r = json_parse(text, len, &item, &reason);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		error_prefix(&reason, "an object of the %s is left out", page->kind);
		warn(page->warnings, reason.text);
		return 0;
	}
	r = page->read(page->inspect, item, page->warnings, page->err);
	page->told |= r < 0;
	return r;
}

static int page_on_data(void *userdata, const char *data, size_t len)
{
	struct page *page = userdata;
	int r;

	page->seen += len;
	if (page->seen > PAGE_BYTES_MAX) {
		page->told = true;
		return error_set(page->err, EMSGSIZE, "the API server's answer is longer than %u MiB",
			PAGE_BYTES_MAX >> 20);
	}
	r = json_split_feed(&page->split, data, len);
	return r < 0 && !page->told ? page_failed(page, r) : r;
}

/* Reads the text around the items: *ret_continue is the token of the next page, or NULL. */
static int page_end(struct page *page, char **ret_continue)
{
	_cleanup_json_ struct json_object *list = NULL;
	const char *rest = json_split_rest(&page->split), *kind, *token;
	struct json_object *items;

	if (json_split_end(&page->split) < 0)
		return error_set(page->err, EBADMSG, "the API server's answer ends in the middle");
	if (json_parse(rest, strlen(rest), &list, page->err) < 0) {
		error_prefix(page->err, "the API server's answer cannot be read");
		return -EBADMSG;
	}
	kind = json_member_string(list, "kind");
	items = json_member(list, "items");
	if (!kind || strcmp(kind, page->kind) != 0)
		return error_set(page->err, EBADMSG, "the API server's answer is no %s but %.64s", page->kind,
			kind ? kind : "something without a kind");
	if (items && !json_object_is_type(items, json_type_array))
		return error_set(
			page->err, EBADMSG, "the items of the API server's %s are no list", page->kind);
	token = json_member_string(json_member(list, "metadata"), "continue");
	*ret_continue = token && *token ? strdup(token) : NULL;
	return token && *token && !*ret_continue ? error_set(page->err, ENOMEM, "out of memory") : 0;
}

/* Unreserved characters of RFC 3986 stay; all others become %XX. */
static void add_escaped(struct strbuf *url, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			strbuf_add(url, text, 1);
		else
			strbuf_addf(url, "%%%02X", (unsigned char)*text);
}

static int fetch_page(
	const struct kubectl *kubectl, const char *url, const struct page *of, char **ret_continue)
{
	struct page page = *of;
	int r;

	json_split_init(&page.split, JSON_SPLIT_LIST, ITEM_MAX, page_on_item, &page);
	json_split_leave_out(&page.split, unwanted, UNWANTED_DEPTH_MAX);
	r = kubectl_stream_raw(kubectl, url, page_on_data, &page, page.err);
	if (r == 0)
		r = page_end(&page, ret_continue);
	json_split_release(&page.split);
	return r;
}

/* Fetches all pages of a list; url ends in a query to which more can be added. */
static int fetch_list(
	const struct kubectl *kubectl, const char *url, const struct page *of, struct error *err)
{
	_cleanup_free_ char *token = NULL;

	for (int page = 0; page < PAGES_MAX; page++) {
		_cleanup_strbuf_ struct strbuf next;
		_cleanup_free_ char *following = NULL;
		int r;

		strbuf_init(&next, 65536);
		strbuf_adds(&next, url);
		if (token) {
			strbuf_adds(&next, "&continue=");
			add_escaped(&next, token);
		}
		if (next.failed)
			return error_set(err, -next.failed, "the API server's page token is too long");
		r = fetch_page(kubectl, strbuf_cstr(&next), of, &following);
		if (r < 0 || !following)
			return r;
		if (token && strcmp(token, following) == 0)
			return error_set(err, EBADMSG, "the API server gives the same page again and again");
		free(token);
		token = TAKE_PTR(following);
	}
	return error_set(err, EBADMSG, "the API server's list has more than %d pages", PAGES_MAX);
}

static void add_page_limit(struct strbuf *url)
{
	strbuf_addf(url, "?limit=%d", PAGE_ITEMS);
}

/* In many clusters most pods have finished; the selector makes the API server leave them out. */
static void add_pod_selector(struct strbuf *url, const char *node)
{
	strbuf_adds(url, "&fieldSelector=");
	add_escaped(url, "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName");
	add_escaped(url, node ? "=" : "!=");
	add_escaped(url, node ? node : "");
}

static int fetch_node(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_strbuf_ struct strbuf url, body;
	int r;

	strbuf_init(&url, 4096);
	strbuf_init(&body, ITEM_MAX);
	strbuf_adds(&url, "/api/v1/nodes/");
	add_escaped(&url, node);
	r = kubectl_get_raw(kubectl, strbuf_cstr(&url), &body, err);
	if (r < 0)
		return r;
	r = json_parse(strbuf_cstr(&body), body.len, &object, err);
	if (r < 0)
		error_prefix(err, "the API server's answer cannot be read");
	return r < 0 ? r : read_node(inspect, object, warnings, err);
}

static int fetch_nodes(
	struct inspect *inspect, const struct kubectl *kubectl, struct warnings *warnings, struct error *err)
{
	struct page page = {
		.inspect = inspect, .kind = "NodeList", .read = read_node, .warnings = warnings, .err = err};
	_cleanup_strbuf_ struct strbuf url;

	/* The text is part of annotations and of allocatable: a node with neither has nothing to show. */
	page.sign = "gpu";
	strbuf_init(&url, 4096);
	strbuf_adds(&url, "/api/v1/nodes");
	add_page_limit(&url);
	return fetch_list(kubectl, strbuf_cstr(&url), &page, err);
}

static int fetch_pods(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	struct page page = {
		.inspect = inspect, .kind = "PodList", .read = read_pod, .warnings = warnings, .err = err};
	_cleanup_strbuf_ struct strbuf url;

	page.sign = inspect->topology ? "\"" RESOURCE_GPU "\"" : RESOURCE_GPU_MEM;
	strbuf_init(&url, 4096);
	strbuf_adds(&url, "/api/v1/pods");
	add_page_limit(&url);
	add_pod_selector(&url, node);
	return fetch_list(kubectl, strbuf_cstr(&url), &page, err);
}

int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	int r = node ? fetch_node(inspect, kubectl, node, warnings, err)
		     : fetch_nodes(inspect, kubectl, warnings, err);

	if (r == 0)
		r = fetch_pods(inspect, kubectl, node, warnings, err);
	if (r == 0 && inspect_finish(inspect) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return r;
}
