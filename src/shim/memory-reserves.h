/* memory-reserves.h - what is charged for memory that the driver keeps in reserve and only tells afterwards:
 * of one pool, or of the graphs of one device.
 *
 * Of each the bytes are charged that the driver has reserved. Any thread may call.
 */
#pragma once

#include "cuda/abi.h"
#include "shim/objects.h"

/* A pool (the handle), or the graph memory of a device (its ordinal). */
struct reserve_of {
	enum object_kind kind;
	uint64_t key;
	uint32_t gpu;
};

/* Of an OBJECT_POOL, in its index, and payments under way in its count. Index 0: it is not entered.
 * POOL_ENDS: besides, the program has destroyed it. */
enum { POOL_CHARGED = 1, POOL_OF_MACHINE = 2, POOL_ENDS = 4 };

/* The list of reserves that are settled when a request finds no room. reserve_remember() - adds one; the list
 * has 256 places, and a reserve for which none is free is left out. reserve_forget() - removes one.
 * reserve_known() - the reserve at a place of the list, of kind 0 where the place is free; false: this place
 * and all after it have never been used. */
void reserve_remember(const struct reserve_of *of);
void reserve_forget(const struct reserve_of *of);
bool reserve_known(uint32_t place, struct reserve_of *ret_of);

/* reserves_lock() - one thread of the process at a time settles, or ends or begins to use a pool: the
 * driver's answer says what is missing only as long as no other thread has charged that, and as the pool is
 * there. */
void reserves_lock(void);
void reserves_unlock(void);

/* reserve_ask() - what the driver has reserved and what of that is in use. It answers without waiting for the
 * GPU. */
bool reserve_ask(const struct reserve_of *of, uint64_t *ret_reserved, uint64_t *ret_used);

/* reserve_claim() - its object, within objects_change(): what is charged for it stays with the GPU to which
 * it was charged first. */
void reserve_claim(struct object *object, uint32_t gpu);

/* reserve_begin_payment() - of a call that has been charged and is about to begin. Ends with a settlement, or
 * by reserve_end_payment() without one. CUDA_ERROR_OUT_OF_MEMORY: there is no room to note that. */
CUresult reserve_begin_payment(const struct reserve_of *of, uint64_t bytes);
void reserve_end_payment(const struct reserve_of *of, uint64_t bytes);

struct settlement {
	/* The caller fills these. */
	uint32_t gpu;
	uint64_t paid; /* by the call that settles */
	bool unpaid;   /* the call has paid nothing: all growth that is not charged counts as its own */
	/* reserve_settle() fills these, in bytes. */
	uint64_t reserved; /* by the driver */
	uint64_t missing;  /* reserved, and neither charged nor paid */
	uint64_t surplus;  /* charged, and not reserved: was given back */
	uint64_t others;   /* paid by calls that are under way */
	uint64_t unsure;   /* of what is charged, at most so much is given back when these have settled */
};

/* reserve_settle() - after the driver's call: what was paid becomes part of what is charged, or is given
 * back, and what is missing is charged. CUDA_ERROR_OUT_OF_MEMORY: for what is missing there is no room at
 * this moment. reserve_settle_locked() - under reserves_lock(); *ret_unused (may be NULL): nothing of it is
 * in use. */
CUresult reserve_settle(const struct reserve_of *of, struct settlement *s);
CUresult reserve_settle_locked(const struct reserve_of *of, struct settlement *s, bool *ret_unused);

/* reserve_charge_missing() - charges what the settlement found missing and had no room for. It waits for a
 * sample; if there is no room after that either, it charges beyond the limit and answers
 * CUDA_ERROR_OUT_OF_MEMORY. Without that, refused calls in busy streams would add up, because the memory that
 * they give back goes only when the stream comes to it. reserve_charge_beyond_locked() - under
 * reserves_lock(), beyond the limit at once. */
CUresult reserve_charge_missing(const struct reserve_of *of, uint64_t missing);
void reserve_charge_beyond_locked(const struct reserve_of *of, uint64_t missing);

/* reserves_settled() - how often a payment was settled, of any reserve. */
uint64_t reserves_settled(void);
