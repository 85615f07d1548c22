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

/* count_of() - the number of items of an array. item_of() - one of them, borrowed; NULL if there is no such
 * item or the value is not an array. */
size_t count_of(struct json_object *array);
struct json_object *item_of(struct json_object *array, size_t i);

/* plural() - the ending of a noun: "" or "s". */
const char *plural(int64_t n);
