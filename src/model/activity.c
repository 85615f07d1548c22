#include "model/activity.h"

bool activity_see(struct activity *activity, int64_t now_ns, uint64_t started_ns, uint64_t asked)
{
	uint64_t more = started_ns - activity->started_ns;
	bool moved = activity->known && (more || asked != activity->asked);
	int64_t hold = ACTIVITY_NS;

	/* The container may write any number, so the counter can also go backwards. Then it moved, and
	 * nothing more is known. */
	if (started_ns > activity->started_ns && more > ACTIVITY_NS / 2)
		hold = more < ACTIVITY_MOST_NS / 2 ? (int64_t)(2 * more) : ACTIVITY_MOST_NS;
	if (moved && now_ns + hold > activity->until_ns)
		activity->until_ns = now_ns + hold;
	activity->started_ns = started_ns;
	activity->asked = asked;
	activity->known = true;
	return now_ns < activity->until_ns;
}

bool endless_sample(
	struct endless *endless, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns, uint32_t share)
{
	double allowed = (double)elapsed_ns * ((double)share + ENDLESS_MARGIN) / 1e6;

	if (started_ns != 0 || (double)used_ns <= allowed) {
		*endless = (struct endless){0};
		return false;
	}
	endless->for_ns += elapsed_ns < ENDLESS_NS ? elapsed_ns : ENDLESS_NS;
	if (endless->told || endless->for_ns < ENDLESS_NS)
		return false;
	return endless->told = true;
}
