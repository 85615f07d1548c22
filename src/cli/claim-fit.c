#include "cli/claim-fit.h"

#include <errno.h>
#include <inttypes.h>

#include "base/strbuf.h"
#include "cli/cel.h"
#include "cli/claims.h"
#include "cli/fields.h"
#include "model/claim-request.h"

/* Returns FIT_YES, FIT_UNKNOWN or the failure. */
static enum fit_result check_selectors(const struct claims_device *device, char *const *selectors, size_t n,
	enum fit_result before, const char **ret_selector)
{
	for (size_t i = 0; i < n; i++) {
		enum cel_verdict verdict = cel_evaluate(selectors[i], device->slice, device->device);

		if (verdict == CEL_TRUE || (verdict == CEL_UNKNOWN && before == FIT_UNKNOWN))
			continue;
		*ret_selector = selectors[i];
		if (verdict == CEL_FALSE)
			return FIT_SELECTOR;
		if (verdict == CEL_FAILS)
			return FIT_SELECTOR_FAILS;
		before = FIT_UNKNOWN;
	}
	return before;
}

static const struct device_taint *find_taint(
	const struct claims_device *device, const struct claim_request *request)
{
	for (size_t i = 0; i < device->device->n_taints; i++)
		if (!claim_request_tolerates(request, &device->device->taints[i]))
			return &device->device->taints[i];
	return NULL;
}

static bool names_unknown_capacity(const struct claims_device *device, const struct claim_request *request)
{
	return *request->other || (request->has_memory && !device->device->memory.present) ||
	       (request->has_cores && !device->device->cores.present);
}

/* Returns FIT_YES, or which of the two failures. */
static enum fit_result check_capacity(const struct device_capacity *capacity, uint64_t used,
	const uint64_t *requested, uint64_t *ret_consumed, enum fit_result too_much,
	enum fit_result too_little)
{
	if (!capacity->present)
		return FIT_YES;
	if (capacity_consumed(capacity, requested, ret_consumed) < 0)
		return too_much;
	if (*ret_consumed > capacity->value)
		return too_much;
	return used > capacity->value || *ret_consumed > capacity->value - used ? too_little : FIT_YES;
}

/* A device that is not shared is consumed as a whole, even if the request is for less; it must only be large
 * enough. */
static enum fit_result check_capacities(
	const struct claims_device *device, const struct claim_request *request, struct fit *fit)
{
	const uint64_t *memory = request->has_memory ? &request->memory : NULL;
	const uint64_t *cores = request->has_cores ? &request->cores : NULL;
	bool free = request->admin_access || !device->device->shared;
	enum fit_result of_memory = check_capacity(&device->device->memory, free ? 0 : device->memory, memory,
		&fit->memory, FIT_TOO_MUCH_MEMORY, FIT_MEMORY);
	enum fit_result of_cores = check_capacity(&device->device->cores, free ? 0 : device->cores, cores,
		&fit->cores, FIT_TOO_MUCH_CORES, FIT_CORES);

	if (of_memory == FIT_YES)
		return of_cores;
	return of_cores != FIT_YES && of_cores < of_memory ? of_cores : of_memory;
}

struct fit claim_fit(const struct claims *claims, const struct claims_device *device,
	const struct claim_request *request, char *const *class_selectors, size_t n_class_selectors)
{
	struct fit fit = {0};
	enum fit_result selected, capacities = check_capacities(device, request, &fit);

	selected = check_selectors(device, class_selectors, n_class_selectors, FIT_YES, &fit.selector);
	if (selected <= FIT_UNKNOWN)
		selected = check_selectors(
			device, request->selectors, request->n_selectors, selected, &fit.selector);
	fit.taint = find_taint(device, request);
	if (!claims_pool_is_complete(claims, device->slice->pool))
		fit.result = FIT_INCOMPLETE_POOL;
	else if (selected > FIT_UNKNOWN)
		fit.result = selected;
	else if (names_unknown_capacity(device, request))
		fit.result = FIT_NO_CAPACITY;
	else if (fit.taint)
		fit.result = FIT_TAINT;
	else if (!device->device->shared && device->n_shares && !request->admin_access)
		fit.result = FIT_IN_USE;
	else
		fit.result = capacities == FIT_YES ? selected : capacities;
	return fit;
}

