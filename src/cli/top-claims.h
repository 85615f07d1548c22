/* top-claims.h - names the pods that use the ResourceClaims of a sample. On a node in mode dra, a grant
 * belongs to a claim, and all containers that use the claim share it. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/table.h"

struct claim;
struct kubectl;
struct strbuf;
struct top_sample;

struct top_claims {
	struct table pods;    /* "namespace/claim" -> "a, b", malloc'ed */
	int64_t read_at_ns;   /* 0: not yet */
	struct error problem; /* why the claims could not be read the last time */
};

void top_claims_init(struct top_claims *claims);
void top_claims_release(struct top_claims *claims);

/* top_claims_note() - remembers the pods of one claim. -ENOMEM. */
int top_claims_note(struct top_claims *claims, const struct claim *claim);

/* top_claims_refresh() - reads the claims of the cluster, at most once in 10 s. If they cannot be read,
 * problems gets a line. */
void top_claims_refresh(struct top_claims *claims, const struct kubectl *kubectl, struct strbuf *problems);

/* top_claims_apply() - sets `users` of the holders of this node, which is in mode dra. */
void top_claims_apply(const struct top_claims *claims, struct top_sample *sample, const char *node);
