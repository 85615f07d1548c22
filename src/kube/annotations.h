/* annotations.h - how many bytes an object's annotations have.
 *
 * The API server counts the keys and values of an object together (apimachinery
 * ValidateAnnotationsSize(), 1.36.3). It does not check the annotations that a Binding adds. A pod above the
 * limit can no longer be changed, not even by its kubelet, until one of its annotations is removed. */
#pragma once

#include <stddef.h>

struct json_object;

#define ANNOTATIONS_MAX ((size_t)256 << 10)

/* annotations_size() - the bytes of metadata.annotations; 0 for NULL and for a value that is not an object. A
 * null value and its key count nothing. */
size_t annotations_size(struct json_object *annotations);

/* annotations_size_with() - the same after a merge patch of the annotations: what `changes` sets replaces the
 * value of that key, and null removes the key. */
size_t annotations_size_with(struct json_object *annotations, struct json_object *changes);
