/* device-slice.h - reads ResourceSlice objects of resource.k8s.io/v1. */
#pragma once

#include "model/device-slice.h"

struct error;
struct json_object;

/* device_slice_from_json() - -EINVAL with a sentence that names the slice and the member, -ENOMEM. Of the
 * capacities, only memory and cores are read; lists of attributes and lists of valid values are left out,
 * because the driver publishes none. The caller releases *ret_slice in any case. */
int device_slice_from_json(struct json_object *object, struct device_slice *ret_slice, struct error *err);

/* taint_effect_read() - the member `effect` of a taint or of a toleration; TAINT_NONE for any other. */
enum taint_effect taint_effect_read(struct json_object *object);
