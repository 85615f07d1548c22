/* fields.h - members of an answer of the scheduler, whatever its structure: "", 0, false or nothing if they
 * are missing or have another type. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

const char *text_of(struct json_object *object, const char *key);
int64_t number_of(struct json_object *object, const char *key);
bool is_true(struct json_object *object, const char *key);

/* plural() - the ending of a noun: "" or "s". */
const char *plural(int64_t n);
