/* memory-reserves.h - what is charged for memory that the driver keeps in reserve and reports only
 * afterwards: of one pool, or of the graphs of one device.
 *
 * The bytes that the driver has reserved are charged. Any thread may call.
 */
#pragma once

#include "cuda/abi.h"
#include "shim/objects.h"

/* A pool (by handle), or the graph memory of a device (by ordinal). */
struct reserve_of {
	enum object_kind kind;
	uint64_t key;
	uint32_t gpu;
};

/* Flags of an OBJECT_POOL, in its index; its count has the charges of calls under way. Index 0: the pool is
 * not entered. POOL_ENDS is an additional flag: the program has destroyed the pool. */
enum { POOL_CHARGED = 1, POOL_OF_MACHINE = 2, POOL_ENDS = 4 };

/* The list of reserves that are settled when a request finds no room.
 *
 * reserve_remember() - adds one. The list has 256 places; if none is free, the reserve is left out.
 * reserve_forget() - removes one. reserve_known() - the reserve at a place of the list, of kind 0 if the
 * place is free. False: this place and all after it have never been used. */
void reserve_remember(const struct reserve_of *of);
void reserve_forget(const struct reserve_of *of);
bool reserve_known(uint32_t place, struct reserve_of *ret_of);

/* reserves_lock() - one thread of the process at a time may settle, end a pool, or begin to use one. The
 * driver's answer shows what is missing only while no other thread charges it and the pool exists. */
void reserves_lock(void);
void reserves_unlock(void);

/* reserve_ask() - what the driver has reserved, and how much of it is in use. The driver answers without
 * waiting for the GPU. */
bool reserve_ask(const struct reserve_of *of, uint64_t *ret_reserved, uint64_t *ret_used);

/* reserve_claim() - assigns the GPU to a reserve's object, within objects_change(). A reserve stays with the
 * GPU to which it was charged first. */
void reserve_claim(struct object *object, uint32_t gpu);

/* reserve_begin_payment() - notes the charge of a call that is about to begin. A settlement ends it, or
 * reserve_end_payment() without one. CUDA_ERROR_OUT_OF_MEMORY: out of memory for the note. */
CUresult reserve_begin_payment(const struct reserve_of *of, uint64_t bytes);
void reserve_end_payment(const struct reserve_of *of, uint64_t bytes);

struct settlement {
	/* The caller fills these. */
	uint32_t gpu;
	uint64_t paid; /* charged by the call that settles */
	bool unpaid;   /* the call has charged nothing: all growth that is not charged counts as its own */
	/* reserve_settle() fills these, in bytes. */
	uint64_t reserved; /* by the driver */
	uint64_t missing;  /* reserved, but neither charged nor noted as a payment */
	uint64_t surplus;  /* charged, but not reserved: was given back */
	uint64_t others;   /* charged by calls that are under way */
	uint64_t unsure;   /* at most this much of the charge is given back when those calls have settled */
};

/* reserve_settle() - called after the driver's call. The payment becomes part of the charge or is given back,
 * and missing bytes are charged. CUDA_ERROR_OUT_OF_MEMORY: there is no room for the missing bytes at this
 * moment. reserve_settle_locked() - the same under reserves_lock(). *ret_unused (may be NULL): nothing of the
 * reserve is in use. */
CUresult reserve_settle(const struct reserve_of *of, struct settlement *s);
CUresult reserve_settle_locked(const struct reserve_of *of, struct settlement *s, bool *ret_unused);

/* reserve_charge_missing() - charges bytes that a settlement found missing and had no room for. It waits for
 * a sample. If there is still no room, it charges them beyond the limit and returns CUDA_ERROR_OUT_OF_MEMORY.
 *
 * Otherwise refused calls in busy streams would add up, because their memory is freed only when the stream
 * reaches it. reserve_charge_beyond_locked() - under reserves_lock(), beyond the limit at once. */
CUresult reserve_charge_missing(const struct reserve_of *of, uint64_t missing);
void reserve_charge_beyond_locked(const struct reserve_of *of, uint64_t missing);

/* reserves_settled() - how many payments have been settled, of all reserves. */
uint64_t reserves_settled(void);
