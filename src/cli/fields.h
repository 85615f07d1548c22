/* fields.h - members of a JSON object: "", 0 or false if the member is missing or has another type; and the
 * texts of numbers and objects. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;
struct strbuf;

int64_t number_of(struct json_object *object, const char *key);
bool is_true(struct json_object *object, const char *key);

/* plural() - the ending of a noun: "" or "s". */
const char *plural(int64_t n);

/* add_bytes() - "3 GiB", "1536 MiB" or "17 bytes": the largest unit without a fraction. */
void add_bytes(struct strbuf *out, uint64_t bytes);

/* add_document() - a JSON object as indented text, and a newline. */
int add_document(struct strbuf *out, struct json_object *object);
