/* claims-read.h - reads ResourceSlices and ResourceClaims through kubectl. */
#pragma once

struct claims;
struct error;
struct kubectl;
struct warnings;

/* claims_fetch() - all slices of ration's driver, or those of one node, and the claims of all namespaces;
 * then claims_finish(). Malformed objects are left out, with a warning. */
int claims_fetch(struct claims *claims, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);
