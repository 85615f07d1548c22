/* bench-calls - calls the CUDA driver again and again, in some processes at a time, and tells how long that
 * took. It finds the driver as any program does, so that the same program measures with and without the shim.
 *
 * A line of standard input is a command, a line of JSON on standard output its answer. The processes are
 * there before libcuda is loaded and start each command at the same moment. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cuda/abi.h"

#define PROCESSES_MAX 256
#define COUNT_MAX 10000000
#define KEPT_MAX 100000
#define LEAD_NS 2000000 /* until all processes have read their command */
#define LINE_MAX_BYTES 128

enum action { INIT, LAUNCH, FILL, PAIRS, ASYNC, TURNS };

static const struct {
	const char *name;
	unsigned arguments;
} actions[] = {
	[INIT] = {"init", 0},
	[LAUNCH] = {"launch", 1},
	[FILL] = {"fill", 2},
	[PAIRS] = {"pairs", 2},
	[ASYNC] = {"async", 2},
	[TURNS] = {"turns", 2},
};

struct command {
	enum action action;
	uint64_t count, size;
	int64_t at_ns;
};

struct answer {
	int64_t start_ns, end_ns, cpu_ns, load_ns, waits;
	CUresult result;
};

struct member {
	pid_t pid;
	int commands, answers; /* pipes */
};

static struct {
	CUresult (*init)(unsigned int);
	CUresult (*get)(CUdevice *, int);
	CUresult (*create)(CUcontext *, unsigned int, CUdevice);
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*free)(CUdeviceptr);
	CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
	CUresult (*free_async)(CUdeviceptr, CUstream);
} cu;

static struct {
	CUdeviceptr addresses[KEPT_MAX];
	uint64_t count, oldest;
} kept;

static const char help[] =
	"Usage: bench-calls [PROCESSES]\n"
	"Commands: init (load the library and start it; first of all, once), launch COUNT, fill COUNT\n"
	"SIZE (allocate and keep), pairs COUNT SIZE (allocate and free), async COUNT SIZE (the same in a\n"
	"stream, from the GPU's pool), turns COUNT SIZE (allocate and free the oldest of those kept).\n"
	"Times are in nanoseconds.\n";

/* ---- what is measured -----------------------------------------------------------------------------------
 */

static bool load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "bench-calls: %s\n", dlerror());
		return false;
	}
	cu.init = dlsym(library, "cuInit");
	cu.get = dlsym(library, "cuDeviceGet");
	cu.create = dlsym(library, "cuCtxCreate_v2");
	cu.launch = dlsym(library, "cuLaunchKernel");
	cu.alloc = dlsym(library, "cuMemAlloc_v2");
	cu.free = dlsym(library, "cuMemFree_v2");
	cu.alloc_async = dlsym(library, "cuMemAllocAsync");
	cu.free_async = dlsym(library, "cuMemFreeAsync");
	return cu.init && cu.get && cu.create && cu.launch && cu.alloc && cu.free && cu.alloc_async &&
	       cu.free_async;
}

static CUresult launch(uint64_t count)
{
	CUresult r = CUDA_SUCCESS;

	for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = cu.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return r;
}

static CUresult fill(uint64_t count, uint64_t size)
{
	CUresult r = CUDA_SUCCESS;

	if (kept.count + count > KEPT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		r = cu.alloc(&kept.addresses[kept.count], size);
		kept.count += r == CUDA_SUCCESS;
	}
	return r;
}

static CUresult pairs(uint64_t count, uint64_t size)
{
	CUresult r = CUDA_SUCCESS;
	CUdeviceptr address;

	for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		r = cu.alloc(&address, size);
		if (r == CUDA_SUCCESS)
			r = cu.free(address);
	}
	return r;
}

static CUresult pairs_in_stream(uint64_t count, uint64_t size)
{
	CUresult r = CUDA_SUCCESS;
	CUdeviceptr address;

	for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		r = cu.alloc_async(&address, size, NULL);
		if (r == CUDA_SUCCESS)
			r = cu.free_async(address, NULL);
	}
	return r;
}

/* Whatever is known of the oldest has left the processor's caches long ago, if there are enough. */
static CUresult turns(uint64_t count, uint64_t size)
{
	CUresult r = kept.count > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	CUdeviceptr address;

	for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		kept.oldest = (kept.oldest + 1) % kept.count;
		r = cu.alloc(&address, size);
		if (r == CUDA_SUCCESS)
			r = cu.free(kept.addresses[kept.oldest]);
		kept.addresses[kept.oldest] = address;
	}
	return r;
}

static CUresult act(const struct command *command)
{
	switch (command->action) {
	case INIT:
		return cu.init(0);
	case LAUNCH:
		return launch(command->count);
	case FILL:
		return fill(command->count, command->size);
	case PAIRS:
		return pairs(command->count, command->size);
	case ASYNC:
		return pairs_in_stream(command->count, command->size);
	default: /* TURNS */
		return turns(command->count, command->size);
	}
}

