/* advice.h - how much GPU memory a container should have, judged by what it used and what its limit refused.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One GPU of the container. */
struct advice_gpu {
	uint64_t mib;	/* of the whole GPU */
	uint32_t units; /* the container's units of it */
	uint32_t free;	/* free units of it */
	uint64_t used_bytes, peak_bytes;
	uint64_t wanted_bytes; /* struct use_record */
};

struct advice_facts {
	const struct advice_gpu *gpus;
	size_t n_gpus;
	uint32_t unit_mib;
	uint64_t refused; /* allocations that the limit refused, over all GPUs */
	uint64_t seen_s;  /* how long the agent has sampled the container */
	bool is_claim;	  /* its memory cannot be changed while it runs */
	bool unlimited; /* its node does not isolate it: it can use more than it has, and only a new pod gets
			   another size */
};

struct advice_terms {
	uint32_t margin; /* percent, on top of the peak */
	uint32_t min_age_s;
};

enum advice_kind {
	ADVICE_MORE,
	ADVICE_NO_ROOM, /* it should have more, but one of its GPUs has no free memory */
	ADVICE_LESS,
	ADVICE_KEEP,
	ADVICE_YOUNG,
	ADVICE_CLAIM,
	ADVICE_KINDS
};

struct advice {
	enum advice_kind kind;
	uint32_t granted; /* units over all its GPUs */
	uint32_t units;	  /* that it should have; `granted` except for ADVICE_MORE and ADVICE_LESS */
};

/* advise_container() - a container needs the largest of peak, present use and wanted_bytes, plus the margin,
 * in whole units and equally on all its GPUs. It should have less if that saves at least a tenth of what it
 * has, and more only if something was refused; without a limit, if it used more than it has. */
struct advice advise_container(const struct advice_facts *facts, const struct advice_terms *terms);

/* advise_fits() - whether what the container uses now fits into this number of units over all its GPUs. */
bool advise_fits(const struct advice_facts *facts, uint32_t units);
