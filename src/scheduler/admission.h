/* admission.h - the answers of the mutating webhook, for API servers without MutatingAdmissionPolicy.
 *
 * They do what the policies ration-scheduler-name and ration-unit-stamp of the charts do. An API server sends
 * an AdmissionReview of admission.k8s.io/v1 and gets one back (k8s.io/api/admission/v1/types.go,
 * Kubernetes 1.36). */
#pragma once

#include <stddef.h>

struct error;

/* admission_answer() - path "/scheduler-name": a new pod that asks for a resource of ration and names no
 * scheduler gets ration's scheduler. path "/unit/MIB": a new pod that asks for GPU memory gets the annotation
 * ration.dev/unit. Every pod is allowed. Returns the answer, which the caller frees, with *ret_status 200;
 * else NULL with a sentence, and *ret_status 400, 404 or 500. */
char *admission_answer(
	const char *path, const char *body, size_t len, unsigned *ret_status, struct error *err);
