/* bench-tenant - keeps a GPU as busy as it may, in one of the ways that programs do, and tells how far it
 * came. It finds the driver as any program does, so that the same program measures with and without the shim.
 *
 * It prints "ready" and its pid when everything is made, waits for a line on standard input ("go"), works
 * until standard input ends or --seconds are over, and prints a line of JSON: how many kernels (or copies) it
 * saw done, in how long, and the processor time for it. */
#include <dlfcn.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cuda/functions.h"

#define PROCESSES_MAX 64
#define DEPTH_MAX 100000
#define LOOK_NS (20 * NS_PER_MS) /* how often standard input is looked at */

struct plan {
	uint32_t kernel_ns;
	uint32_t depth;	   /* launches ahead; 0: each is waited for */
	uint32_t graph;	   /* kernels of a graph, launched at once; 0: none */
	uint32_t copy_kib; /* copies instead of kernels */
	bool copy_out;	   /* from the GPU instead of to it */
	uint32_t processes;
	uint32_t seconds;  /* 0: until standard input ends */
	uint32_t launches; /* stop after this number; 0: do not stop */
};

struct tenant {
	CUstream stream;
	CUfunction function;
	CUgraphExec exec;
	CUdeviceptr memory;
	void *host;
	CUevent marks[2]; /* of the half of the depth before, and of the one before that */
	uint64_t launched, seen;
};

#define FUNCTIONS(X)                                                                                         \
	X(cuInit)                                                                                            \
	X(cuCtxCreate_v2)                                                                                    \
	X(cuModuleLoadData)                                                                                  \
	X(cuModuleGetFunction)                                                                               \
	X(cuStreamCreate)                                                                                    \
	X(cuStreamSynchronize)                                                                               \
	X(cuStreamBeginCapture_v2)                                                                           \
	X(cuStreamEndCapture)                                                                                \
	X(cuGraphInstantiateWithFlags)                                                                       \
	X(cuGraphLaunch)                                                                                     \
	X(cuEventCreate)                                                                                     \
	X(cuEventRecord)                                                                                     \
	X(cuEventSynchronize)                                                                                \
	X(cuLaunchKernel)                                                                                    \
	X(cuMemAlloc_v2)                                                                                     \
	X(cuMemHostAlloc)                                                                                    \
	X(cuMemcpyHtoDAsync_v2)                                                                              \
	X(cuMemcpyDtoHAsync_v2)

static struct {
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
} cu;

static const char help[] =
	"Usage: bench-tenant [--ns N] [--depth N] [--graph N] [--copy-in KIB | --copy-out KIB]\n"
	"                    [--processes N] [--seconds N] [--launches N]\n";

#define TRY(call)                                                                                            \
	do {                                                                                                 \
		CUresult r_ = (call);                                                                        \
		if (r_ != CUDA_SUCCESS)                                                                      \
			return r_;                                                                           \
	} while (0)

static bool load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "bench-tenant: %s\n", dlerror());
		return false;
	}
#define FIND(name)                                                                                           \
	cu.name = (__typeof__(cu.name))dlsym(library, #name);                                                \
	if (!cu.name)                                                                                        \
		return false;
	FUNCTIONS(FIND)
	return true;
}

static CUresult launch_kernel(const struct tenant *t)
{
	return cu.cuLaunchKernel(t->function, 1, 1, 1, 1, 1, 1, 0, t->stream, NULL, NULL);
}

