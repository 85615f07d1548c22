/* journal-internal.h - the journal's ring: journal.c fills it, dump.c writes it out. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "scheduler/journal.h"

struct dump;

/* What was there before a change, or that there was nothing. */
enum subject { SUBJECT_NONE, SUBJECT_NODE, SUBJECT_POD };

struct entry {
	unsigned refs;
	uint64_t number;
	int64_t time_ns;
	enum subject subject;
	size_t bytes;
	const char *key, *before, *line; /* before "": was not there; line "": only a picture */
	char data[];
};

void entry_unref(struct entry *entry);

struct journal {
	struct scheduler *scheduler;
	struct entry *ring[JOURNAL_MAX];
	size_t first, n;
	size_t bytes;
	uint64_t number;
	struct strbuf before, line; /* of the change at hand; kept for their memory */
	struct dump *dump;	    /* under way, or NULL */
};
