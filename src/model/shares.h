/* shares.h - how the computing power of one GPU is divided among the containers on it. Pure.
 * docs/internals/contract.md, section 7.
 *
 * Shares are in millionths of the GPU's time. 0: not controlled, and not counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum share_policy {
	SHARE_FAIR,	  /* 1/max_containers each */
	SHARE_PREEMPTIVE, /* 1/n each */
	SHARE_WEIGHT,	  /* by weight among the containers on the GPU */
	SHARE_FIXED,	  /* the container's percentage; without one, not controlled */
	SHARE_SOFT,	  /* by weight among the containers that have work */
	SHARE_NATIVE,	  /* not controlled, except containers with a percentage */
	SHARE_POLICY_MAX,
};

#define SHARE_WHOLE UINT32_C(1000000) /* the whole GPU; a container with this share never waits */
/* No controlled container has less, whatever the weights: less would look like a hang. */
#define SHARE_LEAST UINT32_C(500)
#define SHARE_HOLDERS_MAX 1024 /* on one GPU */
#define SHARE_WEIGHT_MAX 10000 /* of one container */

struct share_holder {
	uint32_t percent; /* gpu-core.percentage; 0: none */
	uint32_t weight;  /* ALIYUN_COM_GPU_SCHD_WEIGHT; 0: none */
	bool busy;	  /* has work now; used only under SHARE_SOFT */
};

/* share_policy_parse() - "0" to "5"; -EINVAL. share_policy_name() - "fair-share" ... */
int share_policy_parse(const char *text, enum share_policy *ret_policy);
const char *share_policy_name(enum share_policy policy);

/* share_weight_parse() - 1 to SHARE_WEIGHT_MAX, in digits; -EINVAL. */
int share_weight_parse(const char *text, uint32_t *ret_weight);

/* shares_compute() - the share of each of n containers on one GPU (at most SHARE_HOLDERS_MAX; further ones
 * count for nothing and get SHARE_LEAST). max_containers: for SHARE_FAIR; 0 is INSTANCES_MAX.
 *
 * A percentage always holds. The policies 0, 1 and 5 act as 3 for containers with a percentage, and those
 * without one divide what is left of the GPU. Under 2 the percentage is the weight, and a weight variable is
 * ignored. Together with containers without a percentage it is also the least that its container has. Under 4
 * it is guaranteed, and what idle containers leave is divided by weight.
 *
 * The sum over containers that have work never exceeds the GPU. A container that is idle under 4 keeps the
 * share that it has when all have work, so that it can start at once; the others use it meanwhile. */
void shares_compute(enum share_policy policy, uint32_t max_containers, const struct share_holder *holders,
	size_t n, uint32_t *ret_shares);
