/* Reads ResourceSlices and ResourceClaims through kubectl. */
#include "cli/claims.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "kube/claim.h"
#include "kube/device-slice.h"
#include "kube/names.h"

struct reading {
	struct claims *claims;
	struct warnings *warnings;
};

/* A malformed object must not hide the others. */
static int leave_out(struct reading *reading, int r, const struct error *problem, struct error *err)
{
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (r < 0)
		list_warn(reading->warnings, problem->text);
	return 0;
}

static int read_slice(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_device_slice_ struct device_slice slice;
	struct reading *reading = userdata;
	struct error problem = {""};
	int r = device_slice_from_json(item, &slice, &problem);

	if (r == 0)
		r = claims_take_slice(reading->claims, &slice);
	return leave_out(reading, r, &problem, err);
}

static int read_claim(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_claim_ struct claim claim;
	struct reading *reading = userdata;
	struct error problem = {""};
	int r = claim_from_json(item, &claim, &problem);

	if (r == 0)
		r = claims_take_claim(reading->claims, &claim);
	return leave_out(reading, r, &problem, err);
}

int claims_fetch(struct claims *claims, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	struct reading reading = {.claims = claims, .warnings = warnings};
	struct list_reader slices = {.kind = "ResourceSliceList",
		.sign = DRA_DRIVER,
		.read = read_slice,
		.userdata = &reading,
		.warnings = warnings};
	struct list_reader of_claims = {.kind = "ResourceClaimList",
		.sign = DRA_DRIVER,
		.read = read_claim,
		.userdata = &reading,
		.warnings = warnings};
	char selector[400];
	int r;

	snprintf(selector, sizeof(selector), "spec.driver=" DRA_DRIVER "%s%.253s",
		node ? ",spec.nodeName=" : "", node ? node : "");
	r = list_read(kubectl, DRA_SLICES_PATH, selector, &slices, err);
	if (r == 0)
		r = list_read(kubectl, DRA_CLAIMS_PATH, NULL, &of_claims, err);
	return r == 0 && claims_finish(claims) < 0 ? error_set(err, ENOMEM, "out of memory") : r;
}