static CUresult make_graph(const struct plan *plan, struct tenant *t)
{
	CUgraph graph;

	TRY(cu.cuStreamBeginCapture_v2(t->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (uint32_t i = 0; i < plan->graph; i++)
		TRY(launch_kernel(t));
	TRY(cu.cuStreamEndCapture(t->stream, &graph));
	return cu.cuGraphInstantiateWithFlags(&t->exec, graph, 0);
}

static CUresult make(const struct plan *plan, struct tenant *t)
{
	CUcontext context;
	CUmodule module;
	char image[128];

	snprintf(image, sizeof(image), "{\"rationSimModule\": 1, \"functions\": {\"f\": {\"us\": %u.%03u}}}",
		plan->kernel_ns / 1000, plan->kernel_ns % 1000);
	TRY(cu.cuInit(0));
	TRY(cu.cuCtxCreate_v2(&context, 0, 0));
	TRY(cu.cuModuleLoadData(&module, image));
	TRY(cu.cuModuleGetFunction(&t->function, module, "f"));
	TRY(cu.cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < ARRAY_SIZE(t->marks); i++)
		TRY(cu.cuEventCreate(&t->marks[i], CU_EVENT_DISABLE_TIMING));
	if (plan->copy_kib) {
		TRY(cu.cuMemAlloc_v2(&t->memory, (size_t)plan->copy_kib << 10));
		TRY(cu.cuMemHostAlloc(&t->host, (size_t)plan->copy_kib << 10, 0));
	}
	return plan->graph ? make_graph(plan, t) : CUDA_SUCCESS;
}

static CUresult start_one(const struct plan *plan, const struct tenant *t)
{
	if (plan->copy_kib && plan->copy_out)
		return cu.cuMemcpyDtoHAsync_v2(t->host, t->memory, (size_t)plan->copy_kib << 10, t->stream);
	if (plan->copy_kib)
		return cu.cuMemcpyHtoDAsync_v2(t->memory, t->host, (size_t)plan->copy_kib << 10, t->stream);
	return plan->graph ? cu.cuGraphLaunch(t->exec, t->stream) : launch_kernel(t);
}

/* Half of the depth at a time: then the half before is waited for, while this one keeps the GPU busy. */
static CUresult start_some(const struct plan *plan, struct tenant *t)
{
	uint32_t half = plan->depth > 1 ? plan->depth / 2 : 1;
	CUevent mark = t->marks[0];

	for (uint32_t i = 0; i < half; i++)
		TRY(start_one(plan, t));
	t->launched += half;
	if (plan->depth == 0) {
		TRY(cu.cuStreamSynchronize(t->stream));
		t->seen = t->launched;
		return CUDA_SUCCESS;
	}
	t->marks[0] = t->marks[1];
	t->marks[1] = mark;
	TRY(cu.cuEventRecord(mark, t->stream));
	if (t->launched > half) {
		TRY(cu.cuEventSynchronize(t->marks[0]));
		t->seen = t->launched - half;
	}
	return CUDA_SUCCESS;
}

static bool input_ended(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static CUresult work(const struct plan *plan, struct tenant *t, int64_t *ret_took)
{
	int64_t began = monotonic_ns(), next_look = began, now = began;
	CUresult r = CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && (plan->seconds == 0 || now - began < plan->seconds * NS_PER_S) &&
		(plan->launches == 0 || t->launched < plan->launches)) {
		if (now >= next_look) {
			if (input_ended())
				break;
			next_look = now + LOOK_NS;
		}
		r = start_some(plan, t);
		now = monotonic_ns();
	}
	*ret_took = monotonic_ns() - began;
	return r;
}

/* All processes share standard input: each of them waits for a byte of its own. */
static int run(const struct plan *plan)
{
	struct tenant tenant = {};
	int64_t took = 0, cpu;
	CUresult r = load() ? make(plan, &tenant) : CUDA_ERROR_NOT_FOUND;
	char byte;

	if (r == CUDA_SUCCESS) {
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		if (read(STDIN_FILENO, &byte, 1) != 1)
			return 0;
		cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
		r = work(plan, &tenant, &took);
		cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	}
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "bench-tenant: CUresult %d\n", (int)r);
		return 1;
	}
	printf("{\"done\": %llu, \"launched\": %llu, \"tookNs\": %lld, \"cpuNs\": %lld}\n",
		(unsigned long long)tenant.seen, (unsigned long long)tenant.launched, (long long)took,
		(long long)cpu);
	fflush(stdout);
	/* What is queued is not waited for: it can be seconds of a share. */
	_exit(0);
}

static int parse(int argc, char **argv, struct plan *ret_plan)
{
	static const struct {
		const char *name;
		size_t offset;
		uint32_t max;
	} numbers[] = {{"depth", offsetof(struct plan, depth), DEPTH_MAX},
		{"graph", offsetof(struct plan, graph), 1000},
		{"copy-in", offsetof(struct plan, copy_kib), 1 << 20},
		{"copy-out", offsetof(struct plan, copy_kib), 1 << 20},
		{"processes", offsetof(struct plan, processes), PROCESSES_MAX},
		{"seconds", offsetof(struct plan, seconds), 3600},
		{"launches", offsetof(struct plan, launches), UINT32_MAX},
		{"ns", offsetof(struct plan, kernel_ns), 1000000000}};
	struct option options[ARRAY_SIZE(numbers) + 1] = {};
	struct plan plan = {.kernel_ns = 1000000, .depth = 20, .processes = 1};
	int c;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		options[i] = (struct option){numbers[i].name, required_argument, NULL, (int)i};
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c >= (int)ARRAY_SIZE(numbers) ||
			parse_u32(optarg, numbers[c].max, (uint32_t *)((char *)&plan + numbers[c].offset)) <
				0)
			return -1;
		if (strcmp(numbers[c].name, "copy-out") == 0)
			plan.copy_out = true;
	}
	*ret_plan = plan;
	return optind == argc && plan.processes > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct plan plan;
	int status = 0, one;

	if (parse(argc, argv, &plan) < 0) {
		fputs(help, stderr);
		return 2;
	}
	for (uint32_t i = 1; i < plan.processes; i++)
		if (fork() == 0)
			return run(&plan);
	if (plan.processes == 1)
		return run(&plan);
	if (fork() == 0)
		return run(&plan);
	while (wait(&one) > 0)
		status |= WIFEXITED(one) ? WEXITSTATUS(one) : 1;
	return status;
}
