/* What a scheduler of the simulation decides is recorded as ration-scheduler records it, from some event on,
 * and replayed when the scheduler ends: the replay must come to the same decisions and to the same state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "log-fixture.h"
#include "sim.h"

#define RECORDING_MAX (64u << 20)

bool sim_replays;
FILE *sim_recordings;

void recording_begin(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct random random;

	if (!sim_replays)
		return;
	random_seed(&random, sim->plan->seed, 1000 + ration->epoch * PAIRS_MAX + (uint32_t)pair);
	strbuf_init(&ration->recording, RECORDING_MAX);
	ration->recording_after = random_one_in(&random, 2) ? 0 : random_between(&random, 0, 400);
}

void recording_follow(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	if (sim_replays && !ration->core.log.event && ration->recording_after-- <= 0)
		log_begin(&ration->core, &ration->recording);
}

void recording_end(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct error err = {0};

	if (!sim_replays)
		return;
	if (ration->core.log.event) {
		count(sim, COUNT_REPLAYS);
		log_end(&ration->core, &ration->recording);
		if (sim_recordings)
			fputs(strbuf_cstr(&ration->recording), sim_recordings);
		if (ration->recording.failed)
			sim->truncated = "a recording is too long";
		else if (log_replay(&ration->recording, &err))
			sim_violate(sim, "replay", "of scheduler %d: %.300s", pair, err.text);
	}
	strbuf_release(&ration->recording);
}

/* One recording of a file, line by line. Returns -1: it comes out otherwise, and is named. */
static int play(struct strbuf *recording, unsigned number)
{
	struct error err = {0};

	if (recording->len && log_replay(recording, &err)) {
		printf("recording %u: %s\n", number, err.text);
		return -1;
	}
	strbuf_clear(recording);
	return 0;
}

int recordings_play(FILE *file)
{
	static const char first[] = "{\"history\":";
	_cleanup_strbuf_ struct strbuf recording;
	char *line = NULL;
	unsigned n = 0;
	size_t size = 0;
	ssize_t len;
	int r = 0;

	strbuf_init(&recording, RECORDING_MAX);
	while (r == 0 && (len = getline(&line, &size, file)) > 0) {
		if (strncmp(line, first, sizeof(first) - 1) == 0)
			r = play(&recording, n++);
		strbuf_add(&recording, line, (size_t)len);
	}
	if (r == 0)
		r = play(&recording, n);
	free(line);
	if (r == 0)
		printf("%u recordings: all as recorded\n", n);
	return r < 0 || !n;
}
