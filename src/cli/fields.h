/* fields.h - members of an answer of the scheduler, whatever shape it has: "", 0, false or nothing where they
 * are missing or of another type. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

const char *text_of(struct json_object *object, const char *key);
int64_t number_of(struct json_object *object, const char *key);
bool is_true(struct json_object *object, const char *key);

/* count_of() - items of an array. item_of() - one of them, borrowed; NULL if there is
 * no such item, or no array. */
size_t count_of(struct json_object *array);
struct json_object *item_of(struct json_object *array, size_t i);

/* plural() - what is put behind a noun: "" or "s". */
const char *plural(int64_t n);
