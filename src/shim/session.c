#include "shim/session.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "grant/reserve.h"
#include "grant/wait.h"
#include "shim/shim.h"

/* A sample takes a millisecond, or longer on an overloaded machine or if many programs start at once. A
 * keeper that has just died is replaced in some 20 ms. */
#define LOOK_STEP_NS INT64_C(200000)
#define LOOK_EARLY_NS INT64_C(10000000)
#define LATE_LOOK_STEP_NS INT64_C(1000000)
#define QUERY_LOOK_NS INT64_C(50000000)
#define LOOK_NS INT64_C(250000000)
#define KEPT_LOOK_NS INT64_C(1000000000)
/* A sample during which calls began or ended proves little. If a process waits, the keeper pauses the
 * container every 10 ms. A process that creates its first context is unknown until that is complete, which
 * takes seconds on some machines. */
#define KNOWN_NS INT64_C(10000000000)
#define KNOWN_STEP_NS INT64_C(5000000)

/* Published once, when complete. A second thread that came at the same time drops its own mappings. */
struct shim_session *session_found;

static const char *grant_path(void)
{
	const char *named;

	if (access(GRANT_FILE_PATH, F_OK) == 0 || errno != ENOENT)
		return GRANT_FILE_PATH;
	named = secure_getenv(GRANT_FILE_VARIABLE);
	return named && *named ? named : GRANT_FILE_PATH;
}

static int session_map(const char *path, struct shim_session *found)
{
	char usage_path[4096];
	const char *why = "";
	int r = grant_file_map(path, &found->grant, &why);

	if (r < 0) {
		shim_log("no GPU for this process: grant %s: %s", path, why);
		return r;
	}
	r = usage_file_path(path, usage_path, sizeof(usage_path));
	if (r == 0)
		r = usage_file_map(usage_path, &found->usage, &why);
	if (r < 0) {
		shim_log("no GPU for this process: usage file beside the grant %s: %s", path, why);
		grant_file_unmap(found->grant);
		return r;
	}
	found->account = account_open(found->grant, found->usage);
	if (found->account) {
		account_set_path(found->account, usage_path);
		return 0;
	}
	grant_file_unmap(found->grant);
	usage_file_unmap(found->usage);
	return -ENOMEM;
}

const struct shim_session *session_find(void)
{
	struct shim_session *found = malloc(sizeof(*found)), *expected = NULL;
	int saved = errno;

	if (!found || session_map(grant_path(), found) < 0) {
		free(found);
		errno = saved;
		return NULL;
	}
	if (!__atomic_compare_exchange_n(
		    &session_found, &expected, found, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		account_close(found->account);
		grant_file_unmap(found->grant);
		usage_file_unmap(found->usage);
		free(found);
		found = expected;
	}
	errno = saved;
	return found;
}

const char *session_path(size_t offset)
{
	const struct shim_session *found = session_get();

	return found ? (const char *)found->grant + offset : "";
}

/* Returns the number to pass to grant_was_looked(). */
static uint32_t request_sample(const struct shim_session *found)
{
	int saved = errno;
	uint32_t wanted;

	account_join(found->account);
	wanted = account_request_sample(found->account);
	errno = saved;
	return wanted;
}

/* 1 << 32 and the number of the last requested sample, until a thread waits for it; 0: no thread has to wait.
 */
static _Atomic uint64_t unawaited;

void session_request_sample(void)
{
	const struct shim_session *found = session_get();

	if (found)
		request_sample(found);
}

void session_want_room(void)
{
	const struct shim_session *found = session_get();

	if (found)
		atomic_store(&unawaited, UINT64_C(1) << 32 | request_sample(found));
}

/* Returns false if the time after begin_ns passed without a sample. */
static bool await_sample(
	const struct shim_session *found, unsigned gpu, uint32_t wanted, int64_t begin_ns, int64_t for_ns)
{
	for (;;) {
		int64_t waited = wait_now_ns() - begin_ns;
		const struct timespec step = {
			.tv_nsec = waited < LOOK_EARLY_NS ? LOOK_STEP_NS : LATE_LOOK_STEP_NS};

		if (grant_was_looked(found->grant, gpu, wanted))
			return true;
		if (waited >= for_ns)
			return false;
		nanosleep(&step, NULL);
	}
}

/* For a program that asks how much memory is free right after a module was unloaded. */
static void await_unawaited(const struct shim_session *found, unsigned gpu)
{
	uint64_t wanted = atomic_load(&unawaited);
	int saved = errno;

	if (wanted == 0)
		return;
	await_sample(found, gpu, (uint32_t)wanted, wait_now_ns(), QUERY_LOOK_NS);
	atomic_compare_exchange_strong(&unawaited, &wanted, 0);
	errno = saved;
}

struct session_memory session_memory(const struct shim_session *found, unsigned gpu)
{
	uint64_t limit, used;

	await_unawaited(found, gpu);
	limit = grant_file_limit_bytes(found->grant, gpu);
	used = account_used_bytes(found->account, gpu);
	return (struct session_memory){.limit_bytes = limit, .used_bytes = used < limit ? used : limit};
}

void session_await_sample(unsigned gpu)
{
	const struct shim_session *found = session_get();
	int saved = errno;
	int64_t begin;
	uint32_t wanted;

	if (!found)
		return;
	begin = wait_now_ns();
	wanted = request_sample(found);
	if (!await_sample(found, gpu, wanted, begin, LOOK_NS) && account_is_kept(found->account))
		await_sample(found, gpu, wanted, begin, KEPT_LOOK_NS);
	errno = saved;
}

bool session_await_known(unsigned gpu)
{
	const struct shim_session *found = session_get();
	int64_t stop_at = wait_now_ns() + KNOWN_NS;
	bool known, kept = true;
	int saved = errno;
	uint32_t wanted;

	if (!found)
		return true;
	wanted = atomic_load(&found->usage->look_wanted) + 1;
	for (;;) {
		session_await_sample(gpu);
		known = grant_was_known(found->grant, gpu, wanted);
		if (known || !(kept = account_is_kept(found->account)) || wait_now_ns() > stop_at)
			break;
		nanosleep(&(struct timespec){.tv_nsec = KNOWN_STEP_NS}, NULL);
	}
	errno = saved;
	return known || !kept;
}

bool session_has_process(unsigned pid)
{
	const struct shim_session *found = session_get();
	uint32_t slots = found ? atomic_load(&found->usage->slots_used) : 0;

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++)
		if (pid && OWNER_PID(atomic_load(&found->usage->slots[i].owner)) == pid)
			return true;
	return false;
}
