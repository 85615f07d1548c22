/* claim-request.h - what a ResourceClaim asks for, as far as explaining kube-scheduler's decision needs it.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/claim.h"
#include "model/device-slice.h"

#define CLAIM_SELECTORS_MAX 32
#define CLAIM_TOLERATIONS_MAX 16
#define CLAIM_SELECTOR_BYTES_MAX (10 * 1024)

struct device_toleration {
	char key[TAINT_KEY_SIZE]; /* "": every key */
	char value[TAINT_VALUE_SIZE];
	bool any_value;		  /* operator Exists */
	enum taint_effect effect; /* TAINT_NONE: every effect */
};

/* One request, or one alternative of a request with firstAvailable. */
struct claim_request {
	char name[CLAIM_REQUEST_SIZE]; /* "request" or "request/alternative" */
	char class_[CLAIM_NAME_SIZE];
	bool all; /* allocationMode All */
	int64_t count;
	bool admin_access;
	bool has_memory, has_cores;
	uint64_t memory, cores;		 /* what it asks for; kube-scheduler rounds it up */
	char other[ATTRIBUTE_NAME_SIZE]; /* a capacity that it asks for and that ration's devices do not
					    have; "" if it asks for no such capacity */
	char **selectors;		 /* CEL */
	size_t n_selectors;
	struct device_toleration *tolerations;
	size_t n_tolerations;
};

struct claim_requests {
	struct claim_request *list;
	size_t n;
};

void claim_requests_release(struct claim_requests *requests); /* accepts NULL */
#define _cleanup_claim_requests_ _cleanup_(claim_requests_release)

/* claim_request_tolerates() - whether the request may use a device with this taint. */
bool claim_request_tolerates(const struct claim_request *request, const struct device_taint *taint);
