/* list-read.h - reads lists of the API server through kubectl, in pages, one object after the other; and
 * single objects. */
#pragma once

#include <stddef.h>

struct error;
struct json_object;
struct kubectl;
struct strbuf;

#define ITEM_MAX (4 << 20) /* bytes of one object */

/* Problems with single objects. Such objects are left out or count as pending, and the first few problems are
 * reported. */
struct warnings {
	size_t n;
	void (*tell)(void *userdata, const char *text); /* NULL: problems are not reported */
	void *userdata;
};
void list_warn(struct warnings *warnings, const char *text); /* accepts NULL */

struct list_reader {
	const char *kind; /* of the list: "PodList" */
	const char *sign; /* a text that every object of interest contains */
	/* Called with each object that has the sign. A negative result, with a sentence, ends the reading. */
	int (*read)(void *userdata, struct json_object *item, struct error *err);
	void *userdata;
	struct warnings *warnings;   /* about objects that are not valid JSON; NULL: none */
	const char *const *unwanted; /* see json_split_leave_out(); NULL: only managedFields */
	int unwanted_depth_max;
};

/* list_read() - reads all pages of the list at this path of the API. selector: a field selector, NULL for all
 * objects. */
int list_read(const struct kubectl *kubectl, const char *path, const char *selector,
	const struct list_reader *reader, struct error *err);

/* object_get() - reads one object of at most max bytes, or a list without pages. The caller puts *ret_object.
 * Returns 1 if kubectl has failed; complaints has its errors then. */
int object_get(const struct kubectl *kubectl, const char *path, size_t max, struct json_object **ret_object,
	struct strbuf *complaints, struct error *err);

/* object_read() - the same. -ENOENT if the API server does not have it, -EACCES if the user may not read it,
 * or another negative errno; each with a sentence. */
int object_read(
	const struct kubectl *kubectl, const char *path, struct json_object **ret_object, struct error *err);

/* url_add_escaped() - unreserved characters of RFC 3986 stay; all others become %XX. */
void url_add_escaped(struct strbuf *url, const char *text);
