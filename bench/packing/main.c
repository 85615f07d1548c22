/* How full a cluster gets with each policy (docs/internals/packing.md). Prints one JSON object for each
 * policy and seed: the allocated part of all GPUs when pods have asked for 1, 2, ... 130 % of them, and the
 * time of a decision.
 *
 *   build/bench/bench-packing [--nodes FILE --pods FILE | --generate N] [--seed N] [--seeds N] [--policy NAME
 * ...] [--hours N [--moves N] | --arrivals]
 *
 * --hours replays pods that come and go instead (churn.c), and --moves plans moves at their end. --arrivals
 * replays nothing: it prints the nodes, the kinds of pods, and for each seed the kinds in the order in which
 * pods arrive.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "packing/packing.h"

#define ARRIVALS_PERCENT 130
#define POLICIES_MAX 16

/* bench/rationbench/packing.py has the same limits. */
#define GENERATE_MAX 20000
#define SEED_MAX UINT32_MAX
#define SEEDS_MAX 1000
#define HOURS_MAX 1000
#define MOVES_MAX 100000

struct options {
	const char *nodes, *pods;
	size_t generate;
	uint64_t seed;
	unsigned seeds, hours;
	size_t moves;
	bool arrivals;
	const char *policies[POLICIES_MAX];
	size_t n_policies;
};

/* Time on a processor: what else the machine does must not count. */
static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void print_result(const struct packing_policy *policy, uint64_t seed, const double *allocated,
	size_t n_pods, size_t dropped, int64_t ns)
{
	printf("{\"policy\": \"%s\", \"seed\": %" PRIu64
	       ", \"pods\": %zu, \"dropped\": %zu, \"us\": %.3f, \"allocated\": [",
		policy->name, seed, n_pods, dropped, (double)ns / 1000.0 / (double)n_pods);
	for (unsigned p = 1; p <= ARRIVALS_PERCENT; p++)
		printf("%s%.4f", p > 1 ? ", " : "", allocated[p]);
	printf("]}\n");
	fflush(stdout);
}

/* allocated[p]: in percent, with the last pod before arrivals exceed p percent. */
static void replay(const struct packing_trace *trace, const struct packing_policy *policy,
	const struct fgd_population *fgd, uint64_t seed)
{
	double allocated[ARRIVALS_PERCENT + 1] = {0};
	size_t n_pods, dropped = 0;
	struct packing_pod *pods = packing_arrivals(trace, seed, ARRIVALS_PERCENT, &n_pods);
	uint64_t arrived = 0, placed = 0;
	struct packing_state state;
	unsigned percent = 0;
	int64_t start;

	packing_begin(&state, trace, policy, fgd, seed);
	start = cpu_ns();
	for (size_t i = 0; i < n_pods; i++) {
		uint64_t asked = (uint64_t)pods[i].gpus * pods[i].gpu_milli;
		char uid[PACKING_UID_SIZE];
		int gpu, node = packing_choose(&state, &pods[i], &gpu, uid);

		arrived += asked;
		for (; percent < ARRIVALS_PERCENT && arrived * 100 > trace->gpu_milli * percent; percent++)
			allocated[percent] = 100.0 * (double)placed / (double)trace->gpu_milli;
		packing_note_arrival(&state.cluster, &pods[i]);
		if (node < 0) {
			dropped++;
			continue;
		}
		packing_place(&state.cluster.nodes[node], &pods[i], gpu);
		placed += asked;
	}
	allocated[ARRIVALS_PERCENT] = 100.0 * (double)placed / (double)trace->gpu_milli;
	print_result(policy, seed, allocated, n_pods, dropped, cpu_ns() - start);
	packing_end(&state);
	free(pods);
}

static void print_cluster(const struct packing_trace *trace)
{
	printf("{\"nodes\": [");
	for (size_t i = 0; i < trace->n_nodes; i++)
		printf("%s[%u, %u, %u, %u]", i ? ", " : "", trace->nodes[i].cpu_milli,
			trace->nodes[i].memory_mib, trace->nodes[i].gpus, trace->nodes[i].model);
	printf("], \"kinds\": [");
	for (size_t i = 0; i < trace->n_kinds; i++) {
		const struct packing_pod *kind = &trace->kinds[i];

		printf("%s[%u, %u, %u, %u, %u]", i ? ", " : "", kind->cpu_milli, kind->memory_mib, kind->gpus,
			kind->gpu_milli, kind->models);
	}
	printf("]}\n");
}

