#include "shim/pacing.h"

#include <errno.h>
#include <time.h>

#include "grant/private.h"
#include "grant/token-bucket.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/pacing-constants.h"
#include "shim/session.h"

/* Credit that this process has drawn and not used yet. Cleared in a child of fork(). */
struct drawn {
	struct {
		_Atomic int64_t ns[PACE_KINDS];
		_Atomic int64_t uncounted[PACE_KINDS]; /* kept while it is negative */
		_Atomic uint64_t total_ns;	       /* of PACE_CORE, since the process began */
	} gpus[GRANT_FILE_GPUS_MAX] __attribute__((aligned(64)));
};

static void *drawn; /* struct drawn */

static struct drawn *drawn_get(void)
{
	return private_map_once(&drawn, sizeof(struct drawn));
}

static uint64_t share_of(const struct grant_file *grant, unsigned gpu)
{
	return atomic_load_explicit(&grant->live[gpu].core_share, memory_order_relaxed);
}

bool pacing_is_on(void)
{
	const struct shim_session *session = session_get();

	for (unsigned i = 0; session && i < session->grant->gpu_count; i++)
		if (share_of(session->grant, i) != 0)
			return cuda_is_started();
	return false;
}

/* ---- the container's bucket -----------------------------------------------------------------------------
 */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* If a signal ends the sleep early, the program handles it; the remaining time is found by the clock. */
static void sleep_ns(uint64_t ns)
{
	struct timespec some = {(time_t)(ns / UINT64_C(1000000000)), (long)(ns % UINT64_C(1000000000))};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &some, NULL);
}

static void add(_Atomic uint64_t *word, uint64_t amount)
{
	atomic_fetch_add_explicit(word, amount, memory_order_relaxed);
}

static _Atomic uint64_t *bucket_of(struct usage_gpu *usage, uint32_t kind)
{
	return kind == PACE_CORE ? &usage->core_credit : &usage->copy_credit[kind - 1];
}

static uint64_t rate_of(const struct grant_file *grant, unsigned gpu)
{
	uint64_t rate = atomic_load_explicit(&grant->live[gpu].core_rate, memory_order_relaxed);

	return rate ? rate : share_of(grant, gpu);
}

static uint64_t saved_of(uint64_t want)
{
	return want < SAVED_MAX_NS ? want : SAVED_MAX_NS;
}

/* Returns the debt with which the container may still start work. */
static int64_t may_owe(struct usage_gpu *usage, enum pace_kind kind, const struct cost *cost, uint64_t now)
{
	_Atomic uint64_t *unsure_ns = &usage->core_unsure_ns;
	bool felt = cost_ns(cost) >= FELT_COST_NS;
	int64_t debt = felt ? FELT_DEBT_NS : UNSURE_DEBT_NS;

	if (kind != PACE_CORE)
		return cost_is_unsure(cost) ? debt : 0;
	if (cost_is_unsure(cost)) {
		atomic_store_explicit(unsure_ns, now, memory_order_relaxed);
		return debt;
	}
	return debt - (int64_t)((now - atomic_load_explicit(unsure_ns, memory_order_relaxed)) /
				(felt ? FELT_FADES_PART : FADES_PART));
}

static void wait_for(const struct shim_session *session, unsigned gpu, enum pace_kind kind, uint64_t want,
	const struct cost *cost)
{
	struct usage_gpu *usage = &session->usage->gpus[gpu];
	_Atomic uint64_t *bucket = bucket_of(usage, kind);
	uint64_t before = now_ns(), now = before, wait;
	int64_t owes;

	for (;;) {
		uint64_t share = share_of(session->grant, gpu);
		uint64_t rate = rate_of(session->grant, gpu);

		add(&usage->core_asked, 1);
		if (share == 0 || share >= GRANT_CORE_WHOLE)
			break;
		wait = token_bucket_draw_saving(bucket, now, rate, want, saved_of(want));
		if (wait == 0)
			break;
		owes = may_owe(usage, kind, cost, now);
		if ((owes > 0 && token_bucket_left_ns(*bucket, now, rate) > -owes) ||
			(cost_is_unsure(cost) && now - before > UNSURE_WAIT_NS)) {
			token_bucket_change(bucket, now, rate, -(int64_t)want, saved_of(want));
			break;
		}
		sample_ask();
		sleep_ns(wait < WAIT_STEP_NS ? wait : WAIT_STEP_NS);
		now = now_ns();
	}
	if (now != before)
		add(&usage->core_waited_ns, now - before);
}

