/* use.h - how a container has used one GPU since it got its grant: its peak of memory, for how long it used
 * which part of the grant, and the allocations that its limit refused. Pure, of fixed size; the agent keeps
 * it (docs/adr/057-peaks-are-sampled.md), and `ration advise` reads it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define USE_BUCKETS                                                                                          \
	16 /* by the part of the grant that was used, in sixteenths; the last one also counts larger parts   \
	    */

struct use_record {
	uint64_t seen_ns;      /* time between samples, all together, while the container ran */
	uint64_t peak_bytes;   /* the most that any sample showed */
	uint64_t wanted_bytes; /* the most that it would have used if no allocation had been refused; 0: none
				  was refused */
	uint64_t refused;      /* its count of refused allocations at the last sample */
	uint64_t granted_mib_us, used_mib_us; /* MiB times microseconds */
	uint64_t memory_ns[USE_BUCKETS], core_ns[USE_BUCKETS];
};

struct use_sample {
	int64_t elapsed_ns; /* since the last sample; 0: this is the first one */
	uint64_t used_bytes, limit_bytes, physical_bytes;
	bool idle; /* the container does not run: its image is pulled, it starts again, or it has ended */
	uint64_t refused, refused_bytes; /* how many allocations were refused so far; the size of the last */
};

/* use_note_memory() - adds one sample. What the container itself counts may be anything: a refused allocation
 * larger than the GPU counts as the whole GPU. */
void use_note_memory(struct use_record *record, const struct use_sample *sample);

/* use_note_core() - in elapsed_ns the container used the GPU for used_ns; share: its part of the GPU's time,
 * in millionths. Without a share nothing is added. */
void use_note_core(struct use_record *record, uint64_t elapsed_ns, uint64_t used_ns, uint64_t share);

/* use_byte_seconds() - converts granted_mib_us or used_mib_us to bytes times seconds. */
uint64_t use_byte_seconds(uint64_t mib_us);
