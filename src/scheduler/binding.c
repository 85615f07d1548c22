#include "scheduler/binding.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "kube/object-name.h"

static char *take_string(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
		!json_object_is_type(value, json_type_string) || !json_object_get_string_len(value))
		return NULL;
	return strdup(json_object_get_string(value));
}

int binding_parse(const char *body, size_t len, struct bind_target *ret_binding)
{
	struct bind_target binding = {0};
	struct json_tokener *tokener = json_tokener_new_ex(8);
	struct json_object *root = tokener ? json_tokener_parse_ex(tokener, body, (int)len) : NULL;

	json_tokener_free(tokener);
	if (json_object_is_type(root, json_type_object)) {
		binding.uid = take_string(root, "PodUID");
		binding.namespace_ = take_string(root, "PodNamespace");
		binding.name = take_string(root, "PodName");
		binding.node = take_string(root, "Node");
	}
	json_object_put(root);
	if (!binding.uid || !binding.namespace_ || !binding.name || !binding.node ||
		!object_name_is_valid(binding.namespace_) || !object_name_is_valid(binding.name) ||
		!object_name_is_valid(binding.node)) {
		bind_target_release(&binding);
		return -EINVAL;
	}
	*ret_binding = binding;
	return 0;
}

char *binding_text(const struct bind_target *binding, struct json_object *annotations)
{
	struct json_object *root = json_object_new_object(), *metadata = json_object_new_object(),
			   *target = json_object_new_object();
	char *text;

	json_object_object_add(root, "apiVersion", json_object_new_string("v1"));
	json_object_object_add(root, "kind", json_object_new_string("Binding"));
	json_object_object_add(metadata, "namespace", json_object_new_string(binding->namespace_));
	json_object_object_add(metadata, "name", json_object_new_string(binding->name));
	json_object_object_add(metadata, "uid", json_object_new_string(binding->uid));
	json_object_object_add(metadata, "annotations", json_object_get(annotations));
	json_object_object_add(root, "metadata", metadata);
	json_object_object_add(target, "apiVersion", json_object_new_string("v1"));
	json_object_object_add(target, "kind", json_object_new_string("Node"));
	json_object_object_add(target, "name", json_object_new_string(binding->node));
	json_object_object_add(root, "target", target);
	text = strdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	return text;
}
