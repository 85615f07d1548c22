#include "plant.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "fiber.h"
#include "grant/token-bucket.h"
#include "libcuda-symbols.h"
#include "model/correction.h"
#include "model/shares.h"
#include "own.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/pacing.h"
#include "shim/session.h"
#include "sim/state/account.h"
#include "sim/state/work.h"

#define BEGIN_NS (1000 * NS_PER_S)
#define ALONE_NS (NS_PER_S / 2) /* all others begin so much before the first one */
#define PROCESSES_MAX 2
#define LAUNCH_NS 400
#define EVENT_NS 300
#define RESOLUTION_NS 500
#define RATE_PERIODS 6
#define START_STEP_NS (10 * NS_PER_MS)
#define START_STEPS 10
#define SAVED_NS UINT64_C(50000000) /* as pacing.c */

struct event {
	uint64_t position;
	int64_t recorded_at;
};

/* One process. */
struct process {
	struct tenant *tenant;
	struct own own;
	struct sim_process *slot;
	struct sim_line *line;
	struct event marks[2];
	uint64_t tail;
};

struct tenant {
	unsigned percent;
	struct grant_file grant;
	struct usage_file *usage;
	struct shim_session session;
	struct process processes[PROCESSES_MAX];
	struct correction correction;
	int64_t since;
	double done_before;
};

static struct plant {
	const struct row *row;
	struct sim_work *work;
	struct sim_processes processes;
	struct tenant *tenants;
	size_t count;
	struct process *current;
	struct outcome *outcome;
	uint32_t random;
} plant;

/* ---- the driver, as far as the shim asks it -------------------------------------------------------------
 */

void *shim_slots[4096];

bool sim_process_alive(const struct sim_processes *processes, struct sim_process *slot, pid_t *ret_pid)
{
	*ret_pid = (pid_t)atomic_load(&slot->pid);
	return true;
}

void sim_raise(_Atomic uint32_t *count, size_t least)
{
	if (atomic_load(count) < least)
		atomic_store(count, (uint32_t)least);
}

struct shim_session *session_found; /* none: session_get() asks each time */

const struct shim_session *session_find(void)
{
	return &plant.current->tenant->session;
}

int cuda_current_gpu(void)
{
	return 0;
}

bool cuda_is_started(void)
{
	return true;
}

static CUresult get_current(CUcontext *ret_context)
{
	*ret_context = (CUcontext)plant.current;
	return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *ret_context)
{
	return get_current(ret_context);
}

static CUresult stream_captures(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	*ret_status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *ret_event, unsigned flags)
{
	*ret_event = (CUevent)calloc(
		1, sizeof(struct event)); /* as many as a context has, see pacing-events.h */
	return CUDA_SUCCESS;
}

static int64_t reached(uint64_t position, int64_t *ret_at)
{
	return sim_line_reached(plant.work, &plant.processes, plant.current->line, position, ret_at);
}

static void submit(uint64_t ns, bool kernel)
{
	struct process *self = plant.current;
	struct sim_piece piece = {.duration_ns = ns, .kernel = kernel};

	sim_line_submit(plant.work, &plant.processes, self->line, &piece, &self->tail);
}

/* As sim/libcuda/queue.c does: an event in an idle context is a little work. */
static void record(struct event *event)
{
	int64_t at;

	fiber_sleep(EVENT_NS);
	if (reached(plant.current->tail, &at) == 0)
		submit(1, false);
	*event = (struct event){plant.current->tail, fiber_now()};
}

