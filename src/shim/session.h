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
	struct account *account; /* this process's part of it */
};

/* session_get() - the grant and what its processes have charged, mapped at the first call that finds them;
 * NULL if there is no grant, or one that cannot be read or does not verify: then there is no GPU. Found at
 * GRANT_FILE_PATH, and only where that path does not exist where RATION_GRANT says. What was found stays. Any
 * thread; keeps errno. session_find() is its slow half, session_found what was found. */
extern struct shim_session *session_found __attribute__((visibility("hidden")));
const struct shim_session *session_find(void);

static inline const struct shim_session *session_get(void)
{
	const struct shim_session *found = __atomic_load_n(&session_found, __ATOMIC_ACQUIRE);

	return found ? found : session_find();
}

/* session_path() - of the driver's own library as the grant has it at this offset, "" without a grant. */
const char *session_path(size_t offset);

/* A GPU as the program is to see it. */
struct session_memory {
	uint64_t limit_bytes;
	uint64_t used_bytes; /* what all processes have charged and the overhead; at most the limit */
};

/* session_memory() - of this moment, and of one limit: it may change at any time. */
struct session_memory session_memory(const struct shim_session *session, unsigned gpu);

/* session_want_look() - the driver has taken memory that no call shows: this process is one to be looked at,
 * and the keeper is to look now, not at its next round. */
void session_want_look(void);

/* session_want_room() - the driver has taken or given back memory that no call shows: as session_want_look(),
 * and the next session_memory() waits for that look, 50 ms at most. */
void session_want_room(void);

/* session_has_process() - whether this pid is one of the processes that run under the grant and have used a
 * GPU. */
bool session_has_process(unsigned pid);

/* session_await_look() - the same, and wait until the keeper has looked at the GPU, at most a second, or
 * 250 ms where no keeper lives: a context is large, and who allocates right after it must not get its memory
 * once more. */
void session_await_look(unsigned gpu);

/* session_await_known() - the same for a sample that knows what each process of the container has
 * (grant_was_known()): asks again until there is one, for ten seconds. False: there was none, and a keeper
 * lives. */
bool session_await_known(unsigned gpu);
