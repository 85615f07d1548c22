#include "shim/memory.h"

#include "grant/wait.h"
#include "shim/memory-pools.h"
#include "shim/session.h"
#include "shim/shim.h"

static CUresult refused(const struct shim_session *session, unsigned gpu, uint64_t bytes)
{
	struct session_memory memory = session_memory(session, gpu);

	shim_log("out of memory: %llu bytes of GPU %u, of which %llu of %llu are used",
		(unsigned long long)bytes, gpu, (unsigned long long)memory.used_bytes,
		(unsigned long long)memory.limit_bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_enter(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();
	int64_t begin;

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 && account_enter(session->account) == 0)
		return CUDA_SUCCESS;
	if (account_enter_tried(session->account, gpu, bytes) == 0)
		return CUDA_SUCCESS;
	begin = wait_now_ns();
	while (pools_make_room(gpu, bytes, begin))
		if (account_enter_tried(session->account, gpu, bytes) == 0)
			return CUDA_SUCCESS;
	if (account_enter_charged(session->account, gpu, bytes) == 0)
		return CUDA_SUCCESS;
	return refused(session, gpu, bytes);
}

bool memory_has_room(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, gpu, bytes);
}

bool memory_try_enter(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, gpu, bytes) &&
	       account_enter_tried(session->account, gpu, bytes) == 0;
}

bool memory_try_charge(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, gpu, bytes) &&
	       account_try(session->account, gpu, bytes) == 0;
}

bool memory_has_plenty(unsigned gpu, uint64_t most, uint64_t each)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, gpu,
				  most + account_unsampled(session->account, gpu) * each);
}

bool memory_begin_turn(unsigned gpu, enum account_turn which)
{
	const struct shim_session *session = session_get();

	return session && account_begin_turn(session->account, gpu, which) == 0;
}

void memory_end_turn(unsigned gpu, enum account_turn which)
{
	const struct shim_session *session = session_get();

	if (session)
		account_end_turn(session->account, gpu, which);
}

void memory_enter_uncharged(void)
{
	const struct shim_session *session = session_get();

	if (session)
		account_enter(session->account);
}

void memory_leave(void)
{
	const struct shim_session *session = session_get();

	if (session)
		account_leave(session->account);
}

void memory_is_loose(void)
{
	const struct shim_session *session = session_get();

	if (session)
		account_is_loose(session->account);
}

void memory_change_surplus(unsigned gpu, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session)
		account_change_surplus(session->account, gpu, bytes);
}

CUresult memory_charge_once(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 || account_charge(session->account, gpu, bytes) == 0)
		return CUDA_SUCCESS;
	return refused(session, gpu, bytes);
}

CUresult memory_charge(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();
	int64_t begin;

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 || account_try(session->account, gpu, bytes) == 0)
		return CUDA_SUCCESS;
	begin = wait_now_ns();
	while (pools_make_room(gpu, bytes, begin))
		if (account_try(session->account, gpu, bytes) == 0)
			return CUDA_SUCCESS;
	return memory_charge_once(gpu, bytes);
}

void memory_charge_beyond(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session && bytes > 0)
		account_charge_beyond(session->account, gpu, bytes);
}

void memory_refund(unsigned gpu, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session && bytes > 0)
		account_refund(session->account, gpu, bytes);
}

CUresult memory_recharge(unsigned gpu, uint64_t from, uint64_t to)
{
	if (to > from)
		return memory_charge(gpu, to - from);
	memory_refund(gpu, from - to);
	return CUDA_SUCCESS;
}
