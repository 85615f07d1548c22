/* event-rate.h - limits the Events per minute, whatever the programs do that cause them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define EVENT_RATE_MAX 10
#define EVENT_RATE_NS (60 * NS_PER_S)

struct event_rate {
	int64_t since_ns;
	unsigned count;
};

/* event_rate_take() - whether one more Event is allowed now; if so, it is counted. */
static inline bool event_rate_take(struct event_rate *rate, int64_t now_ns)
{
	if (rate->since_ns == 0 || now_ns - rate->since_ns >= EVENT_RATE_NS)
		*rate = (struct event_rate){.since_ns = now_ns};
	if (rate->count >= EVENT_RATE_MAX)
		return false;
	rate->count++;
	return true;
}
