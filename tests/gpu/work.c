/* work.c - kernels that keep a GPU busy for a known time, how many of them were done when, and the gaps
 * between them while another program works on the same GPU. */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/gpu/cuda.h"
#include "tests/gpu/probe.h"

#define WARM_NS 500000000
#define CALIBRATE_TURNS UINT64_C(2000000)
#define CALIBRATE_RUNS 9
#define TOLD_NS 20000000
#define DEPTH_MAX 4096u
#define GRAPH_KERNELS 20
#define GAPS_MAX 8192u
#define GAP_FACTOR 1.5f
#define GAP_MIN_MS 0.05f

/* A chain of multiplications that takes as long as it has turns, whatever else the GPU does; ptxas 12.9
 * and 13.5 compile it for sm_50 to sm_120. A wait by a clock of the GPU would go on while another program has
 * the GPU. */
static const char spin_ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			       ".visible .entry spin(.param .u64 turns, .param .u64 out)\n{\n"
			       ".reg .pred %p, %q;\n.reg .b32 %x;\n.reg .b64 %n, %o;\n"
			       "ld.param.u64 %n, [turns];\nld.param.u64 %o, [out];\n"
			       "cvta.to.global.u64 %o, %o;\nmov.u32 %x, %tid.x;\n"
			       "again:\n"
			       "mad.lo.u32 %x, %x, 1664525, 1013904223;\n"
			       "mad.lo.u32 %x, %x, 1664525, 1013904223;\n"
			       "mad.lo.u32 %x, %x, 1664525, 1013904223;\n"
			       "mad.lo.u32 %x, %x, 1664525, 1013904223;\n"
			       "sub.u64 %n, %n, 1;\nsetp.ne.u64 %p, %n, 0;\n@%p bra again;\n"
			       "setp.eq.u32 %q, %x, 305419896;\n@%q st.global.u32 [%o], %x;\nret;\n}\n";

static struct {
	__typeof__(&cuStreamCreate) StreamCreate;
	__typeof__(&cuStreamBeginCapture_v2) StreamBeginCapture;
	__typeof__(&cuStreamEndCapture) StreamEndCapture;
	__typeof__(&cuGraphInstantiateWithFlags) GraphInstantiate;
	__typeof__(&cuGraphLaunch) GraphLaunch;
	__typeof__(&cuEventCreate) EventCreate;
	__typeof__(&cuEventRecord) EventRecord;
	__typeof__(&cuEventSynchronize) EventSynchronize;
	__typeof__(&cuEventElapsedTime) EventElapsedTime;
} work;

static struct {
	CUfunction kernel;
	CUstream stream;
	CUgraphExec graph; /* NULL: kernels are launched one by one */
	CUdeviceptr out;
	uint64_t turns;
	bool simulated;
} spin;

static void look_up(void)
{
	work.StreamCreate = cuda_symbol("cuStreamCreate");
	work.StreamBeginCapture = cuda_symbol("cuStreamBeginCapture_v2");
	work.StreamEndCapture = cuda_symbol("cuStreamEndCapture");
	work.GraphInstantiate = cuda_symbol("cuGraphInstantiateWithFlags");
	work.GraphLaunch = cuda_symbol("cuGraphLaunch");
	work.EventCreate = cuda_symbol("cuEventCreate");
	work.EventRecord = cuda_symbol("cuEventRecord");
	work.EventSynchronize = cuda_symbol("cuEventSynchronize");
	work.EventElapsedTime = cuda_symbol("cuEventElapsedTime");
}

/* Only the simulated driver takes a module in the format of ration-sim(1). */
static void make_kernel(uint64_t ns, uint64_t turns)
{
	char image[160];
	CUmodule module;

	look_up();
	snprintf(image, sizeof(image),
		"{\"rationSimModule\": 1, \"functions\": {\"spin\": {\"us\": %llu.%03llu}}}",
		(unsigned long long)ns / 1000, (unsigned long long)ns % 1000);
	spin.simulated = cu.ModuleLoadData(&module, image) == CUDA_SUCCESS;
	if (spin.simulated)
		must("cuModuleGetFunction", cu.ModuleGetFunction(&spin.kernel, module, "spin"));
	else
		spin.kernel = must_kernel(spin_ptx, "spin");
	spin.turns = turns;
	must("cuMemAlloc_v2", cu.MemAlloc(&spin.out, sizeof(uint32_t)));
	must("cuStreamCreate", work.StreamCreate(&spin.stream, CU_STREAM_NON_BLOCKING));
}

static void launch_kernel(void)
{
	void *params[] = {&spin.turns, &spin.out};

	must("cuLaunchKernel", cu.LaunchKernel(spin.kernel, 1, 1, 1, 32, 1, 1, 0, spin.stream, params, NULL));
}

