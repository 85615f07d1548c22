#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"
#include "shrink.h"
#include "sim.h"

static const char help[] =
	"Usage: simulation [--histories N] [--seed S] [--leaders] [--gangs] [--cards] [--priorities]\n"
	"                  [--break RULE] [--steps | --digest] [--replay | --record FILE]\n"
	"       simulation --case NAME | --cases | --list\n"
	"\n"
	"Deterministic simulation of ration around its real decisions: ledger, placement, wake-up, matching. Each\n"
	"history is drawn from a seed: pods, kills, delays, lost answers. Exit status 1 when an invariant is violated;\n"
	"the history is then made small and printed with its steps.\n"
	"\n"
	"  --histories N  how many, from seed S on (default 1000)\n"
	"  --seed S       the first seed (default: RATION_SEED of the environment times a million, else 1)\n"
	"  --leaders      two pairs of schedulers, whose leader changes often\n"
	"  --gangs        pods that are placed all or none, on a cluster that holds a part of them\n"
	"  --cards        nodes that give whole cards, with their links, and pods that ask for them\n"
	"  --priorities   pods of different priority: the less important ones are evicted for the others\n"
	"  --case NAME    one history that was written by hand; --cases: all of them, as TAP; --list: their names\n"
	"  --break RULE   replace a rule by a wrong one, to see that it is caught; \"list\" lists the rules\n"
	"  --invariant X  look at this invariant only, by its whole text\n"
	"  --must-violate succeed if an invariant is violated, and only then\n"
	"  --full N       with RATION_FULL in the environment, N histories\n"
	"  --steps        print what happens, step by step\n"
	"  --replay       record what each scheduler decides, and replay it\n"
	"  --record FILE  the same, and write the recordings, one after the other\n"
	"  --play FILE    replay such recordings\n"
	"  --digest       print one number for all that happens: the same in each process and each build\n"
	"  --table        in the end, print how often what happened\n";

static struct sim sim;

