#include "plan/quantities.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "kube/json.h"
#include "model/quantity.h"

void quantities_release(struct quantities *quantities)
{
	for (size_t i = 0; i < quantities->n; i++)
		free(quantities->list[i].name);
	free(quantities->list);
	*quantities = (struct quantities){0};
}

static struct quantity *find(const struct quantities *quantities, const char *name)
{
	for (size_t i = 0; i < quantities->n; i++)
		if (strcmp(quantities->list[i].name, name) == 0)
			return &quantities->list[i];
	return NULL;
}

int64_t quantities_get(const struct quantities *quantities, const char *name)
{
	const struct quantity *found = find(quantities, name);

	return found ? found->milli : 0;
}

static struct quantity *find_or_add(struct quantities *quantities, const char *name, int *ret_error)
{
	struct quantity *found = find(quantities, name);
	char *copy;

	if (found)
		return found;
	*ret_error = quantities->n == QUANTITIES_MAX ? -E2BIG : -ENOMEM;
	if (quantities->n == QUANTITIES_MAX)
		return NULL;
	if (array_room(&quantities->list, quantities->n, sizeof(*found)) < 0)
		return NULL;
	copy = strdup(name);
	if (!copy)
		return NULL;
	quantities->list[quantities->n] = (struct quantity){.name = copy};
	return &quantities->list[quantities->n++];
}

int quantities_set(struct quantities *quantities, const char *name, int64_t milli)
{
	int r = 0;
	struct quantity *found = find_or_add(quantities, name, &r);

	if (!found)
		return r;
	found->milli = milli;
	return 0;
}

static int64_t sum_of(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

int quantities_add(struct quantities *quantities, const struct quantities *more, int times)
{
	for (size_t i = 0; i < more->n; i++) {
		int r = 0;
		struct quantity *found = find_or_add(quantities, more->list[i].name, &r);
		int64_t product;

		if (!found)
			return r;
		if (__builtin_mul_overflow(more->list[i].milli, (int64_t)times, &product))
			product = times > 0 ? INT64_MAX : INT64_MIN;
		found->milli = sum_of(found->milli, product);
	}
	return 0;
}

int quantities_raise(struct quantities *quantities, const struct quantities *other)
{
	for (size_t i = 0; i < other->n; i++) {
		int r = 0;
		struct quantity *found = find_or_add(quantities, other->list[i].name, &r);

		if (!found)
			return r;
		if (found->milli < other->list[i].milli)
			found->milli = other->list[i].milli;
	}
	return 0;
}

static int64_t milli_of(struct json_object *value)
{
	const char *text = value ? json_object_get_string(value) : NULL;
	int64_t milli;

	return text && quantity_parse_milli(text, &milli) == 0 ? milli : 0;
}

int quantities_read(struct quantities *quantities, struct json_object *object)
{
	if (!json_object_is_type(object, json_type_object))
		return 0;
	json_object_object_foreach (object, name, value) {
		int r = 0;
		struct quantity *found = find_or_add(quantities, name, &r);

		if (!found)
			return r;
		found->milli = sum_of(found->milli, milli_of(value));
	}
	return 0;
}

static int read_container(struct json_object *container, struct quantities *quantities)
{
	struct json_object *resources = json_member(container, "resources");
	struct json_object *requests = json_member(resources, "requests"),
			   *limits = json_member(resources, "limits");
	int r = quantities_read(quantities, requests);

	if (!json_object_is_type(limits, json_type_object))
		return r;
	json_object_object_foreach (limits, name, value)
		if (r == 0 && !json_member(requests, name))
			r = quantities_set(quantities, name, milli_of(value));
	return r;
}

/* Adds the sidecars to `all`, and raises `largest` to what each init container needs when it runs. */
static int read_init_containers(struct json_object *list, struct quantities *all, struct quantities *largest)
{
	_cleanup_quantities_ struct quantities sidecars = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_count(list); i++) {
		struct json_object *container = json_item(list, i);
		bool sidecar = json_member_is(container, "restartPolicy", "Always");
		_cleanup_quantities_ struct quantities own = {0};

		r = read_container(container, &own);
		if (r == 0 && sidecar)
			r = quantities_add(&sidecars, &own, 1);
		else if (r == 0)
			r = quantities_add(&own, &sidecars, 1);
		if (r == 0)
			r = quantities_raise(largest, sidecar ? &sidecars : &own);
	}
	return r < 0 ? r : quantities_add(all, &sidecars, 1);
}

int quantities_of_pod(struct json_object *pod, struct quantities *quantities)
{
	_cleanup_quantities_ struct quantities largest = {0}, whole = {0}, overhead = {0};
	struct json_object *spec = json_member(pod, "spec");
	struct json_object *containers = json_member(spec, "containers");
	int r = read_init_containers(json_member(spec, "initContainers"), quantities, &largest);

	for (size_t i = 0; r == 0 && i < json_count(containers); i++) {
		_cleanup_quantities_ struct quantities own = {0};

		r = read_container(json_item(containers, i), &own);
		if (r == 0)
			r = quantities_add(quantities, &own, 1);
	}
	if (r == 0)
		r = quantities_raise(quantities, &largest);
	/* Requests of the pod as a whole (pod-level resources) replace those of its containers. */
	if (r == 0)
		r = read_container(spec, &whole);
	for (size_t i = 0; r == 0 && i < whole.n; i++)
		r = quantities_set(quantities, whole.list[i].name, whole.list[i].milli);
	if (r == 0)
		r = quantities_read(&overhead, json_member(spec, "overhead"));
	return r < 0 ? r : quantities_add(quantities, &overhead, 1);
}
