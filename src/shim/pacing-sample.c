#include "shim/pacing-sample.h"

#include <stdatomic.h>

#include "grant/private.h"
#include "shim/cuda-library.h"
#include "shim/pacing-constants.h"
#include "shim/pacing-events.h"
#include "shim/pacing.h"

#define PENDING_MAX 32
#define PARTS_MAX 8
#define ASK_MAX 4

struct window {
	CUcontext context; /* NULL: no window */
	CUstream stream;
	CUevent from, to;
	uint32_t gpu;
	enum cost_how how;
	uint32_t parts_count, launches;
	uint64_t expected_ns;
	uint64_t drawn_ns; /* drawn on this GPU by the whole process when the window was closed */
	uint32_t waited;
	struct part {
		struct cost *cost;
		uint64_t key;
		uint32_t count;
		uint16_t kind, version;
		uint64_t cost_ns; /* of each launch, as known at the start */
	} parts[PARTS_MAX];
};

/* The GPU may be idle when the first launch after a draw arrives, but not when the second does, so the second
 * is measured. */
enum turn { NOTHING, ONE_SOON, ONE_LAUNCH, MANY_LAUNCHES, MANY_OPEN };

struct sampler {
	_Atomic int lock;
	_Atomic int turn; /* enum turn */
	_Atomic int captures;
	_Atomic uint32_t draws;
	struct window alone, many;
	uint32_t pending_count, ask_next;
	uint32_t waited; /* number of queries since a measured window last ended */
	struct window pending[PENDING_MAX];
	struct events events;
};

/* Cleared in a child of fork(). */
static void *sampler; /* struct sampler */

static struct sampler *sampler_get(void)
{
	return private_map_once(&sampler, sizeof(struct sampler));
}

/* Returns false while another thread is here, or while a stream captures: any event could then spoil the
 * capture. */
static bool enter(struct sampler *all)
{
	int expected = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    &all->lock, &expected, 1, memory_order_acquire, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&all->captures, memory_order_relaxed) == 0)
		return true;
	private_unlock(&all->lock);
	return false;
}

static void window_drop(struct sampler *all, struct window *window)
{
	events_put(&all->events, window->context, window->from);
	events_put(&all->events, window->context, window->to);
	window->context = NULL;
}

/* ---- windows --------------------------------------------------------------------------------------------
 */