/* The counter never decreases. */
static void count_started(unsigned gpu, uint32_t kind, int64_t ns)
{
	struct usage_gpu *usage = &session_get()->usage->gpus[gpu];
	_Atomic int64_t *uncounted = &drawn_get()->gpus[gpu].uncounted[kind];
	int64_t more = atomic_fetch_add_explicit(uncounted, ns, memory_order_relaxed) + ns;

	if (more <= 0)
		return;
	more = atomic_exchange_explicit(uncounted, 0, memory_order_relaxed);
	if (more > 0)
		add(kind == PACE_CORE ? &usage->core_started_ns : &usage->copy_started_ns[kind - 1],
			(uint64_t)more);
	else
		atomic_fetch_add_explicit(uncounted, more, memory_order_relaxed);
}

/* This process has no credit left and lacks short_ns. It draws that and one slice more. */
static void draw(unsigned gpu, enum pace_kind kind, int64_t short_ns, const struct cost *cost)
{
	const struct shim_session *session = session_get();
	int64_t want = short_ns + SLICE_NS;

	sample_due();
	sample_ask();
	wait_for(session, gpu, kind, (uint64_t)want, cost);
	count_started(gpu, kind, want);
	if (kind == PACE_CORE) {
		while (sample_is_behind(gpu, pacing_drawn_ns(gpu), UNDER_WAY_NS))
			sleep_ns(UNDER_WAY_STEP_NS);
		add(&drawn_get()->gpus[gpu].total_ns, (uint64_t)want);
	}
	atomic_fetch_add_explicit(&drawn_get()->gpus[gpu].ns[kind], want, memory_order_relaxed);
}

uint64_t pacing_drawn_ns(uint32_t gpu)
{
	return atomic_load_explicit(&drawn_get()->gpus[gpu].total_ns, memory_order_relaxed);
}

void pacing_charge(uint32_t gpu, uint32_t kind, int64_t ns)
{
	const struct shim_session *session = session_get();
	uint64_t share = session ? share_of(session->grant, gpu) : 0;

	if (ns == 0 || share == 0)
		return;
	count_started(gpu, kind, ns);
	if (share < GRANT_CORE_WHOLE)
		token_bucket_change(bucket_of(&session->usage->gpus[gpu], kind), now_ns(),
			rate_of(session->grant, gpu), -ns, SAVED_MAX_NS);
}

uint32_t pacing_factor(uint32_t gpu)
{
	const struct shim_session *session = session_get();
	uint64_t share = session ? share_of(session->grant, gpu) : 0;
	double factor = share ? (double)rate_of(session->grant, gpu) / (double)share : 1;

	return (uint32_t)(COST_FACTOR_ONE * (factor < 1000 ? factor : 1000));
}

/* Keys are odd. */
static uint64_t key_on_gpu(uint64_t key, uint32_t gpu)
{
	return key + 2 * (uint64_t)gpu;
}

/* ---- around a call --------------------------------------------------------------------------------------
 */

/* Returns -1 if the driver will refuse the call, or if the GPU's computing power is not limited. */
static int gpu_of_call(const struct grant_file *grant)
{
	int gpu = grant->gpu_count == 1 ? 0 : cuda_current_gpu();

	return gpu >= 0 && share_of(grant, (unsigned)gpu) != 0 ? gpu : -1;
}

/* The duration should be known before many more are queued. The wait is limited, because the work may be
 * waiting for another launch. */
static uint64_t guess(struct started *started)
{
	uint32_t unknown;
	uint64_t ns = cost_start(started->cost, started->count, &unknown);

	for (int i = 0; unknown >= UNKNOWN_MAX && i < UNKNOWN_LOOKS; i++) {
		sample_ask();
		if (cost_ns(started->cost) != 0)
			break;
		sleep_ns(UNKNOWN_STEP_NS);
	}
	return ns * started->count;
}

