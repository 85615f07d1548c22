/* gpu-probe - asks and uses a GPU as any program does, and says as JSON what came of it. What it finds under
 * `ration run` and without is compared by the tests beside it. GPU 0 of those that it sees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "tests/gpu/probe.h"
#include "tests/gpu/ways.h"

#define PIECES_MAX 100000
#define PATTERN 0xa5
#define CHECKED_BYTES 65536
#define WARM_LAUNCHES 1000
#define SETTLE_NS 150000000

/* A kernel that does nothing; the driver compiles it for its GPU. */
static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static const char help[] =
	"Usage: gpu-probe sizes              memory of the GPU by each way to ask\n"
	"       gpu-probe fill MIB [WAY]     allocate pieces until it fails; free one; allocate it again; wait for a line\n"
	"                                    (linear, managed, pitch, async, pool, virtual, array, mipmapped, graph, captured)\n"
	"       gpu-probe hold MIB           fill so much with a pattern, wait for a line, compare it again\n"
	"       gpu-probe curve BYTES COUNT  what so many allocations take of the GPU together\n"
	"       gpu-probe launch COUNT       a kernel that does nothing, so many times\n"
	"       gpu-probe graphs COUNT       a graph of one such kernel, so many times\n"
	"       gpu-probe pairs COUNT BYTES [async]\n"
	"                                    allocate and free, so many times\n"
	"       gpu-probe calibrate          how long a turn of the kernel of `work` takes\n"
	"       gpu-probe work NS TURNS DEPTH [graph]\n"
	"                                    kernels of so many ns or turns until standard input ends, so many in the queue\n"
	"       gpu-probe gaps NS TURNS COUNT\n"
	"                                    how long each of so many kernels took, and the gaps between them\n"
	"       gpu-probe storm SECONDS THREADS\n"
	"                                    threads that allocate and free at the limit, then fill\n";

/* ---- how much there is ----------------------------------------------------------------------------------
 */

static void print_sizes(const struct probe_args *args)
{
	struct nvml_memory v1 = {0};
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	size_t free_bytes, total, device_total;
	char name[256] = "", driver[80] = "";
	void *device = nvml_device();

	(void)args;
	must("cuMemGetInfo_v2", cu.MemGetInfo(&free_bytes, &total));
	must("cuDeviceTotalMem_v2", cu.DeviceTotalMem(&device_total, cuda_device()));
	must("cuDeviceGetName", cu.DeviceGetName(name, sizeof(name), cuda_device()));
	must("nvmlSystemGetDriverVersion", ml.SystemGetDriverVersion(driver, sizeof(driver)));
	must("nvmlDeviceGetMemoryInfo", ml.DeviceGetMemoryInfo(device, &v1));
	printf("{\"name\": \"%s\", \"driver\": \"%s\", \"cuMemGetInfo\": %zu, \"cuMemGetInfo_free\": %zu, "
	       "\"cuDeviceTotalMem\": %zu, \"nvml_v1\": %llu, \"nvml_v1_free\": %llu",
		name, driver, total, free_bytes, device_total, v1.total, v1.free);
	/* Drivers before 510 have no version 2. */
	if (ml.DeviceGetMemoryInfo_v2 && ml.DeviceGetMemoryInfo_v2(device, &v2) == 0)
		printf(", \"nvml_v2\": %llu, \"nvml_v2_free\": %llu, \"nvml_v2_reserved\": %llu", v2.total,
			v2.free, v2.reserved);
	printf("}\n");
}

static uint64_t taken_bytes(void)
{
	size_t free_bytes, total;

	must("cuMemGetInfo_v2", cu.MemGetInfo(&free_bytes, &total));
	return total - free_bytes;
}

/* ---- taking it ------------------------------------------------------------------------------------------
 */

static unsigned take_all(const struct way *way, uint64_t *pieces, uint64_t size, CUresult *ret_refusal)
{
	unsigned n = 0;

	*ret_refusal = CUDA_SUCCESS;
	while (n < PIECES_MAX && (*ret_refusal = way->take(size, &pieces[n])) == CUDA_SUCCESS)
		n++;
	return n;
}