/* Returns the stream's context if it is the current one. Only there can events for the stream be made. */
static CUcontext context_of_stream(CUstream stream)
{
	CUcontext current = NULL, own = NULL;

	if (DRIVER(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
		return NULL;
	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return current;
	return DRIVER(cuStreamGetCtx)(stream, &own) == CUDA_SUCCESS && own == current ? current : NULL;
}

/* Records the first event. Returns false if there must be no sample. */
static bool window_open(struct sampler *all, struct window *window, const struct started *started)
{
	CUstream stream = started->stream;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUcontext context;

	if (all->pending_count == PENDING_MAX)
		return false;
	context = context_of_stream(stream);
	/* The capture may have begun in a way that no hook saw. */
	if (!context || DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
		status != CU_STREAM_CAPTURE_STATUS_NONE)
		return false;
	*window = (struct window){.context = context, .stream = stream, .gpu = started->gpu};
	window->how = window == &all->alone ? COST_ALONE : COST_IN_A_ROW;
	window->from = events_take(&all->events, context);
	window->to = events_take(&all->events, context);
	if (window->from && window->to && DRIVER(cuEventRecord)(window->from, stream) == CUDA_SUCCESS)
		return true;
	window_drop(all, window);
	return false;
}

static bool window_add(struct window *window, const struct started *started)
{
	struct part *part = window->parts;

	while (part < window->parts + window->parts_count && part->key != started->key)
		part++;
	if (part == window->parts + PARTS_MAX)
		return false;
	if (part == window->parts + window->parts_count) {
		*part = (struct part){.cost = started->cost,
			.key = started->key,
			.kind = (uint16_t)started->kind,
			.version = cost_version(started->cost),
			.cost_ns = started->cost_ns / started->count};
		window->parts_count++;
	}
	part->count += started->count;
	window->expected_ns += started->cost_ns;
	window->launches++;
	return true;
}

/* Records the second event. */
static void window_close(struct sampler *all, struct window *window)
{
	if (window->parts_count == 0 || DRIVER(cuEventRecord)(window->to, window->stream) != CUDA_SUCCESS ||
		all->pending_count == PENDING_MAX) {
		window_drop(all, window);
		return;
	}
	window->drawn_ns = pacing_drawn_ns(window->gpu);
	all->pending[all->pending_count++] = *window;
	window->context = NULL;
}

/* ---- samples --------------------------------------------------------------------------------------------
 */

/* If the window took longer or shorter than expected, the difference is assumed to be the same for all
 * parts. */
static void window_apply(const struct window *window, uint64_t took_ns)
{
	for (uint32_t i = 0; i < window->parts_count; i++) {
		const struct part *part = &window->parts[i];
		double ns = window->parts_count == 1
				    ? (double)took_ns / part->count
				    : (double)part->cost_ns * (double)took_ns / (double)window->expected_ns;

		pacing_charge(window->gpu, part->kind,
			cost_sample(part->cost, part->key, part->version, window->how, (uint64_t)(ns + 0.5),
				pacing_factor(window->gpu)));
		if (window->how == COST_ALONE && part->cost_ns >= COST_LONG_NS) {
			uint64_t is_ns = cost_of(part->cost, (uint64_t)ns);
			/* Kernels with varying durations are charged what each took. Otherwise a few of them
			 * per second would distort the share. */
			if (is_ns != 0)
				pacing_charge(window->gpu, part->kind,
					((int64_t)is_ns - (int64_t)part->cost_ns) * part->count);
		}
	}
}

/* Returns whether the window has ended on the GPU. */
static bool window_ask(const struct window *window)
{
	CUresult r = DRIVER(cuEventQuery)(window->to);
	float ms = -1;

	if (r == CUDA_ERROR_NOT_READY)
		return false;
	if (r == CUDA_SUCCESS)
		r = DRIVER(cuEventElapsedTime)(&ms, window->from, window->to);
	if (r == CUDA_SUCCESS && ms >= 0)
		window_apply(window, (uint64_t)((double)ms * 1e6));
	else {
		for (uint32_t i = 0; i < window->parts_count; i++)
			cost_failed(window->parts[i].cost, window->parts[i].key);
	}
	return true;
}

/* Only windows of the current context are queried: events of another context may end at any moment. */
static void ask(struct sampler *all, CUcontext context)
{
	uint32_t count = all->pending_count < ASK_MAX ? all->pending_count : ASK_MAX;

	for (uint32_t i = 0; i < count && all->pending_count > 0; i++) {
		uint32_t at = all->ask_next % all->pending_count;
		struct window *window = &all->pending[at];

		all->ask_next = at + 1;
		if (window->context != context || !window_ask(window))
			continue;
		window_drop(all, window);
		*window = all->pending[--all->pending_count];
		all->ask_next = at;
		all->waited = 0;
	}
}

void sample_ask(void)
{
	struct sampler *all = sampler_get();
	CUcontext context = NULL;

	if (!all || !enter(all))
		return;
	if (all->pending_count > 0 && DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS)
		ask(all, context);
	private_unlock(&all->lock);
}

/* ---- what is under way ----------------------------------------------------------------------------------
 */

static struct window *oldest_of(struct sampler *all, CUcontext context, uint32_t gpu)
{
	struct window *oldest = NULL;

	for (uint32_t i = 0; i < all->pending_count; i++) {
		struct window *window = &all->pending[i];

		if (window->context == context && window->gpu == gpu && window->waited < UNDER_WAY_LOOKS &&
			(!oldest || (int64_t)(window->drawn_ns - oldest->drawn_ns) < 0))
			oldest = window;
	}
	return oldest;
}

bool sample_is_behind(uint32_t gpu, uint64_t drawn_ns, uint64_t most_ns)
{
	struct sampler *all = sampler_get();
	struct window *oldest = NULL;
	CUcontext context = NULL;

	if (!all || !enter(all))
		return false;
	if (all->pending_count > 0 && DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS) {
		ask(all, context);
		oldest = oldest_of(all, context, gpu);
	}
	if (oldest && all->waited < UNDER_WAY_LOOKS && drawn_ns - oldest->drawn_ns > most_ns) {
		oldest->waited++;
		all->waited++;
	} else {
		oldest = NULL;
	}
	private_unlock(&all->lock);
	return oldest != NULL;
}

/* ---- around a launch ------------------------------------------------------------------------------------
 */

static bool is_many(const struct sampler *all, const struct started *started)
{
	return all->many.context && all->many.stream == started->stream;
}

static void begin(struct sampler *all, struct started *started)
{
	/* Its duration would be counted as part of the window. */
	if (is_many(all, started) && (started->cost_ns == 0 || started->kind != all->many.parts[0].kind)) {
		window_drop(all, &all->many);
		atomic_store_explicit(&all->turn, NOTHING, memory_order_relaxed);
	}
	if (all->alone.context || !window_open(all, &all->alone, started))
		return;
	started->alone = true;
	if (atomic_load_explicit(&all->turn, memory_order_relaxed) == ONE_LAUNCH)
		atomic_store_explicit(&all->turn, NOTHING, memory_order_relaxed);
}

void sample_begin(struct started *started)
{
	struct sampler *all = sampler_get();

	started->alone = false;
	if (!all || (started->cost_ns != 0 && started->cost_ns < COST_LONG_NS &&
			    atomic_load_explicit(&all->turn, memory_order_relaxed) != ONE_LAUNCH))
		return;
	if (!enter(all))
		return;
	begin(all, started);
	private_unlock(&all->lock);
}

/* The window begins behind a launch, so that its own launches are queued in the driver before the GPU reaches
 * them. Then the latency of a launch does not count. */
static void many_end(struct sampler *all, const struct started *started, bool ok, bool last)
{
	struct window *many = &all->many;
	bool full;

	if (atomic_load_explicit(&all->turn, memory_order_relaxed) == MANY_LAUNCHES) {
		if (ok && !last && started->kind == PACE_CORE && started->cost_ns > 0 &&
			window_open(all, many, started))
			atomic_store_explicit(&all->turn, MANY_OPEN, memory_order_relaxed);
		return;
	}
	if (!is_many(all, started))
		return;
	full = !ok || !window_add(many, started);
	if (!full && !last && many->expected_ns < ROW_NS && many->launches < ROW_LAUNCHES)
		return;
	if (full)
		window_drop(all, many);
	else
		window_close(all, many);
	atomic_store_explicit(&all->turn, NOTHING, memory_order_relaxed);
}

static void alone_end(struct sampler *all, const struct started *started, bool ok)
{
	if (ok && window_add(&all->alone, started))
		window_close(all, &all->alone);
	else
		window_drop(all, &all->alone);
}

void sample_end(struct started *started, bool ok, bool last)
{
	struct sampler *all = sampler_get();

	if (!all)
		return;
	if (started->alone) {
		private_lock(&all->lock);
		if (all->alone.context)
			alone_end(all, started, ok && all->captures == 0);
		private_unlock(&all->lock);
		return;
	}
	switch (atomic_load_explicit(&all->turn, memory_order_relaxed)) {
	case ONE_SOON:
		atomic_store_explicit(&all->turn, ONE_LAUNCH, memory_order_relaxed);
		break;
	case MANY_LAUNCHES:
	case MANY_OPEN:
		if (!enter(all))
			break;
		many_end(all, started, ok, last);
		private_unlock(&all->lock);
	}
}

uint32_t sample_due(void)
{
	struct sampler *all = sampler_get();
	uint32_t draws;

	if (!all)
		return 0;
	draws = atomic_fetch_add_explicit(&all->draws, 1, memory_order_relaxed);
	if (!enter(all))
		return draws;
	/* A thread that waits now leaves a gap behind the last launch, which does not belong to the
	 * window. */
	if (all->many.context)
		window_drop(all, &all->many);
	if (draws < 8 * DRAWS_PER_SAMPLE || draws % DRAWS_PER_SAMPLE == 0)
		atomic_store_explicit(&all->turn, draws / DRAWS_PER_SAMPLE % 2 ? ONE_SOON : MANY_LAUNCHES,
			memory_order_relaxed);
	else
		atomic_store_explicit(&all->turn, NOTHING, memory_order_relaxed);
	private_unlock(&all->lock);
	return draws;
}

uint32_t sample_draws(void)
{
	struct sampler *all = sampler_get();

	return all ? atomic_load_explicit(&all->draws, memory_order_relaxed) : 0;
}

/* ---- what ends and what must not be disturbed -----------------------------------------------------------
 */

void sample_hide(CUcontext context)
{
	struct sampler *all = __atomic_load_n(&sampler, __ATOMIC_ACQUIRE);

	if (!all || !context)
		return;
	private_lock(&all->lock);
	for (uint32_t i = 0; i < all->pending_count;) {
		if (all->pending[i].context == context) {
			window_drop(all, &all->pending[i]);
			all->pending[i] = all->pending[--all->pending_count];
		} else {
			i++;
		}
	}
	if (all->many.context == context)
		window_drop(all, &all->many);
	if (all->alone.context == context)
		window_drop(all, &all->alone);
	events_hide(&all->events, context);
	private_unlock(&all->lock);
}

void sample_unhide(CUcontext context, bool ended)
{
	struct sampler *all = __atomic_load_n(&sampler, __ATOMIC_ACQUIRE);

	if (!all || !context)
		return;
	private_lock(&all->lock);
	events_unhide(&all->events, context, ended);
	private_unlock(&all->lock);
}

void sample_capture(int change)
{
	struct sampler *all = sampler_get();

	if (!all)
		return;
	private_lock(&all->lock);
	if (all->captures + change >= 0)
		all->captures += change;
	private_unlock(&all->lock);
}

bool sample_captures(CUstream stream)
{
	const struct sampler *all = sampler_get();
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!all || atomic_load_explicit(&all->captures, memory_order_relaxed) == 0)
		return false;
	return DRIVER(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}
