#include "core/leadership.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"

#define PAUSE_NS (2 * NS_PER_S)
#define FRESH_NS (5 * NS_PER_S)
#define GOOD_NS (200 * NS_PER_MS)

void ownership_always(struct ownership *ownership)
{
	*ownership = (struct ownership){.owner = LEDGER_OWNER_US, .valid_until_ns = INT64_MAX};
}

int ownership_may_plan(const struct ownership *ownership, struct error *err)
{
	if (ownership->owner == LEDGER_OWNER_US)
		return 0;
	if (ownership->owner == LEDGER_OWNER_OTHER)
		return error_set(err, EPERM, "another scheduler owns the GPU ledger: %s", ownership->holder);
	return error_set(err, EPERM, "%s",
		ownership->trouble[0] ? ownership->trouble : LEDGER_LEASE_TEXT " is not read yet");
}

int ownership_may_bind(const struct ownership *ownership, int64_t now_ns, struct error *err)
{
	int r = ownership_may_plan(ownership, err);

	if (r < 0 || now_ns < ownership->valid_until_ns)
		return r;
	return error_set(err, EPERM, "%s",
		ownership->trouble[0] ? ownership->trouble : LEDGER_LEASE_TEXT " has run out");
}

void leadership_init(struct leadership *leadership)
{
	*leadership = (struct leadership){0};
	table_init(&leadership->nodes);
}

void leadership_release(struct leadership *leadership)
{
	table_release(&leadership->nodes);
}

void leadership_note_call(struct leadership *leadership, bool another, int64_t now_ns)
{
	if (another || !leadership->last_call_ns || now_ns - leadership->last_call_ns > PAUSE_NS) {
		table_release(&leadership->nodes);
		leadership->period++;
		leadership->fresh_until_ns = now_ns + FRESH_NS;
	}
	leadership->last_call_ns = now_ns;
}

/* Stands for the time of the list while it is under way. Monotonic time is never 1 ns. */
#define BEING_LISTED ((void *)1)

enum leadership_node leadership_node(const struct leadership *leadership, const char *node, int64_t now_ns)
{
	const void *known;

	if (now_ns >= leadership->fresh_until_ns)
		return LEADERSHIP_GO;
	known = table_get(&leadership->nodes, node);
	if (known == BEING_LISTED)
		return LEADERSHIP_WAIT;
	return known && now_ns - (int64_t)(intptr_t)known < GOOD_NS ? LEADERSHIP_GO : LEADERSHIP_LIST;
}

int64_t leadership_begin(struct leadership *leadership, const char *node)
{
	int r = table_set(&leadership->nodes, node, BEING_LISTED);

	return r < 0 ? r : (int64_t)leadership->period;
}

void leadership_end(
	struct leadership *leadership, const char *node, int64_t period, bool known, int64_t now_ns)
{
	if (period != (int64_t)leadership->period)
		return;
	if (known) /* the entry exists, so this cannot fail */
		table_set(&leadership->nodes, node, (void *)(intptr_t)now_ns);
	else
		table_remove(&leadership->nodes, node);
}
