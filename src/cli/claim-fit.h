/* claim-fit.h - whether a request of a ResourceClaim fits on a device now, by the rules of kube-scheduler's
 * allocator (k8s.io/dynamic-resource-allocation/structured 1.36.3). Pure. Each device is judged alone: a
 * claim's constraints between its devices are not evaluated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim_request;
struct claims;
struct claims_device;
struct device_taint;
struct strbuf;

enum fit_result {
	FIT_YES,
	FIT_UNKNOWN, /* everything else fits, but a selector is not evaluated here */
	FIT_INCOMPLETE_POOL,
	FIT_SELECTOR,	    /* a selector of the class or of the request is false */
	FIT_SELECTOR_FAILS, /* it names an attribute that the device does not have */
	FIT_NO_CAPACITY,    /* the request names a capacity that the device does not have */
	FIT_TAINT,
	FIT_IN_USE,	     /* the device can be allocated only once, and is */
	FIT_TOO_MUCH_MEMORY, /* more than the device's policy allows for one request */
	FIT_TOO_MUCH_CORES,
	FIT_MEMORY, /* too little is left */
	FIT_CORES,
	FIT_MAX,
};

struct fit {
	enum fit_result result;
	uint64_t memory, cores; /* what the request would consume; valid if the device has these capacities */
	const char *selector;	/* the one that decided */
	const struct device_taint *taint; /* the one that decided */
};

/* claim_fit() - the first condition that fails, in the order of enum fit_result. class_selectors: those of
 * the request's DeviceClass. */
struct fit claim_fit(const struct claims *claims, const struct claims_device *device,
	const struct claim_request *request, char *const *class_selectors, size_t n_class_selectors);

/* fit_result_name() - one word for JSON. */
const char *fit_result_name(enum fit_result result);

/* fit_add_text() - the sentence about it, without a full stop: "5 GiB of memory are free, 20 GiB are asked
 * for".
 */
void fit_add_text(struct strbuf *out, const struct fit *fit, const struct claims_device *device,
	const struct claim_request *request);
