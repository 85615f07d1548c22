/* waiting-claims.h - the pods that wait for GPUs of ration by ResourceClaims. */
#pragma once

struct error;
struct inspect;
struct kubectl;
struct warnings;

/* waiting_claims_fetch() - adds them to inspect->waiting. A pod whose claim does not exist yet is left out,
 * because nothing says yet what it will ask for. */
int waiting_claims_fetch(
	struct inspect *inspect, const struct kubectl *kubectl, struct warnings *warnings, struct error *err);