static void fill(const struct probe_args *args)
{
	uint64_t mib = args->number[0];
	uint64_t *pieces = must_calloc(PIECES_MAX, sizeof(*pieces));
	const struct way *way = way_named(args->word ? args->word : "linear");
	CUresult refusal, again = CUDA_SUCCESS;
	unsigned n;

	if (!way) {
		fputs(help, stderr);
		exit(2);
	}
	n = take_all(way, pieces, mib * MIB, &refusal);
	if (n > 0) {
		must("free", way->give(pieces[n - 1]));
		again = way->take(mib * MIB, &pieces[n - 1]);
	}
	printf("{\"allocated\": %llu, \"refusal\": %d, \"again\": %d}\n", (unsigned long long)(n * mib * MIB),
		(int)refusal, (int)again);
	fflush(stdout);
	probe_wait();
	if (again != CUDA_SUCCESS)
		n--;
	for (unsigned i = 0; i < n; i++)
		must("free", way->give(pieces[i]));
	free(pieces);
}

static uint64_t wrong_bytes(CUdeviceptr address, uint64_t size)
{
	static unsigned char seen[CHECKED_BYTES];
	uint64_t wrong = 0;

	for (uint64_t at = 0; at < size; at += CHECKED_BYTES) {
		must("cuMemcpyDtoH_v2", cu.MemcpyDtoH(seen, address + at, CHECKED_BYTES));
		for (unsigned i = 0; i < CHECKED_BYTES; i++)
			wrong += seen[i] != PATTERN;
	}
	return wrong;
}

