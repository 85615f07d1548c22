/* fault-calls.c - faults in the next calls of libcuda, of any process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "sim/ration-sim/commands.h"
#include "sim/state/trouble.h"

#define TIMES_MAX 1000000
#define SLOW_MAX_MS 600000

/* The arguments of each kind: KIND [POINT] [ARGUMENT] [TIMES or SKIP]. */
static const struct call_fault {
	const char *name;
	enum sim_fault_kind kind;
	bool has_point, has_argument;
	uint32_t argument_max;
} call_faults[] = {
	{"oom", SIM_FAULT_OOM, false, false, 0},
	{"slow", SIM_FAULT_SLOW, true, true, SLOW_MAX_MS},
	{"fail", SIM_FAULT_FAIL, true, true, 999},
	{"kill", SIM_FAULT_KILL, true, false, 0},
};

static const struct call_fault *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_faults); i++)
		if (strcmp(call_faults[i].name, name) == 0)
			return &call_faults[i];
	return NULL;
}

bool fault_is_of_calls(const char *kind)
{
	return find(kind) || strcmp(kind, "calm") == 0;
}

static int parse(const struct call_fault *of, uint32_t gpu, int count, char **arguments,
	struct sim_fault *ret_fault, struct error *err)
{
	struct sim_fault fault = {.kind = of->kind, .left = 1, .gpu = gpu};
	int needed = of->has_point + of->has_argument, at = 0;
	uint32_t number = of->kind == SIM_FAULT_KILL ? 0 : 1;

	if (count < needed || count > needed + 1)
		return error_set(err, EINVAL, "fault %s: needs %s%s, and may be followed by a number",
			of->name, of->has_point ? "a point" : "nothing more",
			of->has_argument ? " and its number" : "");
	if (of->has_point) {
		if (strlen(arguments[at]) >= sizeof(fault.point))
			return error_set(
				err, EINVAL, "fault %s: \"%.60s\" is too long", of->name, arguments[at]);
		strcpy(fault.point, arguments[at++]);
	}
	if (of->has_argument && parse_u32(arguments[at++], of->argument_max, &fault.argument) < 0)
		return error_set(
			err, EINVAL, "fault %s: the number must be at most %u", of->name, of->argument_max);
	if (at < count && parse_u32(arguments[at], TIMES_MAX, &number) < 0)
		return error_set(err, EINVAL, "fault %s: \"%.40s\" is not a number up to %d", of->name,
			arguments[at], TIMES_MAX);
	if (of->kind == SIM_FAULT_KILL)
		fault.skip = number;
	else
		fault.left = number;
	*ret_fault = fault;
	return 0;
}

int fault_calls(
	const char *dir, uint32_t gpu, const char *kind, int count, char **arguments, struct error *err)
{
	const struct call_fault *of = find(kind);
	struct sim_trouble *trouble = NULL;
	struct sim_fault fault;
	int r = of ? parse(of, gpu, count, arguments, &fault, err) : 0;

	if (r < 0)
		return r;
	r = sim_trouble_map(dir, &trouble);
	if (r < 0)
		return error_set(err, -r, "%s/state/trouble: %s", dir, strerror(-r));
	if (!of)
		sim_trouble_clear(trouble);
	else if (sim_trouble_add(trouble, &fault) < 0)
		r = error_set(err, ENOSPC, "%d faults are waiting for a call already; remove them with: calm",
			SIM_MAX_FAULTS);
	sim_trouble_unmap(trouble);
	return r;
}
