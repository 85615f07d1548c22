/* clarity.h - whether a look at a GPU could tell whose memory everything on it is. It cannot where a process
 * has just ended or begun, or the runtime has not named its container yet. Pure but for the clock that it is
 * given. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct holder;

/* Of one GPU. Zero: nothing is open. */
struct clarity {
	int64_t since_ns; /* of the first of the looks in a row that left something open; 0: the last was
			     clear */
	int64_t again_ns; /* no other look before that, only because something is open; 0: none is wanted */
};

/* clarity_note() - after a look with these holders. The longer something stays open, the later another look
 * is worth its time. What is open for a second stays so: from then on the look counts as if it were clear, or
 * a runtime that does not answer would keep memory from containers for good. */
void clarity_note(struct clarity *clarity, const struct holder *holders, size_t n, int64_t now_ns);

/* clarity_is_open() - whether what the look has left open may be memory of a container of this pod. Not that
 * of another pod's container that has no name yet. */
bool clarity_is_open(const struct clarity *clarity, const struct holder *holders, size_t n, const char *uid,
	int64_t now_ns);
