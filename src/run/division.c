#include "run/division.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define NAMED_MAX 300 /* bytes of the text that lists runs and their shares: it fits into an error */

/* The other runs on one GPU of this run. */
struct division_gpu {
	struct share_holder *holders;
	size_t n;
	uint32_t percent;
	int policy; /* -1: unknown yet */
	pid_t run;  /* one of the runs under this policy */
	struct strbuf named;
};

struct division {
	const struct grant_file *grant;
	struct division_gpu gpus[GRANT_FILE_GPUS_MAX];
};

/* A program's arguments may contain control sequences of terminals. */
static void add_name(struct division_gpu *gpu, const struct run_seen *run)
{
	char name[41];
	size_t len = strnlen(run->grant->container, sizeof(name) - 1);

	for (size_t i = 0; i < len; i++)
		name[i] = run->grant->container[i] < 0x20 || run->grant->container[i] == 0x7f
				  ? '?'
				  : run->grant->container[i];
	name[len] = '\0';
	strbuf_addf(&gpu->named, "%srun %d (%s) has %u%%", gpu->named.len ? ", " : "", (int)run->pid, name,
		run->power.percent);
}

static int division_gpu_add(struct division_gpu *gpu, const struct run_seen *run)
{
	struct share_holder *grown;

	if (gpu->n == SHARE_HOLDERS_MAX - 1)
		return -E2BIG;
	grown = reallocarray(gpu->holders, gpu->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	gpu->holders = grown;
	grown[gpu->n++] = (struct share_holder){
		.percent = run->power.percent, .weight = run->power.weight, .busy = true};
	if (gpu->policy < 0) {
		gpu->policy = run->power.policy;
		gpu->run = run->pid;
	}
	gpu->percent += run->power.percent;
	if (run->power.percent)
		add_name(gpu, run);
	return 0;
}

static int add_run(void *context, const struct run_seen *run)
{
	struct division *division = context;
	int r = 0;

	for (unsigned i = 0; i < division->grant->gpu_count; i++)
		for (unsigned k = 0; k < run->grant->gpu_count && r == 0; k++)
			if (strcmp(division->grant->gpus[i].uuid, run->grant->gpus[k].uuid) == 0)
				r = division_gpu_add(&division->gpus[i], run);
	return r;
}

/* A weight means nothing under a policy without weights. A percentage is a cap unless the user gives a
 * policy. */
static int policy_of(const struct division *division, const struct division_wish *wish,
	const char labels[][16], int *ret_policy, struct error *err)
{
	int policy = wish->policy;

	for (unsigned i = 0; i < division->grant->gpu_count; i++) {
		const struct division_gpu *gpu = &division->gpus[i];

		if (gpu->policy < 0)
			continue;
		if (policy >= 0 && policy != gpu->policy)
			return error_set(err, EBUSY,
				"GPU %s is divided by policy %d (%s), as by run %d: use this policy, or wait until all runs on the GPU have ended",
				labels[i], gpu->policy, share_policy_name((enum share_policy)gpu->policy),
				(int)gpu->run);
		policy = gpu->policy;
	}
	if (policy < 0)
		policy = wish->weight ? SHARE_SOFT : SHARE_FIXED;
	if (wish->weight && policy != SHARE_WEIGHT && policy != SHARE_SOFT)
		return error_set(err, EINVAL,
			"a weight says nothing under policy %d (%s): only 2 and 4 have any", policy,
			share_policy_name((enum share_policy)policy));
	*ret_policy = policy;
	return 0;
}

static int check_percentages(const struct division *division, const struct division_wish *wish,
	const char labels[][16], struct error *err)
{
	for (unsigned i = 0; i < division->grant->gpu_count && wish->percent; i++) {
		const struct division_gpu *gpu = &division->gpus[i];

		if (gpu->percent + wish->percent > 100)
			return error_set(err, ENOSPC, "GPU %s has %u%% of its computing power left: %.*s",
				labels[i], gpu->percent < 100 ? 100 - gpu->percent : 0, NAMED_MAX,
				strbuf_cstr(&gpu->named));
	}
	return 0;
}

/* The share if all runs have work; the run's monitor soon computes the real one. */
static int first_share(
	struct division_gpu *gpu, const struct run_power *power, struct grant_file *grant, unsigned index)
{
	uint32_t *shares = calloc(gpu->n + 1, sizeof(*shares));
	struct share_holder *holders = reallocarray(gpu->holders, gpu->n + 1, sizeof(*holders));

	if (holders)
		gpu->holders = holders;
	if (!holders || !shares) {
		free(shares);
		return -ENOMEM;
	}
	holders[gpu->n] = (struct share_holder){
		.percent = power->percent, .weight = power->weight, .busy = true};
	shares_compute((enum share_policy)power->policy, 0, holders, gpu->n + 1, shares);
	grant_file_set_power(grant, index, shares[gpu->n], shares[gpu->n], (uint64_t)power->policy + 1);
	free(shares);
	return 0;
}

static int admit(struct division *division, const struct division_wish *wish, struct grant_file *grant,
	const char labels[][16], struct run_power *ret_power, struct error *err)
{
	struct run_power power = {.percent = wish->percent, .weight = wish->weight};
	int r = policy_of(division, wish, labels, &power.policy, err);

	if (r == 0)
		r = check_percentages(division, wish, labels, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < grant->gpu_count && r == 0; i++)
		r = first_share(&division->gpus[i], &power, grant, i);
	if (r < 0)
		return error_set(err, -r, "out of memory");
	*ret_power = power;
	return 0;
}

int division_admit(struct registry *registry, const struct division_wish *wish, struct grant_file *grant,
	const char labels[][16], struct run_power *ret_power, struct error *err)
{
	struct division *division = calloc(1, sizeof(*division));
	int r;

	if (!division)
		return error_set(err, ENOMEM, "out of memory");
	division->grant = grant;
	for (size_t i = 0; i < GRANT_FILE_GPUS_MAX; i++) {
		division->gpus[i].policy = -1;
		strbuf_init(&division->gpus[i].named, 64 << 10);
	}
	r = registry_each(registry, add_run, division);
	r = r == 0 ? admit(division, wish, grant, labels, ret_power, err)
		   : error_set(err, -r, "too many runs on one GPU: %s", strerror(-r));
	for (size_t i = 0; i < GRANT_FILE_GPUS_MAX; i++) {
		free(division->gpus[i].holders);
		strbuf_release(&division->gpus[i].named);
	}
	free(division);
	return r;
}