static CUresult event_record(CUevent event, CUstream stream)
{
	record((struct event *)event);
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	int64_t at;

	fiber_sleep(EVENT_NS);
	return reached(((struct event *)event)->position, &at) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static int64_t time_of(const struct event *event)
{
	int64_t at = 0;

	reached(event->position, &at);
	return at > event->recorded_at ? at : event->recorded_at;
}

static CUresult event_elapsed(float *ret_ms, CUevent from, CUevent to)
{
	int64_t took = time_of((struct event *)to) - time_of((struct event *)from);

	*ret_ms = (float)(took / RESOLUTION_NS * RESOLUTION_NS) / (float)NS_PER_MS;
	return CUDA_SUCCESS;
}

static void driver_make(void)
{
	shim_slots[SYMBOL_cuCtxGetCurrent] = (void *)get_current;
	shim_slots[SYMBOL_cuStreamGetCtx] = (void *)stream_context;
	shim_slots[SYMBOL_cuStreamIsCapturing] = (void *)stream_captures;
	shim_slots[SYMBOL_cuEventCreate] = (void *)event_create;
	shim_slots[SYMBOL_cuEventRecord] = (void *)event_record;
	shim_slots[SYMBOL_cuEventQuery] = (void *)event_query;
	shim_slots[SYMBOL_cuEventElapsedTime] = (void *)event_elapsed;
	shim_slots[SYMBOL_cuEventElapsedTime_v2] = (void *)event_elapsed;
}

/* ---- a program ------------------------------------------------------------------------------------------
 */

static void process_swap(void *argument)
{
	struct process *self = argument;

	plant.current = self;
	own_swap_cost(&self->own.cost);
	own_swap_sample(&self->own.sample);
	own_swap_drawn(&self->own.drawn);
}

static void submit_launch(uint32_t ns)
{
	for (uint32_t i = 0; i < (plant.row->graph ? plant.row->graph : 1); i++)
		submit(ns, true);
}

/* What the best of all pacers would do: it is told what each launch takes. */
static void launch_told(uint32_t ns)
{
	struct tenant *tenant = plant.current->tenant;
	_Atomic uint64_t *bucket = &tenant->usage->gpus[0].core_credit;
	uint64_t rate = tenant->percent * (SHARE_WHOLE / 100), before, cost, wait;

	while ((wait = token_bucket_draw_saving(bucket, (uint64_t)fiber_now(), rate, 1, SAVED_NS)) > 0)
		fiber_sleep((int64_t)wait);
	before = atomic_load(&plant.current->line->submitted);
	submit_launch(ns);
	cost = atomic_load(&plant.current->line->submitted) - before;
	token_bucket_change(bucket, (uint64_t)fiber_now(), rate, -(int64_t)cost, SAVED_NS);
}

static void launch(uint64_t number)
{
	const struct row *row = plant.row;
	bool other = row->also_ns && number % 2;
	uint64_t words[] = {1, 2, other};
	uint32_t ns = other ? row->also_ns : row->kernel_ns;
	struct pace pace;

	fiber_sleep(LAUNCH_NS);
	if (row->told) {
		launch_told(ns);
		return;
	}
	pacing_begin(&pace, PACE_CORE, cost_key(words, 3), 1, NULL);
	submit_launch(ns);
	pacing_end(&pace, CUDA_SUCCESS);
}

static void wait_for(const struct event *event)
{
	int64_t at, wait;

	while ((wait = reached(event->position, &at)) > 0)
		fiber_sleep(wait);
}

static void rest(const struct process *self)
{
	int64_t turn = plant.row->rest_ms * NS_PER_MS, since = fiber_now() - BEGIN_NS;

	if (turn && self->tenant != &plant.tenants[0] && since / turn % 2)
		fiber_sleep(turn - since % turn);
}

/* As bench/tenant.c: half of the depth at a time. */
static void process_main(void *argument)
{
	struct process *self = argument;
	uint32_t half = plant.row->depth > 1 ? plant.row->depth / 2 : 1;

	for (uint64_t launched = 0;; launched += half) {
		struct event mark;

		rest(self);
		for (uint32_t i = 0; i < half; i++)
			launch(launched + i);
		record(&mark);
		self->marks[0] = self->marks[1];
		self->marks[1] = mark;
		if (launched)
			wait_for(&self->marks[0]);
	}
}

/* ---- a keeper -------------------------------------------------------------------------------------------
 */

/* In whole percents, rounded down (sim/libnvidia-ml/utilization.c). */
static uint32_t percent_of(const struct process *process, int64_t since, int64_t *ret_at)
{
	const struct sim_account *account = &plant.work->accounts[process->line->account];

	return sim_account_permille(account, since, fiber_now(), ret_at) / 10;
}

static void look(struct tenant *self)
{
	int64_t now = fiber_now(), at = 0, last = self->since;
	int64_t first = (now / SIM_SAMPLE_NS - RATE_PERIODS) * SIM_SAMPLE_NS;
	struct correction_gpu said = {0};
	struct correction_look look = {
		.now_ns = now, .who = 1, .started_ns = atomic_load(&self->usage->gpus[0].core_started_ns)};
	struct correction_seen ignored;

	sim_work_look(plant.work, &plant.processes, 0);
	said.of_gpu = (sim_account_permille(&plant.work->gpus[0].total, first, now, &at) + 5) / 10;
	for (size_t i = 0; i < plant.count; i++)
		for (uint32_t k = 0; k < (plant.row->processes ? plant.row->processes : 1); k++) {
			int64_t end = 0;
			uint32_t found = percent_of(&plant.tenants[i].processes[k], self->since, &end);

			said.of_all += end ? found : 0;
			said.named += end != 0;
			look.percent += &plant.tenants[i] == self && end ? found : 0;
			last = end > last ? end : last;
		}
	correction_look(&self->correction, &look, &said, &ignored);
	self->since = last > now - NS_PER_S / 6 ? last : now - NS_PER_S / 6;
	atomic_store(&self->grant.live[0].core_rate,
		correction_rate(&self->correction, self->percent * (SHARE_WHOLE / 100)));
}

static void keeper_main(void *argument)
{
	struct tenant *self = argument;
	for (;;) {
		look(self);
		fiber_sleep((int64_t)correction_look_ns(&self->correction));
	}
}

/* ---- who sees what came of it ---------------------------------------------------------------------------
 */

static double done_of(const struct tenant *tenant)
{
	double sum = 0;

	for (uint32_t k = 0; k < (plant.row->processes ? plant.row->processes : 1); k++)
		sum += (double)atomic_load(
			&plant.work->accounts[tenant->processes[k].line->account].done[SIM_SM]);
	return sum;
}

static void observer_main(void *argument)
{
	for (size_t window = 0; window < WINDOWS_MAX; window++) {
		for (size_t i = 0; i < plant.count; i++)
			plant.tenants[i].done_before = done_of(&plant.tenants[i]);
		fiber_sleep(NS_PER_S);
		sim_work_look(plant.work, &plant.processes, 0);
		for (size_t i = 0; i < plant.count; i++)
			plant.outcome->got[i][window] = (done_of(&plant.tenants[i]) -
								plant.tenants[i].done_before) /
							(NS_PER_S / 100);
	}
}

static void starter_main(void *argument)
{
	double done[START_STEPS + 1] = {},
				  wanted = 0.9 * plant.tenants[0].percent / 100 * START_STEPS * START_STEP_NS;
	int64_t began = fiber_now();

	for (size_t step = 0;; step++) {
		sim_work_look(plant.work, &plant.processes, 0);
		done[step % (START_STEPS + 1)] = done_of(&plant.tenants[0]);
		if (step >= START_STEPS &&
			done[step % (START_STEPS + 1)] - done[(step + 1) % (START_STEPS + 1)] >= wanted) {
			plant.outcome->start_ms = (double)(fiber_now() - began) / NS_PER_MS - 100;
			return;
		}
		fiber_sleep(START_STEP_NS);
	}
}

/* ---- all of it ------------------------------------------------------------------------------------------
 */

static uint32_t random_below(uint32_t most)
{
	plant.random = plant.random * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)plant.random * most >> 32);
}