const char *fit_result_name(enum fit_result result)
{
	static const char *const names[FIT_MAX] = {
		[FIT_YES] = "fits",
		[FIT_UNKNOWN] = "unknown",
		[FIT_INCOMPLETE_POOL] = "incompletePool",
		[FIT_SELECTOR] = "selector",
		[FIT_SELECTOR_FAILS] = "selectorFails",
		[FIT_NO_CAPACITY] = "noSuchCapacity",
		[FIT_TAINT] = "taint",
		[FIT_IN_USE] = "inUse",
		[FIT_TOO_MUCH_MEMORY] = "moreMemoryThanAllowed",
		[FIT_TOO_MUCH_CORES] = "moreCoresThanAllowed",
		[FIT_MEMORY] = "memory",
		[FIT_CORES] = "cores",
	};

	return names[result];
}

static void add_taint(struct strbuf *out, const struct device_taint *taint)
{
	strbuf_addf(out, "it has the taint %s%s%s:%s, which the request does not tolerate", taint->key,
		*taint->value ? "=" : "", taint->value,
		taint->effect == TAINT_NO_EXECUTE ? "NoExecute" : "NoSchedule");
}

static void add_memory(struct strbuf *out, const struct fit *fit, const struct claims_device *device)
{
	add_bytes(out, claims_memory_left(device));
	strbuf_adds(out, " of memory are free, ");
	add_bytes(out, fit->memory);
	strbuf_adds(out, " are asked for");
}

static void add_too_much(struct strbuf *out, const struct claims_device *device)
{
	const struct device_capacity *memory = &device->device->memory;

	strbuf_adds(out, "it gives at most ");
	add_bytes(out, memory->max && memory->max < memory->value ? memory->max : memory->value);
	strbuf_adds(out, " of memory");
}

void fit_add_text(struct strbuf *out, const struct fit *fit, const struct claims_device *device,
	const struct claim_request *request)
{
	switch (fit->result) {
	case FIT_YES:
		strbuf_adds(out, "fits");
		break;
	case FIT_UNKNOWN:
		strbuf_addf(out, "fits if this selector, which ration does not evaluate, is true: %.300s",
			fit->selector);
		break;
	case FIT_INCOMPLETE_POOL:
		strbuf_adds(out, "ResourceSlices of its pool are missing");
		break;
	case FIT_SELECTOR:
		strbuf_addf(out, "it is not selected by %.300s", fit->selector);
		break;
	case FIT_SELECTOR_FAILS:
		strbuf_addf(out,
			"it does not have an attribute in %.300s; kube-scheduler stops there with an error",
			fit->selector);
		break;
	case FIT_NO_CAPACITY:
		strbuf_addf(out, "it has no capacity %s, which the request names",
			*request->other			 ? request->other
			: device->device->memory.present ? "cores"
							 : "memory");
		break;
	case FIT_TAINT:
		add_taint(out, fit->taint);
		break;
	case FIT_IN_USE:
		strbuf_adds(out, "it is allocated to another claim, and cannot be shared");
		break;
	case FIT_TOO_MUCH_MEMORY:
		add_too_much(out, device);
		break;
	case FIT_TOO_MUCH_CORES:
		strbuf_addf(out, "it gives at most %" PRIu64 " percent of computing power",
			device->device->cores.value);
		break;
	case FIT_MEMORY:
		add_memory(out, fit, device);
		break;
	case FIT_CORES:
		strbuf_addf(out, "%" PRIu64 " percent of computing power are free, %" PRIu64 " are asked for",
			claims_cores_left(device), fit->cores);
		break;
	case FIT_MAX:
		break;
	}
}
