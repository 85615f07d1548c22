#include "agent/gpu/clarity.h"

#include <string.h>

#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "base/clock.h"

/* A runtime names a container within milliseconds; a process that has ended is gone from the driver's list as
 * soon. Who waits for a look waits a quarter of that (session_await_look()). */
#define OPEN_NS (1 * NS_PER_S)
/* Each look as long after the one before as a quarter of what went before: some forty in a second. */
#define PART 4

static bool is_open(const struct holder *holder)
{
	return !holder->process || (!holder->watched && !holder->certain);
}

static bool lasts(const struct clarity *clarity, int64_t now_ns)
{
	return clarity->since_ns && now_ns - clarity->since_ns >= OPEN_NS;
}

void clarity_note(struct clarity *clarity, const struct holder *holders, size_t n, int64_t now_ns)
{
	bool open = false;

	for (size_t i = 0; i < n; i++)
		open |= is_open(&holders[i]);
	if (!open)
		clarity->since_ns = 0;
	else if (!clarity->since_ns)
		clarity->since_ns = now_ns;
	clarity->again_ns = open && !lasts(clarity, now_ns) ? now_ns + (now_ns - clarity->since_ns) / PART
							    : 0;
}

bool clarity_is_open(const struct clarity *clarity, const struct holder *holders, size_t n, const char *uid,
	int64_t now_ns)
{
	if (!clarity->since_ns || lasts(clarity, now_ns))
		return false;
	for (size_t i = 0; i < n; i++)
		if (is_open(&holders[i]) &&
			(!holders[i].process || strcmp(holders[i].process->place.uid, uid) == 0))
			return true;
	return false;
}
