/* history-internal.h - the words of a history, which history-text.c writes and history.c reads. */
#pragma once

#include <stddef.h>

#include "core/registry/ledger.h"
#include "core/registry/ledger-event.h"

#define HISTORY_KINDS 3
#define HISTORY_FLAGS 5

/* By enum ledger_verb, enum occupancy, enum container_kind. */
extern const char *const history_verb_texts[LEDGER_VERB_MAX];
extern const char *const history_state_texts[OCCUPANCY_MAX];
extern const char *const history_kind_texts[HISTORY_KINDS];

/* The booleans of struct pod_facts that a history keeps; false is left out. */
struct history_flag {
	const char *name;
	size_t offset;
};
extern const struct history_flag history_flags[HISTORY_FLAGS];
