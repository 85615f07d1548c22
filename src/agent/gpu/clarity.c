#include "agent/gpu/clarity.h"

#include <string.h>

#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "base/clock.h"

/* A runtime names a container within milliseconds, and the driver drops an ended process from its list as
 * fast. A program that waits for a sample waits for a quarter of this time (session_await_look()). */
#define OPEN_NS (1 * NS_PER_S)
/* The next sample comes after a quarter of the time for which something has been open: about forty samples in
 * OPEN_NS. */
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
