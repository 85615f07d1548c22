/* clarity.h - whether a sample of a GPU found the owner of all of its memory. A sample leaves something open
 * if a process has just ended or started, or if the runtime has not named its container yet. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct holder;

/* The state of one GPU. All zero: nothing is open. */
struct clarity {
	int64_t since_ns; /* time of the first of the consecutive samples that left something open; 0: the
			     last sample left nothing open */
	int64_t again_ns; /* when to sample again because something is open; 0: no need */
};

/* clarity_note() - takes in a sample that found these holders. The longer something stays open, the later the
 * next sample is due. What has been open for a second no longer counts as open: otherwise a runtime that does
 * not answer would withhold memory from containers for ever. */
void clarity_note(struct clarity *clarity, const struct holder *holders, size_t n, int64_t now_ns);

/* clarity_is_open() - whether memory that the sample left open may belong to a container of this pod. A
 * process of another pod, whose container has no name yet, does not count. */
bool clarity_is_open(const struct clarity *clarity, const struct holder *holders, size_t n, const char *uid,
	int64_t now_ns);