static CUresult make_context(void)
{
	CUcontext context;
	CUdevice device;
	CUresult r = cu.get(&device, 0);

	return r == CUDA_SUCCESS ? cu.create(&context, 0, device) : r;
}

/* How often it gave its processor away by itself. */
static int64_t waits_so_far(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* Loading is measured by itself: without the shim the driver's library is opened there, with it in cuInit. */
static void measure(const struct command *command, struct answer *answer)
{
	struct timespec at = {command->at_ns / NS_PER_S, command->at_ns % NS_PER_S};
	int64_t cpu, waits;

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		continue;
	waits = waits_so_far();
	cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	answer->load_ns = monotonic_ns();
	if (command->action == INIT && !load()) {
		answer->result = CUDA_ERROR_NOT_FOUND;
		return;
	}
	answer->start_ns = monotonic_ns();
	answer->result = act(command);
	answer->end_ns = monotonic_ns();
	answer->cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	answer->waits = waits_so_far() - waits;
	if (command->action == INIT && answer->result == CUDA_SUCCESS)
		answer->result = make_context();
}

static void serve(int commands, int answers)
{
	struct command command;

	while (read(commands, &command, sizeof(command)) == sizeof(command)) {
		struct answer answer = {};

		measure(&command, &answer);
		if (write(answers, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
}

/* ---- the processes --------------------------------------------------------------------------------------
 */

/* A later one holds the commands' ends of those before it too: they end one after the other, from the last.
 */
static int member_start(struct member *member)
{
	int commands[2], answers[2];

	if (pipe(commands) < 0 || pipe(answers) < 0)
		return -errno;
	member->pid = fork();
	if (member->pid < 0)
		return -errno;
	if (member->pid == 0) {
		close(commands[1]);
		close(answers[0]);
		serve(commands[0], answers[1]);
		_exit(0);
	}
	close(commands[0]);
	close(answers[1]);
	*member = (struct member){member->pid, commands[1], answers[0]};
	return 0;
}

static bool member_ask(const struct member *members, unsigned n, struct command *command)
{
	command->at_ns = monotonic_ns() + LEAD_NS;
	for (unsigned i = 0; i < n; i++)
		if (write(members[i].commands, command, sizeof(*command)) != sizeof(*command))
			return false;
	return true;
}

static void print_list(const char *name, const struct answer *answers, unsigned n, int which)
{
	printf(", \"%s\": [", name);
	for (unsigned i = 0; i < n; i++) {
		const struct answer *a = &answers[i];
		int64_t value[] = {a->end_ns - a->start_ns, a->end_ns - a->load_ns, a->cpu_ns, a->waits};

		printf("%s%lld", i ? ", " : "", (long long)value[which]);
	}
	printf("]");
}

static bool answers_print(const struct answer *answers, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (answers[i].result != CUDA_SUCCESS) {
			fprintf(stderr, "bench-calls: CUresult %d\n", (int)answers[i].result);
			return false;
		}
	}
	printf("{\"processes\": %u", n);
	print_list("took", answers, n, 0);
	print_list("took_with_load", answers, n, 1);
	print_list("cpu", answers, n, 2);
	print_list("waits", answers, n, 3);
	printf("}\n");
	fflush(stdout);
	return true;
}

static bool run(const struct member *members, unsigned n, struct command *command)
{
	struct answer answers[PROCESSES_MAX];

	if (!member_ask(members, n, command))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (read(members[i].answers, &answers[i], sizeof(answers[i])) != sizeof(answers[i])) {
			fprintf(stderr, "bench-calls: a process has died\n");
			return false;
		}
	}
	return answers_print(answers, n);
}

static bool parse(char *line, struct command *ret_command)
{
	char *save, *word = strtok_r(line, " \n", &save);
	struct command command = {};

	for (unsigned i = 0; word && i < ARRAY_SIZE(actions); i++) {
		uint64_t *number[] = {&command.count, &command.size};

		if (strcmp(word, actions[i].name) != 0)
			continue;
		for (unsigned k = 0; k < actions[i].arguments; k++) {
			word = strtok_r(NULL, " \n", &save);
			if (!word || parse_u64(word, k ? UINT64_MAX : COUNT_MAX, number[k]) < 0)
				return false;
		}
		command.action = (enum action)i;
		*ret_command = command;
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct member members[PROCESSES_MAX];
	char line[LINE_MAX_BYTES];
	uint32_t n = 1;

	if (argc > 2 || (argc == 2 && (parse_u32(argv[1], PROCESSES_MAX, &n) < 0 || n < 1))) {
		fputs(help, stderr);
		return 2;
	}
	for (uint32_t i = 0; i < n; i++)
		if (member_start(&members[i]) < 0) {
			perror("bench-calls: fork");
			return 1;
		}
	while (fgets(line, sizeof(line), stdin)) {
		struct command command;

		if (!parse(line, &command)) {
			fputs(help, stderr);
			return 2;
		}
		if (!run(members, n, &command))
			return 1;
	}
	return 0;
}