static void report(const struct plan *plan, enum broken broken)
{
	struct statistics statistics = {0};
	struct plan small = *plan;

	printf("seed %" PRIu64 ": %s\n", plan->seed, sim.violation);
	shrink(&sim, &small, broken);
	printf("\nThe same with %u of its %u inputs:\n", small.n_inputs, plan->n_inputs);
	plan_print(&small, stdout);
	putchar('\n');
	sim_run(&sim, &small, broken, true, &statistics);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_table(const struct statistics *statistics, double seconds)
{
	printf("| %" PRIu64 " histories, %.1f s of CPU, %.0f histories/s | times |\n|---|---|\n",
		statistics->histories, seconds, (double)statistics->histories / seconds);
	for (int i = 0; i < COUNT_MAX; i++)
		printf("| %s | %" PRIu64 " |\n", counter_names[i], statistics->counts[i]);
	for (int i = INPUT_POD + 1; i < INPUT_MAX; i++)
		printf("| fault: %s | %" PRIu64 " |\n", input_names[i], statistics->inputs[i]);
	for (int i = 0; i < REASON_MAX; i++)
		printf("| rejected by the kubelet: %s | %" PRIu64 " |\n", reason_names[i],
			statistics->reasons[i]);
}

static int run_histories(
	uint64_t n, uint64_t seed, unsigned int what, enum broken broken, bool steps, bool table)
{
	struct statistics statistics = {0};
	uint64_t truncated = 0;
	struct plan plan;
	double started = now();

	for (uint64_t i = 0; i < n; i++) {
		plan_draw(&plan, seed + i, what);
		if (sim_run(&sim, &plan, broken, steps, &statistics) < 0) {
			report(&plan, broken);
			return 1;
		}
		if (sim.truncated) {
			printf("seed %" PRIu64 ": not finished: %s\n", plan.seed, sim.truncated);
			truncated++;
		}
	}
	printf("%" PRIu64 " histories from seed %" PRIu64 ": no invariant violated, %" PRIu64
	       " not finished; %.0f histories/s\n",
		n, seed, truncated, (double)n / (now() - started));
	if (sim_digest)
		printf("digest %016" PRIx64 "\n", *sim_digest);
	if (table)
		print_table(&statistics, now() - started);
	return truncated ? 2 : 0;
}

static int run_case(const struct sim_case *c, enum broken broken, bool steps)
{
	struct statistics statistics = {0};
	struct plan plan;

	if (!c->plan) {
		printf("# %s\n", c->why);
		return 0;
	}
	case_plan(c, &plan);
	if (steps)
		plan_print(&plan, stdout);
	if (sim_run(&sim, &plan, broken, steps, &statistics) < 0) {
		printf("# %s\n", sim.violation);
		return 1;
	}
	return case_check(c, &sim, &statistics);
}

static int run_cases(enum broken broken)
{
	size_t n, failed = 0, count = 0;
	const struct sim_case *cases = case_list(&n);

	for (size_t i = 0; i < n; i++) {
		int r;

		if (!cases[i].plan) /* run_case() says which tests show it instead */
			continue;
		r = run_case(&cases[i], broken, false);
		failed += r != 0;
		printf("%s %zu - %s\n", r ? "not ok" : "ok", ++count, cases[i].name);
	}
	printf("1..%zu\n", count);
	return failed != 0;
}

static int find_broken(const char *name, enum broken *ret_broken)
{
	for (int i = 0; i < BREAK_MAX; i++) {
		if (strcmp(name, "list") == 0 && i)
			puts(broken_names[i]);
		if (strcmp(name, broken_names[i]) == 0) {
			*ret_broken = (enum broken)i;
			return 0;
		}
	}
	return -1;
}

static int one_case(const char *name, enum broken broken, bool steps, bool must_violate)
{
	size_t n;
	const struct sim_case *cases = case_list(&n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(cases[i].name, name) == 0) {
			int r = run_case(&cases[i], broken, steps);

			puts(r ? "failed" : "passed");
			return (r != 0) != must_violate;
		}
	fprintf(stderr, "no case is called %s; --list names them\n", name);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"histories", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 's'}, {"case", required_argument, NULL, 'c'},
		{"cases", no_argument, NULL, 'C'}, {"list", no_argument, NULL, 'l'},
		{"break", required_argument, NULL, 'b'}, {"steps", no_argument, NULL, 'v'},
		{"digest", no_argument, NULL, 'd'}, {"table", no_argument, NULL, 't'},
		{"must-violate", no_argument, NULL, 'm'}, {"invariant", required_argument, NULL, 'i'},
		{"full", required_argument, NULL, 'f'}, {"leaders", no_argument, NULL, 'L'},
		{"gangs", no_argument, NULL, 'g'}, {"cards", no_argument, NULL, 'w'},
		{"replay", no_argument, NULL, 'r'}, {"record", required_argument, NULL, 'R'},
		{"play", required_argument, NULL, 'P'}, {"priorities", no_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'}, {0}};
	const char *day = getenv("RATION_SEED");
	uint64_t digest = 0xcbf29ce484222325ULL;
	uint64_t histories = 1000, seed = day ? strtoull(day, NULL, 10) * 1000000 : 1;
	enum broken broken = BREAK_NOTHING;
	bool steps = false, cases = false, table = false, must_violate = false;
	unsigned int what = 0;
	const char *name = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'n':
			histories = strtoull(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			name = optarg;
			break;
		case 'C':
			cases = true;
			break;
		case 'l':
			case_print_list();
			return 0;
		case 'b':
			if (find_broken(optarg, &broken) < 0)
				return strcmp(optarg, "list") == 0 ? 0 : 2;
			break;
		case 'v':
			steps = true;
			break;
		case 'd':
			steps = true;
			sim_digest = &digest;
			break;
		case 't':
			table = true;
			break;
		case 'm':
			must_violate = true;
			break;
		case 'i':
			sim_invariant = optarg;
			break;
		case 'f':
			if (getenv("RATION_FULL"))
				histories = strtoull(optarg, NULL, 10);
			break;
		case 'L':
			what |= DRAW_LEADERS;
			break;
		case 'g':
			what |= DRAW_GANGS;
			break;
		case 'w':
			what |= DRAW_GPUS;
			break;
		case 'r':
			sim_replays = true;
			break;
		case 'P': {
			FILE *file = fopen(optarg, "re");

			if (file)
				return recordings_play(file);
			perror(optarg);
			return 2;
		}
		case 'R':
			sim_replays = true;
			sim_recordings = fopen(optarg, "we");
			if (!sim_recordings) {
				perror(optarg);
				return 2;
			}
			break;
		case 'p':
			what |= DRAW_PRIORITIES;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fputs("Try 'simulation --help'.\n", stderr);
			return 2;
		}
	}
	if (name)
		return one_case(name, broken, steps, must_violate);
	if (cases)
		return run_cases(broken);
	return run_histories(histories, seed, what, broken, steps, table) != (must_violate ? 1 : 0);
}
