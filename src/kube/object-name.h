/* object-name.h - valid names of pods and namespaces. */
#pragma once

#include <stdbool.h>

/* object_name_is_valid() - as in the API server (RFC 1123 subdomain): lower-case letters, digits, '-' and
 * '.', at most 253, beginning with a letter or digit. Names from kube-scheduler and the kubelet become part
 * of paths of the API server: "..", "?" or a line end must not get there. */
bool object_name_is_valid(const char *name);
