/* terms.h - the mode and the unit under which a node serves pods, and when others come into force. Pure: the
 * agent and the deterministic simulation decide with the same code.
 *
 * Pods keep the terms that they came under: others wait for the last one. Since a Binding may be on its way
 * to a node that looks empty, it is closed first, and what may still arrive is waited for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "model/facts.h"

/* A Binding has 3 s (ration-scheduler's bind.c), and the word that the node is closed some time to get there.
 */
#define TERMS_CLOSED_NS (4 * NS_PER_S)

struct terms {
	enum gpu_mode mode;
	uint32_t unit_mib; /* says nothing where the mode is none, or gives whole GPUs */
};

struct terms_change {
	struct terms in_force;
	int64_t closed_since_ns; /* 0: the node is open, or nobody was told yet that it is not */
};

/* What is known now. */
struct terms_seen {
	struct terms asked;
	size_t holders; /* pods of this node, and containers whose pod is gone from the API server */
	bool closed;	/* the API server shows that nothing new may come */
	bool following; /* the watch of pods is open */
	int64_t now_ns; /* monotonic */
};

enum terms_state {
	TERMS_OPEN,    /* what is asked for is in force */
	TERMS_CLOSED,  /* nothing new may come, nobody is there: soon */
	TERMS_HELD,    /* nothing new may come, but pods are there */
	TERMS_CHANGED, /* what is asked for came into force just now */
};

bool terms_equal(const struct terms *a, const struct terms *b);

/* terms_settle() - call it whenever something may have changed, and every second. */
enum terms_state terms_settle(struct terms_change *change, const struct terms_seen *seen);
