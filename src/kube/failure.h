/* failure.h - what curl says about a transfer that failed, as an errno and a sentence. */
#pragma once

#include <curl/curl.h>

struct error;
struct kube_config;

/* failure_describe() - detail: curl's own words (CURLOPT_ERRORBUFFER), may be "". Returns the negative errno
 * and writes a sentence that names the server and, where there is one, the next step. */
int failure_describe(CURLcode code, const char *detail, const struct kube_config *config, struct error *err);