static void hold(const struct probe_args *args)
{
	uint64_t size = args->number[0] * MIB;
	CUdeviceptr address;
	CUfunction kernel = must_kernel(ptx, "nothing");

	must("cuMemAlloc_v2", cu.MemAlloc(&address, size));
	must("cuMemsetD8_v2", cu.MemsetD8(address, PATTERN, size));
	must("cuCtxSynchronize", cu.CtxSynchronize());
	printf("{\"held\": %llu}\n", (unsigned long long)size);
	fflush(stdout);
	if (probe_wait() < 0)
		exit(1);
	must("cuLaunchKernel", cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	must("cuCtxSynchronize", cu.CtxSynchronize());
	printf("{\"wrong\": %llu}\n", (unsigned long long)wrong_bytes(address, size));
}

static void curve(const struct probe_args *args)
{
	uint64_t size = args->number[0], count = args->number[1];
	CUdeviceptr *pieces = must_calloc(count, sizeof(*pieces));
	uint64_t before, after;

	/* Whatever the driver makes at the first allocation is not the allocation's. */
	must("cuMemAlloc_v2", cu.MemAlloc(&pieces[0], size));
	must("cuMemFree_v2", cu.MemFree(pieces[0]));
	before = taken_bytes();
	for (uint64_t i = 0; i < count; i++)
		must("cuMemAlloc_v2", cu.MemAlloc(&pieces[i], size));
	after = taken_bytes();
	for (uint64_t i = 0; i < count; i++)
		must("cuMemFree_v2", cu.MemFree(pieces[i]));
	printf("{\"taken\": %llu, \"left\": %llu}\n", (unsigned long long)(after - before),
		(unsigned long long)(taken_bytes() - before));
	free(pieces);
}

/* ---- how long it takes ----------------------------------------------------------------------------------
 */

static void print_launches(int64_t asked, int64_t done, uint64_t count)
{
	printf("{\"asked_ns\": %.1f, \"done_ns\": %.1f}\n", (double)asked / (double)count,
		(double)done / (double)count);
}

static void launch(const struct probe_args *args)
{
	CUfunction kernel = must_kernel(ptx, "nothing");
	uint64_t count = args->number[0];
	int64_t start = 0, asked;

	for (uint64_t i = 0; i < count + WARM_LAUNCHES; i++) {
		if (i == WARM_LAUNCHES) {
			must("cuCtxSynchronize", cu.CtxSynchronize());
			start = monotonic_ns();
		}
		must("cuLaunchKernel", cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
	asked = monotonic_ns() - start;
	must("cuCtxSynchronize", cu.CtxSynchronize());
	print_launches(asked, monotonic_ns() - start, count);
}

static void launch_graphs(const struct probe_args *args)
{
	__typeof__(&cuGraphLaunch) graph_launch = cuda_symbol("cuGraphLaunch");
	__typeof__(&cuStreamCreate) stream_create = cuda_symbol("cuStreamCreate");
	__typeof__(&cuStreamBeginCapture_v2) begin = cuda_symbol("cuStreamBeginCapture_v2");
	__typeof__(&cuStreamEndCapture) end = cuda_symbol("cuStreamEndCapture");
	__typeof__(&cuGraphInstantiateWithFlags) instantiate = cuda_symbol("cuGraphInstantiateWithFlags");
	CUfunction kernel = must_kernel(ptx, "nothing");
	uint64_t count = args->number[0];
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	int64_t start, asked;

	must("cuStreamCreate", stream_create(&stream, CU_STREAM_NON_BLOCKING));
	must("cuStreamBeginCapture_v2", begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	must("cuLaunchKernel", cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	must("cuStreamEndCapture", end(stream, &graph));
	must("cuGraphInstantiateWithFlags", instantiate(&exec, graph, 0));
	must("cuGraphLaunch", graph_launch(exec, stream));
	must("cuCtxSynchronize", cu.CtxSynchronize());
	start = monotonic_ns();
	for (uint64_t i = 0; i < count; i++)
		must("cuGraphLaunch", graph_launch(exec, stream));
	asked = monotonic_ns() - start;
	must("cuCtxSynchronize", cu.CtxSynchronize());
	print_launches(asked, monotonic_ns() - start, count);
}

static void pairs(const struct probe_args *args)
{
	uint64_t count = args->number[0], size = args->number[1], piece;
	const struct way *way = way_named(args->word ? args->word : "linear");
	int64_t start;

	if (!way) {
		fputs(help, stderr);
		exit(2);
	}
	/* The first one makes what the driver keeps. */
	must("allocation", way->take(size, &piece));
	must("free", way->give(piece));
	start = monotonic_ns();
	for (uint64_t i = 0; i < count; i++) {
		must("allocation", way->take(size, &piece));
		must("free", way->give(piece));
	}
	printf("{\"pair_ns\": %.1f}\n", (double)(monotonic_ns() - start) / (double)count);
}

/* ---------------------------------------------------------------------------------------------------------
 */

int probe_wait(void)
{
	char line[16];

	return fgets(line, sizeof(line), stdin) ? 0 : -1;
}

/* A context is charged within 100 ms: until then a run has more room than it should. */
static void settle(void)
{
	struct timespec time = {.tv_nsec = SETTLE_NS};

	nanosleep(&time, NULL);
}

static int usage(void)
{
	fputs(help, stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int numbers, words;
		bool settles;
		void (*act)(const struct probe_args *);
	} actions[] = {{"sizes", 0, 0, true, print_sizes}, {"fill", 1, 1, true, fill},
		{"hold", 1, 0, true, hold}, {"curve", 2, 0, false, curve}, {"launch", 1, 0, false, launch},
		{"graphs", 1, 0, false, launch_graphs}, {"pairs", 2, 1, false, pairs},
		{"calibrate", 0, 0, false, probe_calibrate}, {"work", 3, 1, false, probe_work},
		{"gaps", 3, 0, false, probe_gaps}, {"storm", 2, 0, true, probe_storm}};
	struct probe_args args = {};

	for (unsigned i = 0; argc > 1 && i < ARRAY_SIZE(actions); i++) {
		int least = 2 + actions[i].numbers;

		if (strcmp(argv[1], actions[i].name) != 0)
			continue;
		if (argc < least || argc > least + actions[i].words)
			return usage();
		for (int k = 0; k < actions[i].numbers; k++)
			if (parse_u64(argv[2 + k], UINT64_C(1) << 40, &args.number[k]) < 0 ||
				args.number[k] == 0)
				return usage();
		args.word = argc > least ? argv[least] : NULL;
		cuda_open();
		if (actions[i].settles)
			settle();
		actions[i].act(&args);
		return 0;
	}
	return usage();
}
