/* object-name.h - what pods and namespaces may be called. */
#pragma once

#include <stdbool.h>

/* object_name_is_valid() - as the API server has it (RFC 1123 subdomain): lower-case letters, digits, '-' and
 * '.', at most 253, beginning with a letter or digit. What kube-scheduler and the kubelet tell us of names
 * becomes part of paths of the API server: "..", "?" or a line end must not get there. */
bool object_name_is_valid(const char *name);
