#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json-split.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"

/* Valid texts, cut and mutated at random, through everything that reads what others wrote: nothing may crash,
 * leak or read beyond (the sanitizer build sees it), and what is accepted must keep the promises of the
 * headers. RATION_FUZZ_ROUNDS makes it longer, RATION_FUZZ_SEED repeats a run. */

#define ROUNDS_DEFAULT 3000
#define TEXT_MAX 8192

static const char placement[] =
	"{\"unit\":1024,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":3,\"core\":30}],"
	"\"side\":[{\"uuid\":\"GPU-1\",\"units\":1}]}}";
static const char inventory[] =
	"[{\"index\":0,\"uuid\":\"GPU-0\",\"model\":\"V100\",\"mib\":16160,\"healthy\":true},"
	"{\"index\":1,\"uuid\":\"GPU-1\",\"mib\":81559,\"healthy\":false}]";
static const char pod[] =
	"{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"d\",\"managedFields\":[{\"f:x\":{}}],"
	"\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}],\"annotations\":{\"ration.dev/placement\":"
	"\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[{\\\"uuid\\\":\\\"G\\\",\\\"units\\\":3}]}}"
	"\"}},"
	"\"spec\":{\"nodeName\":\"n\",\"priority\":5,\"initContainers\":[{\"name\":\"i\",\"restartPolicy\":"
	"\"Always\"}],"
	"\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]},"
	"\"status\":{\"phase\":\"Running\"}}";
static const char node[] =
	"{\"metadata\":{\"uid\":\"u1\",\"name\":\"n\",\"labels\":{\"ack.node.gpu.placement\":\"spread\"},"
	"\"annotations\":{\"ration.dev/mode\":\"share\",\"ration.dev/unit\":\"1024\",\"ration.dev/gpus\":"
	"\"[{\\\"index\\\":0,\\\"uuid\\\":\\\"G\\\",\\\"mib\\\":1,\\\"healthy\\\":true}]\"}},\"status\":"
	"{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}]}}";

static unsigned int seed;

static unsigned int draw(unsigned int below)
{
	return (unsigned int)rand_r(&seed) % below;
}

static int rounds(void)
{
	const char *text = getenv("RATION_FUZZ_ROUNDS");

	return text ? atoi(text) : ROUNDS_DEFAULT;
}

static size_t insert(char *text, size_t len, size_t at, const char *piece)
{
	size_t n = strlen(piece);

	if (len + n >= TEXT_MAX)
		return len;
	memmove(text + at + n, text + at, len - at);
	memcpy(text + at, piece, n);
	return len + n;
}

static size_t mutate_once(char *text, size_t len)
{
	static const char *const pieces[] = {"{", "}", "[", "]", "\"", "\\", ",", ":", "null", "-", "1e999",
		"99999999999999999999", "\\u0000", "\\ud800", "\xff", "{\"a\":", "[[[[[[[[[[", "0", " ", "\n",
		"\"items\":[", "\"managedFields\":["};
	size_t at = draw((unsigned int)len + 1), n;

	switch (draw(5)) {
	case 0:
		return at;
	case 1:
		if (at < len)
			text[at] = (char)draw(256);
		return len;
	case 2:
		n = draw(20);
		if (at + n > len)
			n = len - at;
		memmove(text + at, text + at + n, len - at - n);
		return len - n;
	default:
		return insert(text, len, at, pieces[draw(ARRAY_SIZE(pieces))]);
	}
}

/* In memory of exactly its size, so that the sanitizer sees one byte too far. The caller frees. */
static char *mutant(const char *original, size_t *ret_len)
{
	char text[TEXT_MAX];
	size_t len = strlen(original);
	char *exact;

	memcpy(text, original, len);
	for (unsigned int i = draw(4) + 1; i; i--)
		len = mutate_once(text, len);
	exact = malloc(len + 1);
	memcpy(exact, text, len);
	exact[len] = '\0';
	*ret_len = len;
	return exact;
}

static void mutated_placements_are_read_or_refused(void **state)
{
	for (int i = rounds(); i; i--) {
		_cleanup_placement_ struct placement read, again;
		_cleanup_free_ char *back = NULL, *text = NULL;
		struct error err = {0};
		size_t len;
		int r;

		placement_init(&read);
		placement_init(&again);
		text = mutant(placement, &len);
		r = placement_from_json(text, &read, &err);
		assert_true(r == 0 || (r == -EINVAL && err.text[0]));
		if (r < 0)
			continue;
		back = placement_to_json(&read);
		assert_int_equal(placement_from_json(back, &again, NULL), 0);
		assert_true(placement_equal(&read, &again));
	}
}