static void *zeros(size_t size)
{
	void *map = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		abort();
	return map;
}

static void process_make(struct tenant *tenant, struct process *process, size_t number)
{
	process->tenant = tenant;
	process->slot = &plant.processes.table->slots[number];
	atomic_store(&process->slot->pid, (uint32_t)number + 1);
	if (sim_line_take(plant.work, &plant.processes, process->slot, 0, SIM_SM, &process->line) < 0)
		abort();
	plant.work->accounts[process->line->account].taken_at = 0; /* the clock is another one by then */
}

static void tenant_make(struct tenant *tenant, size_t number)
{
	uint32_t processes = plant.row->processes ? plant.row->processes : 1;

	tenant->percent = plant.row->percent[number];
	tenant->usage = zeros(sizeof(*tenant->usage));
	tenant->session = (struct shim_session){.grant = &tenant->grant, .usage = tenant->usage};
	tenant->grant.gpu_count = 1;
	atomic_store(&tenant->grant.live[0].core_share, tenant->percent * (SHARE_WHOLE / 100));
	correction_init(&tenant->correction);
	for (uint32_t k = 0; k < processes; k++)
		process_make(tenant, &tenant->processes[k], number * processes + k);
	for (uint32_t k = 0; k < processes; k++)
		fiber_start(BEGIN_NS + (number ? random_below(2000000) : ALONE_NS), process_main,
			&tenant->processes[k], process_swap);
	if (!plant.row->no_keepers && !plant.row->told)
		fiber_start(BEGIN_NS - NS_PER_S - random_below(NS_PER_S), keeper_main, tenant, NULL);
}

static void plant_free(void)
{
	for (size_t i = 0; i < plant.count; i++)
		munmap(plant.tenants[i].usage, sizeof(*plant.tenants[i].usage));
	munmap(plant.tenants, TENANTS_MAX * sizeof(*plant.tenants));
	munmap(plant.work, sizeof(*plant.work));
	munmap(plant.processes.table, sizeof(*plant.processes.table));
}

void plant_play(const struct row *row, unsigned seconds, struct outcome *ret_outcome)
{
	*ret_outcome = (struct outcome){.start_ms = 1e9};
	plant = (struct plant){.row = row,
		.work = zeros(sizeof(struct sim_work)),
		.processes = {.table = zeros(sizeof(struct sim_process_table)), .writable = true},
		.tenants = zeros(TENANTS_MAX * sizeof(struct tenant)),
		.outcome = ret_outcome,
		.random = row->seed};
	driver_make();
	for (size_t i = 0; i < SIM_MAX_GPUS; i++)
		sim_relay_prepare(&plant.work->gpus[i].lock);
	plant.work->pace = (struct sim_pace){row->slice_us, row->latency_ns, row->jitter_percent, row->seed};
	while (plant.count < TENANTS_MAX && row->percent[plant.count])
		tenant_make(&plant.tenants[plant.count], plant.count), plant.count++;
	fiber_start(BEGIN_NS + ALONE_NS, observer_main, NULL, NULL);
	fiber_start(BEGIN_NS + ALONE_NS, starter_main, NULL, NULL);
	ret_outcome->tenants = plant.count;
	fibers_run(BEGIN_NS + ALONE_NS + seconds * NS_PER_S + NS_PER_MS);
	plant_free();
}
