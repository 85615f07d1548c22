#include "shim/memory.h"

#include "grant/wait.h"
#include "shim/memory-pools.h"
#include "shim/session.h"
#include "shim/shim.h"

static CUresult refused(const struct shim_session *session, unsigned card, uint64_t bytes)
{
	struct session_memory memory = session_memory(session, card);

	shim_log("out of memory: %llu bytes of card %u, of which %llu of %llu are used",
		(unsigned long long)bytes, card, (unsigned long long)memory.used_bytes,
		(unsigned long long)memory.limit_bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_enter(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();
	int64_t begin;

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 && account_enter(session->account) == 0)
		return CUDA_SUCCESS;
	if (account_enter_tried(session->account, card, bytes) == 0)
		return CUDA_SUCCESS;
	begin = wait_now_ns();
	while (pools_make_room(card, bytes, begin))
		if (account_enter_tried(session->account, card, bytes) == 0)
			return CUDA_SUCCESS;
	if (account_enter_charged(session->account, card, bytes) == 0)
		return CUDA_SUCCESS;
	return refused(session, card, bytes);
}

bool memory_has_room(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, card, bytes);
}

bool memory_try_enter(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, card, bytes) &&
	       account_enter_tried(session->account, card, bytes) == 0;
}

bool memory_try_charge(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, card, bytes) &&
	       account_try(session->account, card, bytes) == 0;
}

bool memory_has_plenty(unsigned card, uint64_t most, uint64_t each)
{
	const struct shim_session *session = session_get();

	return session && account_has_room(session->account, card,
				  most + account_unsampled(session->account, card) * each);
}

bool memory_begin_turn(unsigned card, enum account_turn which)
{
	const struct shim_session *session = session_get();

	return session && account_begin_turn(session->account, card, which) == 0;
}

void memory_end_turn(unsigned card, enum account_turn which)
{
	const struct shim_session *session = session_get();

	if (session)
		account_end_turn(session->account, card, which);
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

void memory_change_surplus(unsigned card, int64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session)
		account_change_surplus(session->account, card, bytes);
}

CUresult memory_charge_once(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 || account_charge(session->account, card, bytes) == 0)
		return CUDA_SUCCESS;
	return refused(session, card, bytes);
}

CUresult memory_charge(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();
	int64_t begin;

	if (!session)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0 || account_try(session->account, card, bytes) == 0)
		return CUDA_SUCCESS;
	begin = wait_now_ns();
	while (pools_make_room(card, bytes, begin))
		if (account_try(session->account, card, bytes) == 0)
			return CUDA_SUCCESS;
	return memory_charge_once(card, bytes);
}

void memory_charge_beyond(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session && bytes > 0)
		account_charge_beyond(session->account, card, bytes);
}

void memory_refund(unsigned card, uint64_t bytes)
{
	const struct shim_session *session = session_get();

	if (session && bytes > 0)
		account_refund(session->account, card, bytes);
}

CUresult memory_recharge(unsigned card, uint64_t from, uint64_t to)
{
	if (to > from)
		return memory_charge(card, to - from);
	memory_refund(card, from - to);
	return CUDA_SUCCESS;
}
