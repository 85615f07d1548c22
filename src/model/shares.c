#include "model/shares.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "model/facts.h"

#define PER_PERCENT (SHARE_WHOLE / 100)

static const char *const names[SHARE_POLICY_MAX] = {
	"fair-share", "preemptive", "weight-preemptive", "fixed", "soft", "native"};

int share_policy_parse(const char *text, enum share_policy *ret_policy)
{
	if (text[0] < '0' || text[0] >= '0' + SHARE_POLICY_MAX || text[1])
		return -EINVAL;
	*ret_policy = (enum share_policy)(text[0] - '0');
	return 0;
}

const char *share_policy_name(enum share_policy policy)
{
	return policy < SHARE_POLICY_MAX ? names[policy] : "?";
}

int share_weight_parse(const char *text, uint32_t *ret_weight)
{
	uint64_t weight;

	if (parse_u64(text, SHARE_WEIGHT_MAX, &weight) < 0 || weight == 0)
		return -EINVAL;
	*ret_weight = (uint32_t)weight;
	return 0;
}

/* The demands on one GPU, summed over some of its containers. */
struct sums {
	uint64_t percent;
	uint64_t weight;  /* sum of holder_weight() */
	uint64_t without; /* containers without a percentage */
};

static uint32_t holder_weight(enum share_policy policy, const struct share_holder *holder)
{
	if (holder->percent && (policy == SHARE_WEIGHT || !holder->weight))
		return holder->percent;
	return holder->weight ? holder->weight : 1;
}

static struct sums sums_of(enum share_policy policy, const struct share_holder *holders, size_t n, bool all)
{
	struct sums sums = {0};

	for (size_t i = 0; i < n; i++) {
		if (!all && !holders[i].busy)
			continue;
		sums.percent += holders[i].percent;
		sums.weight += holder_weight(policy, &holders[i]);
		sums.without += holders[i].percent == 0;
	}
	return sums;
}

/* If the percentages exceed the GPU (a forged annotation), all of them are reduced in proportion. */
static uint32_t guaranteed(const struct share_holder *holder, const struct sums *sums)
{
	if (sums->percent <= 100)
		return holder->percent * PER_PERCENT;
	return (uint32_t)((uint64_t)holder->percent * SHARE_WHOLE / sums->percent);
}

static uint32_t left_by(const struct sums *sums)
{
	return sums->percent < 100 ? SHARE_WHOLE - (uint32_t)sums->percent * PER_PERCENT : 0;
}

static uint32_t part(uint32_t of, uint64_t weight, uint64_t weights)
{
	return (uint32_t)(of * weight / weights);
}

/* Shares by weight. Together with containers without a percentage, a share is not below the container's own
 * percentage. All containers with a percentage reach it at the same sum of weights. */
static uint32_t by_weight(const struct share_holder *holder, const struct sums *sums)
{
	uint64_t weight = holder_weight(SHARE_WEIGHT, holder);

	if (sums->percent == 0 || sums->weight <= 100 || sums->without == 0)
		return part(SHARE_WHOLE, weight, sums->weight);
	if (holder->percent)
		return guaranteed(holder, sums);
	return part(left_by(sums), weight, sums->weight - sums->percent);
}

/* The share of each container without a percentage. 0: not controlled. */
static uint32_t without_percentage(enum share_policy policy, uint32_t max_containers, const struct sums *sums)
{
	uint32_t each = part(left_by(sums), 1, sums->without);
	uint32_t fair = SHARE_WHOLE / (max_containers ? max_containers : INSTANCES_MAX);

	switch (policy) {
	case SHARE_FAIR:
		return fair < each ? fair : each;
	case SHARE_PREEMPTIVE:
		return each;
	default:
		return sums->percent ? each : 0;
	}
}

static uint32_t share_of(enum share_policy policy, uint32_t max_containers, const struct share_holder *holder,
	const struct sums *sums)
{
	switch (policy) {
	case SHARE_WEIGHT:
		return by_weight(holder, sums);
	case SHARE_SOFT:
		return guaranteed(holder, sums) +
		       part(left_by(sums), holder_weight(policy, holder), sums->weight);
	default:
		return holder->percent ? guaranteed(holder, sums)
				       : without_percentage(policy, max_containers, sums);
	}
}

/* Raises smaller shares to SHARE_LEAST, and reduces all others in proportion. */
static void raise_to_least(const struct share_holder *holders, bool all, uint32_t *shares, size_t n)
{
	uint64_t sum = 0, low = 0, rest;

	for (size_t i = 0; i < n; i++) {
		if (!all && !holders[i].busy)
			continue;
		low += shares[i] < SHARE_LEAST;
		sum += shares[i] < SHARE_LEAST ? 0 : shares[i];
	}
	rest = SHARE_WHOLE - low * SHARE_LEAST;
	for (size_t i = 0; i < n; i++) {
		if (shares[i] < SHARE_LEAST)
			shares[i] = SHARE_LEAST;
		else if (sum > rest && (all || holders[i].busy))
			shares[i] = (uint32_t)(shares[i] * rest / sum);
	}
}

void shares_compute(enum share_policy policy, uint32_t max_containers, const struct share_holder *holders,
	size_t n, uint32_t *ret_shares)
{
	size_t heard = n < SHARE_HOLDERS_MAX ? n : SHARE_HOLDERS_MAX;
	struct sums all = sums_of(policy, holders, heard, true),
		    busy = sums_of(policy, holders, heard, false);
	bool soft = policy == SHARE_SOFT, controlled = false;

	for (size_t i = 0; i < heard; i++) {
		const struct sums *sums = soft && holders[i].busy ? &busy : &all;

		ret_shares[i] = share_of(policy, max_containers, &holders[i], sums);
		controlled = controlled || ret_shares[i] || all.percent;
	}
	for (size_t i = heard; i < n; i++)
		ret_shares[i] = SHARE_LEAST;
	if (controlled)
		raise_to_least(holders, !soft, ret_shares, heard);
}
