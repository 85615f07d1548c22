/* unseen.h - what the samples of a GPU leave unknown.
 *
 * An Event is posted when the driver fails to say which processes hold memory of a GPU. Until it does,
 * the memory of contexts there is not counted, and a container past its limit is not found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct events;
struct node_registry;

/* The state of one GPU; all zero at first. */
struct unseen {
	unsigned ticks; /* ticks since the last good answer; time in which the agent did not run does not
			   count */
	int result;	/* of the last answer */
	bool told;	/* the Event was posted */
};

/* unseen_answered() - the driver has answered with this result: 0, or a negative errno. */
void unseen_answered(struct unseen *unseen, const char *uuid, int result);

/* unseen_tick() - call it each second while the GPU is sampled at least once in 4 s. */
void unseen_tick(struct unseen *unseen, const struct node_registry *node, const struct events *events,
	const char *uuid);

/* Whether a sample of a GPU found the owner of all of its memory. A sample leaves something open
 * if a process has just ended or started, or if the runtime has not named its container yet. Pure. */
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
