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