static void print_arrivals(const struct packing_trace *trace, uint64_t seed)
{
	size_t n_pods;
	struct packing_pod *pods = packing_arrivals(trace, seed, ARRIVALS_PERCENT, &n_pods);

	printf("{\"seed\": %" PRIu64 ", \"arrivals\": [", seed);
	for (size_t i = 0; i < n_pods; i++)
		printf("%s%u", i ? ", " : "", pods[i].kind);
	printf("]}\n");
	free(pods);
}

static const struct packing_policy *find_policy(const char *name)
{
	for (size_t i = 0; i < packing_n_policies; i++)
		if (strcmp(packing_policies[i].name, name) == 0)
			return &packing_policies[i];
	fprintf(stderr, "bench-packing: unknown policy \"%s\"; there are", name);
	for (size_t i = 0; i < packing_n_policies; i++)
		fprintf(stderr, " %s", packing_policies[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

/* The argument of an option. */
static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	uint64_t value;

	if (parse_u64(text, max, &value) == 0 && value >= min)
		return value;
	fprintf(stderr,
		"bench-packing: %s is \"%s\": must be a whole number from %" PRIu64 " to %" PRIu64 "\n",
		option, text, min, max);
	exit(2);
}

static void add_policy(struct options *options, const char *name)
{
	find_policy(name);
	if (options->n_policies == POLICIES_MAX) {
		fprintf(stderr, "bench-packing: --policy is given more than %d times\n", POLICIES_MAX);
		exit(2);
	}
	options->policies[options->n_policies++] = name;
}

static struct options parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"nodes", required_argument, NULL, 'n'},
		{"pods", required_argument, NULL, 'p'},
		{"generate", required_argument, NULL, 'g'},
		{"seed", required_argument, NULL, 's'},
		{"seeds", required_argument, NULL, 'S'},
		{"hours", required_argument, NULL, 'h'},
		{"moves", required_argument, NULL, 'm'},
		{"arrivals", no_argument, NULL, 'a'},
		{"policy", required_argument, NULL, 'P'},
		{0},
	};
	struct options options = {.generate = 1213, .seed = 42, .seeds = 1};
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1)
		switch (option) {
		case 'n':
			options.nodes = optarg;
			break;
		case 'p':
			options.pods = optarg;
			break;
		case 'g':
			options.generate = number("--generate", optarg, 1, GENERATE_MAX);
			break;
		case 's':
			options.seed = number("--seed", optarg, 0, SEED_MAX);
			break;
		case 'S':
			options.seeds = (unsigned)number("--seeds", optarg, 1, SEEDS_MAX);
			break;
		case 'h':
			options.hours = (unsigned)number("--hours", optarg, 1, HOURS_MAX);
			break;
		case 'm':
			options.moves = number("--moves", optarg, 1, MOVES_MAX);
			break;
		case 'a':
			options.arrivals = true;
			break;
		case 'P':
			add_policy(&options, optarg);
			break;
		default:
			exit(2);
		}
	if (!options.nodes != !options.pods || optind < argc) {
		fprintf(stderr,
			"bench-packing: --nodes and --pods belong together, and nothing else is expected\n");
		exit(2);
	}
	for (size_t i = 0; !options.n_policies && i < packing_n_policies; i++)
		options.policies[i] = packing_policies[i].name;
	if (!options.n_policies)
		options.n_policies = packing_n_policies;
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct fgd_population *fgd;
	struct packing_trace trace;

	if (options.nodes)
		packing_read(&trace, options.nodes, options.pods);
	else
		packing_generate(&trace, options.generate, options.seed);
	if (options.arrivals) {
		print_cluster(&trace);
		for (unsigned seed = 0; seed < options.seeds; seed++)
			print_arrivals(&trace, options.seed + seed);
		packing_release(&trace);
		return 0;
	}
	fgd = fgd_learn(&trace);
	for (size_t i = 0; i < options.n_policies; i++)
		for (unsigned seed = 0; seed < options.seeds; seed++)
			if (options.hours)
				packing_churn(&trace, find_policy(options.policies[i]), fgd,
					options.seed + seed, options.hours, options.moves);
			else
				replay(&trace, find_policy(options.policies[i]), fgd, options.seed + seed);
	fgd_free(fgd);
	packing_release(&trace);
	return 0;
}