static void make_graph(void)
{
	CUgraph graph;

	must("cuStreamBeginCapture_v2",
		work.StreamBeginCapture(spin.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (unsigned i = 0; i < GRAPH_KERNELS; i++)
		launch_kernel();
	must("cuStreamEndCapture", work.StreamEndCapture(spin.stream, &graph));
	must("cuGraphInstantiateWithFlags", work.GraphInstantiate(&spin.graph, graph, 0));
}

static void launch(void)
{
	if (spin.graph)
		must("cuGraphLaunch", work.GraphLaunch(spin.graph, spin.stream));
	else
		launch_kernel();
}

static float elapsed_ms(CUevent before, CUevent after)
{
	float ms;

	must("cuEventElapsedTime", work.EventElapsedTime(&ms, before, after));
	return ms;
}

/* The shortest of several: the clocks of an idle GPU are low at first. */
void probe_calibrate(const struct probe_args *args)
{
	CUevent before, after;
	int64_t began = monotonic_ns();
	float least = 0;

	(void)args;
	make_kernel(1000000, CALIBRATE_TURNS);
	must("cuEventCreate", work.EventCreate(&before, 0));
	must("cuEventCreate", work.EventCreate(&after, 0));
	for (unsigned i = 0; i < CALIBRATE_RUNS || (!spin.simulated && monotonic_ns() - began < WARM_NS);
		i++) {
		float ms;

		must("cuEventRecord", work.EventRecord(before, spin.stream));
		launch();
		must("cuEventRecord", work.EventRecord(after, spin.stream));
		must("cuEventSynchronize", work.EventSynchronize(after));
		ms = elapsed_ms(before, after);
		least = i == 0 || ms < least ? ms : least;
	}
	printf("{\"simulated\": %s, \"ns_per_turn\": %.6f}\n", spin.simulated ? "true" : "false",
		(double)least * 1e6 / (double)CALIBRATE_TURNS);
}

static bool input_ended(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static void tell_done(uint64_t done, int64_t now)
{
	printf("{\"at\": %lld, \"done\": %llu}\n", (long long)now, (unsigned long long)done);
	fflush(stdout);
}

/* Half of the depth at a time: the half before is waited for while this one keeps the GPU busy. */
static void keep_busy(unsigned depth)
{
	unsigned half = depth > 1 ? depth / 2 : 1, kernels = spin.graph ? GRAPH_KERNELS : 1;
	CUevent marks[2], mark;
	int64_t told = 0, now;
	uint64_t started = 0;

	for (unsigned i = 0; i < 2; i++)
		must("cuEventCreate", work.EventCreate(&marks[i], CU_EVENT_DISABLE_TIMING));
	while (!input_ended()) {
		for (unsigned i = 0; i < half; i++)
			launch();
		mark = marks[0];
		marks[0] = marks[1];
		marks[1] = mark;
		must("cuEventRecord", work.EventRecord(mark, spin.stream));
		if (started > 0)
			must("cuEventSynchronize", work.EventSynchronize(marks[0]));
		now = monotonic_ns();
		if (started > 0 && now - told >= TOLD_NS) {
			tell_done(started * kernels, now);
			told = now;
		}
		started += half;
	}
}

/* NS TURNS DEPTH [graph] */
void probe_work(const struct probe_args *args)
{
	make_kernel(args->number[0], args->number[1]);
	if (args->word && strcmp(args->word, "graph") == 0)
		make_graph();
	printf("{\"ready\": true}\n");
	fflush(stdout);
	if (probe_wait() == 0)
		keep_busy(args->number[2] < DEPTH_MAX ? (unsigned)args->number[2] : DEPTH_MAX);
	/* What is queued can be seconds of a share: the driver drops it with the process. */
	_exit(0);
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static float part(const float *sorted, size_t n, double at)
{
	return n ? sorted[(size_t)((double)(n - 1) * at)] : 0;
}

/* A gap is a kernel that took much longer than the median: another program had the GPU for the difference. */
static void print_gaps(const float *ms, size_t n)
{
	static float sorted[GAPS_MAX], gaps[GAPS_MAX], runs[GAPS_MAX];
	float median, sum = 0, run = 0;
	size_t gap_count = 0, run_count = 0;

	memcpy(sorted, ms, n * sizeof(*ms));
	qsort(sorted, n, sizeof(*sorted), by_size);
	median = part(sorted, n, 0.5);
	for (size_t i = 0; i < n; i++) {
		sum += ms[i];
		run += median;
		if (ms[i] < median * GAP_FACTOR || ms[i] - median < GAP_MIN_MS)
			continue;
		gaps[gap_count++] = ms[i] - median;
		/* What was before the first gap began before anybody counted. */
		if (gap_count > 1)
			runs[run_count++] = run;
		run = 0;
	}
	qsort(gaps, gap_count, sizeof(*gaps), by_size);
	qsort(runs, run_count, sizeof(*runs), by_size);
	printf("{\"kernel_ms\": %.6f, \"kernel_p05_ms\": %.6f, \"kernel_p95_ms\": %.6f, \"sum_ms\": %.3f, "
	       "\"gaps\": %zu, "
	       "\"gap_ms\": %.4f, \"gap_p90_ms\": %.4f, \"run_ms\": %.4f, \"run_p90_ms\": %.4f}\n",
		(double)median, (double)part(sorted, n, 0.05), (double)part(sorted, n, 0.95), (double)sum,
		gap_count, (double)part(gaps, gap_count, 0.5), (double)part(gaps, gap_count, 0.9),
		(double)part(runs, run_count, 0.5), (double)part(runs, run_count, 0.9));
}

/* NS TURNS COUNT */
void probe_gaps(const struct probe_args *args)
{
	static CUevent events[GAPS_MAX + 1];
	static float ms[GAPS_MAX];
	size_t n = args->number[2] < GAPS_MAX ? args->number[2] : GAPS_MAX;

	make_kernel(args->number[0], args->number[1]);
	for (size_t i = 0; i <= n; i++)
		must("cuEventCreate", work.EventCreate(&events[i], 0));
	launch();
	must("cuEventRecord", work.EventRecord(events[0], spin.stream));
	for (size_t i = 0; i < n; i++) {
		launch();
		must("cuEventRecord", work.EventRecord(events[i + 1], spin.stream));
	}
	must("cuEventSynchronize", work.EventSynchronize(events[n]));
	for (size_t i = 0; i < n; i++)
		ms[i] = elapsed_ms(events[i], events[i + 1]);
	print_gaps(ms, n);
}