static void pay(struct pace *pace, _Atomic int64_t *own, uint64_t ns)
{
	int64_t need = (int64_t)ns;
	int64_t had = atomic_fetch_sub_explicit(own, need, memory_order_relaxed);

	/* Each thread draws what it lacks itself. Later charges are compensated by the slices. */
	if (had < need)
		draw(pace->started.gpu, pace->started.kind, had > 0 ? need - had : need, pace->started.cost);
}

void pacing_begin(struct pace *pace, enum pace_kind kind, uint64_t key, uint32_t count, CUstream stream)
{
	const struct shim_session *session = session_get();
	struct drawn *own = drawn_get();
	int gpu = session && own ? gpu_of_call(session->grant) : -1, saved;
	struct started *started = &pace->started;

	pace->paced = gpu >= 0 && !sample_captures(stream);
	if (!pace->paced)
		return;
	*started = (struct started){.stream = stream, .gpu = (uint32_t)gpu, .kind = kind, .count = count};
	started->key = key_on_gpu(key, (uint32_t)gpu);
	started->cost = cost_find(started->key, sample_draws());
	if (!started->cost) {
		pace->paced = false;
		return;
	}
	saved = errno;
	if (cost_ns(started->cost) == 0)
		sample_ask();
	started->cost_ns = cost_ns(started->cost) * count;
	pace->paid_ns = started->cost_ns;
	if (pace->paid_ns == 0)
		pace->paid_ns = guess(started);
	pay(pace, &own->gpus[gpu].ns[kind], pace->paid_ns);
	sample_begin(started);
	errno = saved;
}

void pacing_end(struct pace *pace, CUresult result)
{
	struct started *started = &pace->started;
	int64_t left;
	int saved;

	if (!pace->paced)
		return;
	saved = errno;
	left = atomic_load_explicit(&drawn_get()->gpus[started->gpu].ns[started->kind], memory_order_relaxed);
	sample_end(started, result == CUDA_SUCCESS, left < (int64_t)pace->paid_ns);
	if (result != CUDA_SUCCESS) {
		atomic_fetch_add_explicit(&drawn_get()->gpus[started->gpu].ns[started->kind],
			(int64_t)pace->paid_ns, memory_order_relaxed);
		if (started->cost_ns == 0)
			cost_unstart(started->cost, started->count);
	}
	errno = saved;
}

void pacing_pay(enum pace_kind kind, uint64_t key, uint64_t fixed_ns, uint32_t part, CUstream stream)
{
	const struct shim_session *session = session_get();
	struct drawn *own = drawn_get();
	int gpu = session && own ? gpu_of_call(session->grant) : -1, saved = errno;
	struct pace pace = {.started = {.stream = stream, .gpu = (uint32_t)gpu, .kind = kind}};
	uint64_t ns;

	if (gpu < 0 || sample_captures(stream))
		return;
	pace.started.cost = cost_find(key_on_gpu(key, (uint32_t)gpu), sample_draws());
	if (!pace.started.cost)
		return;
	ns = cost_ns(pace.started.cost);
	pay(&pace, &own->gpus[gpu].ns[kind], fixed_ns + (ns ? ns : COST_GUESS_NS) * part / 65536);
	errno = saved;
}

void pacing_renew(uint64_t key)
{
	const struct shim_session *session = session_get();

	for (uint32_t i = 0; session && i < session->grant->gpu_count; i++)
		cost_renew(key_on_gpu(key, i));
}

uint64_t graph_key(CUgraphExec exec)
{
	/* No function has the address 0, so this key cannot be a kernel's. */
	return cost_key((uint64_t[]){0, (uintptr_t)exec}, 2);
}

static CUresult changed(CUgraphExec exec, CUresult r)
{
	if (r == CUDA_SUCCESS)
		pacing_renew(graph_key(exec));
	return r;
}

#define CHANGE(symbol, variant, params, args)                                                                \
	HOOK CUresult symbol params                                                                          \
	{                                                                                                    \
		return changed(exec, DRIVER(symbol) args);                                                   \
	}
#include "shim/hooks.def"
