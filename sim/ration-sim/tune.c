#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "sim/ration-sim/commands.h"
#include "sim/state/work.h"

static const struct knob {
	const char *name;
	size_t offset;
	uint32_t min, max;
} knobs[] = {
	{"slice-us", offsetof(struct sim_work, slice_us), 1, 1000000},
	{"latency-ns", offsetof(struct sim_work, latency_ns), 0, 1000000000},
};

static _Atomic uint32_t *value_of(struct sim_work *work, const struct knob *knob)
{
	return (_Atomic uint32_t *)((char *)work + knob->offset);
}

static int turn(struct sim_work *work, const char *text, struct error *err)
{
	uint32_t number;

	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		size_t n = strlen(knobs[i].name);

		if (strncmp(text, knobs[i].name, n) != 0 || text[n] != '=')
			continue;
		if (parse_u32(text + n + 1, knobs[i].max, &number) < 0 || number < knobs[i].min)
			return error_set(err, EINVAL, "tune %s: must be %u to %u", knobs[i].name,
				knobs[i].min, knobs[i].max);
		atomic_store(value_of(work, &knobs[i]), number);
		return 0;
	}
	return error_set(err, EINVAL, "tune: \"%.40s\" is neither slice-us=N nor latency-ns=N", text);
}

int command_tune(int argc, char **argv)
{
	struct sim_work *work = NULL;
	struct error err = {};
	int r;

	if (argc < 2)
		return command_misused("tune");
	r = sim_work_map(argv[1], &work);
	if (r < 0)
		error_set(&err, -r, "%s/state/work: %s", argv[1], strerror(-r));
	for (int i = 2; r == 0 && i < argc; i++)
		r = turn(work, argv[i], &err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(knobs); i++)
		printf("%s=%u\n", knobs[i].name, atomic_load(value_of(work, &knobs[i])));
	sim_work_unmap(work);
	return r < 0 ? command_fail(&err) : 0;
}
