/* The part of fault-list.h that reads YAML. */
#include "kube/fault-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/cleanup.h"
#include "base/error.h"

static void document_release(yaml_document_t *document)
{
	yaml_document_delete(document);
}

static const char *scalar(const yaml_node_t *node)
{
	/* A NUL inside would hide the text after it. */
	if (!node || node->type != YAML_SCALAR_NODE ||
		strlen((char *)node->data.scalar.value) != node->data.scalar.length)
		return NULL;
	return (const char *)node->data.scalar.value;
}

/* One entry of the list, as far as it was read. NULL: the key is absent. */
struct entry {
	const yaml_node_t *id, *type, *healthy, *reason;
};

static const yaml_node_t **entry_member(struct entry *entry, const char *key)
{
	return strcmp(key, "deviceId") == 0	? &entry->id
	       : strcmp(key, "deviceType") == 0 ? &entry->type
	       : strcmp(key, "healthy") == 0	? &entry->healthy
	       : strcmp(key, "reason") == 0	? &entry->reason
						: NULL;
}

static int entry_read(yaml_document_t *document, const yaml_node_t *map, size_t position,
	struct entry *ret_entry, struct error *err)
{
	struct entry entry = {0};

	if (!map || map->type != YAML_MAPPING_NODE)
		return error_set(err, EINVAL, "entry %zu is no mapping", position);
	for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
		pair++) {
		const char *key = scalar(yaml_document_get_node(document, pair->key));
		const yaml_node_t **member = key ? entry_member(&entry, key) : NULL;

		if (!member)
			continue;
		if (*member)
			return error_set(err, EINVAL, "entry %zu has %s twice", position, key);
		*member = yaml_document_get_node(document, pair->value);
	}
	*ret_entry = entry;
	return 0;
}

/* As in YAML 1.2: some readers take "no" and "off" as text, others as false. */
static int truth(const yaml_node_t *node)
{
	static const char *const texts[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
	const char *text = scalar(node);

	if (!text || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return -EINVAL;
	for (int i = 0; i < (int)ARRAY_SIZE(texts); i++)
		if (strcmp(text, texts[i]) == 0)
			return i / 3;
	return -EINVAL;
}

/* Returns 1 if the entry declares a GPU faulty, 0 if it is not about a GPU or about a healthy one. */
static int entry_judge(const struct entry *entry, size_t position, struct fault *fault, struct error *err)
{
	const char *type = scalar(entry->type), *id = scalar(entry->id);
	int healthy = truth(entry->healthy);

	if (!type)
		return error_set(err, EINVAL, "entry %zu has no deviceType", position);
	if (strcmp(type, "gpu") != 0)
		return 0;
	if (!id || fault_parse_gpu(id, fault) < 0)
		return error_set(err, EINVAL,
			"entry %zu: deviceId \"%.40s\" is neither the index nor the UUID of a GPU", position,
			id ? id : "");
	if (healthy < 0)
		return error_set(err, EINVAL, "entry %zu: healthy is neither true nor false", position);
	fault_reason_copy(fault->reason, scalar(entry->reason) ? scalar(entry->reason) : "");
	return !healthy;
}

static int note_once(struct fault_list *seen, const struct fault *fault, size_t position, struct error *err)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->faults[i].index == fault->index && strcmp(seen->faults[i].uuid, fault->uuid) == 0)
			return error_set(
				err, EINVAL, "entry %zu is about the same GPU as one before it", position);
	seen->faults[seen->n++] = *fault;
	return 0;
}

static int add_entries(
	yaml_document_t *document, yaml_node_t *root, struct fault_list *list, struct error *err)
{
	_cleanup_free_ struct fault_list *seen = calloc(1, sizeof(*seen));
	yaml_node_item_t *items = root->data.sequence.items.start;
	size_t n = (size_t)(root->data.sequence.items.top - items);

	if (!seen)
		return error_set(err, ENOMEM, "out of memory");
	if (n > FAULT_LIST_MAX)
		return error_set(err, EINVAL, "it has more than %d entries", FAULT_LIST_MAX);
	for (size_t i = 0; i < n; i++) {
		struct fault fault = {.index = -1};
		struct entry entry = {0};
		int r = entry_read(document, yaml_document_get_node(document, items[i]), i + 1, &entry, err);
		int faulty = r < 0 ? r : entry_judge(&entry, i + 1, &fault, err);

		/* For a device that is not a GPU nothing was taken over. */
		if (faulty >= 0 && (fault.index >= 0 || *fault.uuid))
			r = note_once(seen, &fault, i + 1, err);
		if (r < 0 || faulty < 0)
			return r < 0 ? r : faulty;
		if (faulty)
			list->faults[list->n++] = fault;
	}
	return 0;
}

/* A second document would not be read. */
static int check_end(yaml_parser_t *parser, struct error *err)
{
	_cleanup_(document_release) yaml_document_t more = {0};

	if (!yaml_parser_load(parser, &more) || yaml_document_get_root_node(&more))
		return error_set(err, EINVAL, "there is more after the end of the list");
	return 0;
}

static int read_documents(yaml_parser_t *parser, struct fault_list *list, struct error *err)
{
	_cleanup_(document_release) yaml_document_t document = {0};
	yaml_node_t *root;
	int r;

	if (!yaml_parser_load(parser, &document))
		return error_set(err, EINVAL, "no valid YAML: %s in line %zu",
			parser->problem ? parser->problem : "parse error", parser->problem_mark.line + 1);
	root = yaml_document_get_root_node(&document);
	if (!root)
		return 0;
	if (root->type != YAML_SEQUENCE_NODE)
		return error_set(err, EINVAL, "it is not a list");
	r = add_entries(&document, root, list, err);
	return r < 0 ? r : check_end(parser, err);
}

int fault_list_from_device_status(const char *text, struct fault_list *ret_list, struct error *err)
{
	_cleanup_free_ struct fault_list *list = calloc(1, sizeof(*list));
	yaml_parser_t parser;
	int r;

	if (!list)
		return error_set(err, ENOMEM, "out of memory");
	if (strlen(text) > FAULT_LIST_TEXT_MAX)
		return error_set(err, EINVAL, "it is longer than %d bytes", FAULT_LIST_TEXT_MAX);
	if (!yaml_parser_initialize(&parser))
		return error_set(err, ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	r = read_documents(&parser, list, err);
	yaml_parser_delete(&parser);
	if (r < 0)
		return r;
	*ret_list = *list;
	return 0;
}
