#include "model/device-slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void device_slice_init(struct device_slice *slice)
{
	*slice = (struct device_slice){0};
}

void device_slice_release(struct device_slice *slice)
{
	if (!slice)
		return;
	for (size_t i = 0; i < slice->n_devices; i++) {
		free(slice->devices[i].attributes);
		free(slice->devices[i].taints);
	}
	free(slice->devices);
	device_slice_init(slice);
}

static bool is_named(
	const struct device_slice *slice, const char *name, const char *domain, const char *identifier)
{
	size_t len = strlen(domain);

	if (strcmp(name, identifier) == 0)
		return strcmp(slice->driver, domain) == 0;
	return strncmp(name, domain, len) == 0 && name[len] == '/' && strcmp(name + len + 1, identifier) == 0;
}

const struct device_attribute *device_attribute_find(const struct device_slice *slice,
	const struct slice_device *device, const char *domain, const char *identifier)
{
	for (size_t i = 0; i < device->n_attributes; i++)
		if (is_named(slice, device->attributes[i].name, domain, identifier))
			return &device->attributes[i];
	return NULL;
}

const char *device_text(
	const struct device_slice *slice, const struct slice_device *device, const char *identifier)
{
	const struct device_attribute *attribute = device_attribute_find(
		slice, device, slice->driver, identifier);

	return attribute ? attribute->text : "";
}

/* The next value that is min + n * step: roundUpRange() and violateValidRange() of kube-scheduler. */
static int round_up(const struct device_capacity *capacity, uint64_t requested, uint64_t *ret_consumed)
{
	uint64_t over, value = requested;

	if (value < capacity->min)
		value = capacity->min;
	over = capacity->step ? (value - capacity->min) % capacity->step : 0;
	if (over && __builtin_add_overflow(value, capacity->step - over, &value))
		return -ERANGE;
	if (capacity->max && value > capacity->max)
		return -ERANGE;
	*ret_consumed = value;
	return 0;
}

int capacity_consumed(
	const struct device_capacity *capacity, const uint64_t *requested, uint64_t *ret_consumed)
{
	if (requested)
		return round_up(capacity, *requested, ret_consumed);
	*ret_consumed = capacity->has_default ? capacity->by_default : capacity->value;
	return 0;
}
