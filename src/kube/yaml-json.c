/* yaml_to_json(): YAML of a user as JSON. */
#include "kube/json.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/error.h"

#define VALUES_MAX 100000

struct conversion {
	yaml_document_t *document;
	size_t values;
	struct error *err;
};

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

/* Words and numbers of YAML 1.1, which kubectl reads. A number keeps its text: a quantity must not be
 * rounded. */
static struct json_object *plain_scalar(const char *text)
{
	static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const yes[] = {
		"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", NULL};
	static const char *const no[] = {
		"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", NULL};
	char *end;
	long long whole;
	double number;

	if (is_one_of(text, nothing))
		return NULL;
	if (is_one_of(text, yes) || is_one_of(text, no))
		return json_object_new_boolean(is_one_of(text, yes));
	if (!strchr("+-.0123456789", text[0]))
		return json_object_new_string(text);
	errno = 0;
	whole = strtoll(text, &end, 10);
	if (!*end && errno == 0)
		return json_object_new_int64(whole);
	number = strtod(text, &end);
	if (!*end && isfinite(number) && !strpbrk(text, "xXpP"))
		return json_object_new_double_s(number, text);
	return json_object_new_string(text);
}

static int convert(struct conversion *conversion, yaml_node_t *node, int depth, struct json_object **ret);

static int convert_list(struct conversion *conversion, yaml_node_t *node, int depth, struct json_object **ret)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();

	if (!list)
		return error_set(conversion->err, ENOMEM, "out of memory");
	for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
		item++) {
		struct json_object *value = NULL;
		int r = convert(
			conversion, yaml_document_get_node(conversion->document, *item), depth, &value);

		if (r < 0)
			return r;
		if (json_object_array_add(list, value) < 0) {
			json_object_put(value);
			return error_set(conversion->err, ENOMEM, "out of memory");
		}
	}
	*ret = TAKE_PTR(list);
	return 0;
}

static int convert_map(struct conversion *conversion, yaml_node_t *node, int depth, struct json_object **ret)
{
	_cleanup_json_ struct json_object *map = json_object_new_object();

	if (!map)
		return error_set(conversion->err, ENOMEM, "out of memory");
	for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
		pair++) {
		yaml_node_t *key = yaml_document_get_node(conversion->document, pair->key);
		struct json_object *value = NULL;
		const char *name = key->type == YAML_SCALAR_NODE ? (char *)key->data.scalar.value : NULL;
		int r;

		if (!name)
			return error_set(conversion->err, EINVAL, "line %zu has a key that is not a word",
				key->start_mark.line + 1);
		if (json_object_object_get_ex(map, name, NULL))
			return error_set(conversion->err, EINVAL,
				"line %zu has the key %.60s for the second time", key->start_mark.line + 1,
				name);
		r = convert(
			conversion, yaml_document_get_node(conversion->document, pair->value), depth, &value);
		if (r < 0)
			return r;
		if (json_object_object_add(map, name, value) < 0) {
			json_object_put(value);
			return error_set(conversion->err, ENOMEM, "out of memory");
		}
	}
	*ret = TAKE_PTR(map);
	return 0;
}

static int convert(struct conversion *conversion, yaml_node_t *node, int depth, struct json_object **ret)
{
	if (++conversion->values > VALUES_MAX)
		return error_set(conversion->err, E2BIG, "it has more than %d values", VALUES_MAX);
	if (depth >= JSON_DEPTH_MAX)
		return error_set(
			conversion->err, E2BIG, "it is nested deeper than %d levels", JSON_DEPTH_MAX);
	switch (node->type) {
		const char *text;
		bool plain;

	case YAML_SCALAR_NODE:
		text = (const char *)node->data.scalar.value;
		plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		if (strlen(text) != node->data.scalar.length)
			return error_set(conversion->err, EINVAL, "line %zu has a NUL byte",
				node->start_mark.line + 1);
		*ret = plain ? plain_scalar(text) : json_object_new_string(text);
		return 0;
	case YAML_SEQUENCE_NODE:
		return convert_list(conversion, node, depth + 1, ret);
	case YAML_MAPPING_NODE:
		return convert_map(conversion, node, depth + 1, ret);
	default:
		return error_set(conversion->err, EINVAL, "a node of the document is not readable");
	}
}

/* "---" alone, or only comments. */
static bool is_empty(yaml_node_t *root)
{
	return root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0;
}

/* Converts the document, unless it is empty. *object has an earlier one, or NULL. */
static int take_document(yaml_document_t *document, struct json_object **object, struct error *err)
{
	struct conversion conversion = {.document = document, .err = err};
	yaml_node_t *root = yaml_document_get_root_node(document);

	if (is_empty(root))
		return 0;
	if (*object)
		return error_set(err, E2BIG, "it has several documents; give one object");
	if (root->type != YAML_MAPPING_NODE)
		return error_set(err, EINVAL, "it is not an object with apiVersion, kind and metadata");
	return convert(&conversion, root, 0, object);
}

static int read_documents(yaml_parser_t *parser, struct json_object **object, struct error *err)
{
	for (;;) {
		yaml_document_t document;
		int r;

		if (!yaml_parser_load(parser, &document))
			return error_set(err, EINVAL, "it is not valid YAML: %s in line %zu",
				parser->problem ? parser->problem : "parse error",
				parser->problem_mark.line + 1);
		if (!yaml_document_get_root_node(&document)) {
			yaml_document_delete(&document);
			return 0;
		}
		r = take_document(&document, object, err);
		yaml_document_delete(&document);
		if (r < 0)
			return r;
	}
}

int yaml_to_json(const char *text, size_t len, struct json_object **ret_object, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	yaml_parser_t parser;
	int r;

	if (!yaml_parser_initialize(&parser))
		return error_set(err, ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	r = read_documents(&parser, &object, err);
	yaml_parser_delete(&parser);
	if (r == 0 && !object)
		r = error_set(err, EINVAL, "it is empty");
	if (r == 0)
		*ret_object = TAKE_PTR(object);
	return r;
}
