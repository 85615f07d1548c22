#include "kube/annotations.h"

#include <json-c/json.h>
#include <string.h>

static size_t entry_size(const char *key, struct json_object *value)
{
	return value ? strlen(key) + (size_t)json_object_get_string_len(value) : 0;
}

size_t annotations_size(struct json_object *annotations)
{
	size_t size = 0;

	if (!json_object_is_type(annotations, json_type_object))
		return 0;
	json_object_object_foreach (annotations, key, value)
		size += entry_size(key, value);
	return size;
}

size_t annotations_size_with(struct json_object *annotations, struct json_object *changes)
{
	size_t size = annotations_size(annotations) + annotations_size(changes);

	if (!json_object_is_type(annotations, json_type_object) ||
		!json_object_is_type(changes, json_type_object))
		return size;
	json_object_object_foreach (annotations, key, value)
		if (json_object_object_get_ex(changes, key, NULL))
			size -= entry_size(key, value);
	return size;
}
