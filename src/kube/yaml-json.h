/* yaml-json.h - a YAML document of a user as JSON, as kubectl reads it. */
#pragma once

#include <stddef.h>

struct error;
struct json_object;

/* yaml_to_json() - the text has exactly one document that is not empty; JSON is YAML, too. The caller puts
 * *ret_object. Limits: as deep as JSON_DEPTH_MAX, and 100,000 values, with aliases expanded. -EINVAL, -E2BIG
 * and -ENOMEM with a sentence. */
int yaml_to_json(const char *text, size_t len, struct json_object **ret_object, struct error *err);
