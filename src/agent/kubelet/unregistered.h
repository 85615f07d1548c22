/* unregistered.h - the kubelet does not have devices that the mode in force offers: since when, why, and what
 * a person can do about it. */
#pragma once

#include <stdint.h>

struct kubelet;

struct unregistered {
	int64_t since_ns; /* 0: the kubelet has them, or the mode has none */
	int64_t told_ns;
};

/* unregistered_look() - again, at least once in a second. The node's problem `unregistered` is empty for the
 * first 10 s, which a kubelet that restarts may take. Tells by an Event and the log when it has lasted for 10
 * s, and then every 5 minutes. */
void unregistered_look(struct kubelet *kubelet);

/* unregistered_for_ns() - how long by now. */
int64_t unregistered_for_ns(const struct kubelet *kubelet);
