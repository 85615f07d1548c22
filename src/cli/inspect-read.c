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
#include "kube/names.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "model/quantity.h"
#include "model/units.h"

#define PAGE_ITEMS 500
#define PAGE_BYTES_MAX (256u << 20)
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

/* {"0":{"1":3}}: container 0 has 3 units of GPU 1. False if anything about it is not so. */
static bool add_older_container(struct json_object *cards, struct older_placement *older)
{
	if (!json_object_is_type(cards, json_type_object))
		return false;
	json_object_object_foreach (cards, index_text, value) {
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
	json_object_object_foreach (containers, container, cards) {
		(void)container;
		if (!add_older_container(cards, &older))
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

/* Only pods that our scheduler has not placed: where there is a ration.dev/placement, nothing else counts. */
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
	/* Of no interest unless it takes something: a bad label for several cards leaves the units. */
	if (r < 0 && request_is_empty(&facts.request))
		return 0;
	has_older = read_older(item, &facts.request, &older);
	if (inspect_add_pod(inspect, &facts, has_older ? &older : NULL) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int read_continue(struct json_object *page, char **ret_continue, struct error *err)
{
	const char *token = json_member_string(json_member(page, "metadata"), "continue");

	*ret_continue = NULL;
	if (!token || !*token)
		return 0;
	*ret_continue = strdup(token);
	return *ret_continue ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int read_items(struct inspect *inspect, struct json_object *page, const char *kind, item_reader *read,
	struct warnings *warnings, struct error *err)
{
	struct json_object *items = json_member(page, "items");
	const char *got = json_member_string(page, "kind");
	int r = 0;

	if (!got || strcmp(got, kind) != 0)
		return error_set(err, EBADMSG, "the API server's answer is no %s but %.64s", kind,
			got ? got : "something without a kind");
	if (items && !json_object_is_type(items, json_type_array))
		return error_set(err, EBADMSG, "the items of the API server's %s are no list", kind);
	for (size_t i = 0; items && i < json_object_array_length(items) && r == 0; i++)
		r = read(inspect, json_object_array_get_idx(items, i), warnings, err);
	return r;
}

static int parse_page(const char *text, size_t len, struct json_object **ret_page, struct error *err)
{
	int r = json_parse(text, len, ret_page, err);

	if (r < 0)
		error_prefix(err, "the API server's answer cannot be read");
	return r;
}

int inspect_read_nodes(struct inspect *inspect, const char *text, size_t len, struct warnings *warnings,
	char **ret_continue, struct error *err)
{
	_cleanup_json_ struct json_object *page = NULL;
	const char *kind;
	int r = parse_page(text, len, &page, err);

	if (r < 0)
		return r;
	kind = json_member_string(page, "kind");
	if (kind && strcmp(kind, "Node") == 0)
		r = read_node(inspect, page, warnings, err);
	else
		r = read_items(inspect, page, "NodeList", read_node, warnings, err);
	return r < 0 ? r : read_continue(page, ret_continue, err);
}

int inspect_read_pods(struct inspect *inspect, const char *text, size_t len, struct warnings *warnings,
	char **ret_continue, struct error *err)
{
	_cleanup_json_ struct json_object *page = NULL;
	int r = parse_page(text, len, &page, err);

	if (r == 0)
		r = read_items(inspect, page, "PodList", read_pod, warnings, err);
	return r < 0 ? r : read_continue(page, ret_continue, err);
}

/* What RFC 3986 leaves unreserved stays, everything else becomes %XX. */
static void add_escaped(struct strbuf *url, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			strbuf_add(url, text, 1);
		else
			strbuf_addf(url, "%%%02X", (unsigned char)*text);
}

typedef int page_reader(struct inspect *inspect, const char *text, size_t len, struct warnings *warnings,
	char **ret_continue, struct error *err);

static int fetch_page(struct inspect *inspect, const struct kubectl *kubectl, const char *url,
	page_reader *read, struct warnings *warnings, char **ret_continue, struct error *err)
{
	_cleanup_strbuf_ struct strbuf body;
	int r;

	strbuf_init(&body, PAGE_BYTES_MAX);
	r = kubectl_get_raw(kubectl, url, &body, err);
	if (r < 0)
		return r;
	return read(inspect, strbuf_cstr(&body), body.len, warnings, ret_continue, err);
}

/* All pages of a list; url ends in a query that more can be added to. */
static int fetch_list(struct inspect *inspect, const struct kubectl *kubectl, const char *url,
	page_reader *read, struct warnings *warnings, struct error *err)
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
		r = fetch_page(inspect, kubectl, strbuf_cstr(&next), read, warnings, &following, err);
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

/* Finished pods are most of the pods of many clusters; the API server leaves them out. */
static void add_pod_selector(struct strbuf *url, const char *node)
{
	strbuf_adds(url, "&fieldSelector=");
	add_escaped(url, "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName");
	add_escaped(url, node ? "=" : "!=");
	add_escaped(url, node ? node : "");
}

int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	_cleanup_strbuf_ struct strbuf url;
	_cleanup_free_ char *token = NULL;
	int r;

	strbuf_init(&url, 4096);
	strbuf_adds(&url, "/api/v1/nodes");
	if (node) {
		strbuf_add(&url, "/", 1);
		add_escaped(&url, node);
		r = fetch_page(
			inspect, kubectl, strbuf_cstr(&url), inspect_read_nodes, warnings, &token, err);
	} else {
		add_page_limit(&url);
		r = fetch_list(inspect, kubectl, strbuf_cstr(&url), inspect_read_nodes, warnings, err);
	}
	if (r < 0)
		return r;
	strbuf_clear(&url);
	strbuf_adds(&url, "/api/v1/pods");
	add_page_limit(&url);
	add_pod_selector(&url, node);
	r = fetch_list(inspect, kubectl, strbuf_cstr(&url), inspect_read_pods, warnings, err);
	if (r == 0)
		inspect_finish(inspect);
	return r;
}
