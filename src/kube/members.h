/* members.h - members of the objects of resource.k8s.io, with a sentence about each that cannot be used. Each
 * function returns 0, or -EINVAL with the sentence, which begins with the member's name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json_object;

/* The characters of names, beside letters and digits. */
#define NAME_LABEL "-"	/* DNS labels, uids */
#define NAME_DNS "-."	/* DNS subdomains */
#define NAME_PATH "-./" /* several of them, separated by slashes */

/* member_is_name() - names become parts of paths of files and of the API server. So a name begins with a
 * letter or a digit, and one follows each '.' and each '/'. */
bool member_is_name(const char *text, const char *others);

/* member_name() - a name that must be there, and must fit into `size` bytes with its NUL. */
int member_name(struct json_object *object, const char *key, const char *others, char *ret_name, size_t size,
	struct error *err);

/* member_list() - a list of at most `max` entries, borrowed; *ret_n is 0 if the object has no such member. */
int member_list(struct json_object *object, const char *key, size_t max, struct json_object **ret_list,
	size_t *ret_n, struct error *err);

/* member_bool() - false if it is absent. */
int member_bool(struct json_object *object, const char *key, bool *ret_value, struct error *err);

/* member_quantity_text() - the API server writes quantities as strings, and reads whole numbers, too. NULL
 * for everything else. */
const char *member_quantity_text(struct json_object *value);

/* member_amount() - a whole quantity from 0 to max. what: for the sentence. */
int member_amount(
	struct json_object *value, const char *what, int64_t max, int64_t *ret_value, struct error *err);