static void mutated_inventories_are_read_or_refused(void **state)
{
	for (int i = rounds(); i; i--) {
		struct gpu_facts gpus[NODE_GPUS_MAX];
		_cleanup_free_ char *text = NULL;
		struct error err = {0};
		size_t len, n = 0;
		int r;

		text = mutant(inventory, &len);
		r = inventory_from_json(text, gpus, &n, &err);
		assert_true(r == 0 || (r == -EINVAL && err.text[0]));
		assert_true(n <= NODE_GPUS_MAX);
		for (size_t j = 0; j < n; j++)
			assert_true(gpus[j].mib > 0 && gpus[j].uuid[0] &&
				    (j == 0 || gpus[j].index > gpus[j - 1].index));
	}
}

static void mutated_pods_are_read_or_refused(void **state)
{
	for (int i = rounds(); i; i--) {
		_cleanup_json_ struct json_object *object = NULL;
		_cleanup_pod_facts_ struct pod_facts facts = {0};
		_cleanup_free_ char *text = NULL;
		size_t len;

		text = mutant(pod, &len);
		if (json_parse(text, len, &object, NULL) < 0)
			continue;
		if (pod_facts_from_json(object, &facts, NULL) == 0)
			assert_true(*facts.uid && *facts.name && *facts.namespace_);
		else
			assert_true(request_is_empty(&facts.request));
		assert_true(!facts.has_placement || placement_matches(&facts.placement, &facts.request));
	}
}

static void mutated_nodes_are_read_or_refused(void **state)
{
	for (int i = rounds(); i; i--) {
		_cleanup_json_ struct json_object *object = NULL;
		_cleanup_node_facts_ struct node_facts facts = {0};
		_cleanup_free_ char *text = NULL;
		struct error err;
		size_t len;

		text = mutant(node, &len);
		if (json_parse(text, len, &object, NULL) < 0 ||
			node_facts_from_json(object, &facts, &err) < 0)
			continue;
		assert_true(*facts.name && *facts.uid && facts.unit_mib > 0);
		assert_true(!err.text[0] || facts.n_gpus == 0);
	}
}

static int parse_item(void *userdata, const char *text, size_t len)
{
	_cleanup_json_ struct json_object *object = NULL;
	size_t *items = userdata;

	(*items)++;
	return json_parse(text, len, &object, NULL) == -ENOMEM ? -ENOMEM : 0;
}

static int feed_in_chunks(const char *text, size_t len, unsigned int chunk_max, size_t *ret_items)
{
	struct json_split split;
	int r = 0;

	*ret_items = 0;
	json_split_init(&split, JSON_SPLIT_LIST, 2048, parse_item, ret_items);
	for (size_t at = 0, n; at < len && r == 0; at += n) {
		n = draw(chunk_max) + 1;
		if (n > len - at)
			n = len - at;
		r = json_split_feed(&split, text + at, n);
	}
	if (r == 0)
		r = json_split_end(&split);
	json_split_release(&split);
	return r;
}

static void mutated_lists_are_cut_alike_in_chunks_of_any_size(void **state)
{
	char list[TEXT_MAX];

	snprintf(list, sizeof(list), "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[%s,%s,{}]}", pod,
		node);
	for (int i = rounds(); i; i--) {
		_cleanup_free_ char *text = NULL;
		size_t len, whole, parts;
		int r;

		text = mutant(list, &len);
		r = feed_in_chunks(text, len, TEXT_MAX, &whole);
		assert_true(r == 0 || r == -EBADMSG || r == -EMSGSIZE);
		assert_int_equal(feed_in_chunks(text, len, 7, &parts), r);
		assert_int_equal(whole, parts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutated_placements_are_read_or_refused),
		cmocka_unit_test(mutated_inventories_are_read_or_refused),
		cmocka_unit_test(mutated_pods_are_read_or_refused),
		cmocka_unit_test(mutated_nodes_are_read_or_refused),
		cmocka_unit_test(mutated_lists_are_cut_alike_in_chunks_of_any_size),
	};
	const char *given = getenv("RATION_FUZZ_SEED");

	seed = given ? (unsigned int)strtoul(given, NULL, 10) : (unsigned int)time(NULL);
	print_message("# seed %u\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
