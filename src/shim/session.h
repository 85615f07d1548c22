/* session.h - the grant under which this process runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "grant/account.h"
#include "grant/grant.h"
#include "grant/usage.h"

struct shim_session {
	const struct grant_file *grant;
	struct usage_file *usage;
	struct account *account; /* this process's account of the grant */
};

/* session_get() - the grant and the charges of its processes. They are mapped at the first call that finds
 * them. NULL: there is no grant, or it cannot be read or does not verify; then the program has no GPU. The
 * grant is at GRANT_FILE_PATH; only if that path does not exist, at the path in RATION_GRANT. Once found, it
 * stays. Any thread; preserves errno.
 *
 * session_find() is its slow half, session_found the result. */
extern struct shim_session *session_found __attribute__((visibility("hidden")));
const struct shim_session *session_find(void);

static inline const struct shim_session *session_get(void)
{
	const struct shim_session *found = __atomic_load_n(&session_found, __ATOMIC_ACQUIRE);

	return found ? found : session_find();
}

/* session_path() - the path of the driver's own library at this offset of the grant; "" without a grant. */
const char *session_path(size_t offset);

/* A GPU's memory as the program sees it. */
struct session_memory {
	uint64_t limit_bytes;
	uint64_t used_bytes; /* charges of all processes plus the overhead; at most the limit */
};

/* session_memory() - the present numbers, both for the same limit, which may change at any time. */
struct session_memory session_memory(const struct shim_session *session, unsigned gpu);

/* session_request_sample() - the driver has taken memory that no call shows. The keeper must sample this
 * process, and now instead of at its next round. */
void session_request_sample(void);

/* session_want_room() - the driver has taken or given back memory that no call shows. Like
 * session_request_sample(); in addition the next session_memory() waits for that sample, 50 ms at most. */
void session_want_room(void);

/* session_has_process() - whether this pid runs under the grant and has used a GPU. */
bool session_has_process(unsigned pid);

/* session_await_sample() - session_request_sample(), then waits until the keeper has sampled the GPU: at most
 * a second, or 250 ms if no keeper lives. A context is large, and the next allocation must not get its memory
 * a second time. */
void session_await_sample(unsigned gpu);

/* session_await_known() - the same for a sample that determined the memory of each process of the container
 * (grant_was_known()). It repeats the request for up to ten seconds. False: there was no such sample,
 * although a keeper lives. */
bool session_await_known(unsigned gpu);
