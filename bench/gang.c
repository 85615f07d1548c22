/* How long the plan of a gang takes: 1,000 nodes of 8 GPUs, gangs of 64. Prints one line for each fill of
 * the cluster: how many members were placed, and the time of one plan, median and worst of 101. And what a
 * look costs that keeps GPUs for a gang that has waited too long in a full one: the first, one a second
 * later, and the one after which other GPUs are waited for.
 *
 *   build/bench/bench-gang [NODES [MEMBERS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "core/gang/gang.h"
#include "core/gang/gang-plan.h"
#include "core/registry/nomination.h"

#define ROUNDS 101
#define GPU_UNITS 16

/* Time on a processor: what else the machine does must not count. */
static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int fail(const char *what)
{
	fprintf(stderr, "bench-gang: %s\n", what);
	return 1;
}

static int add_node(struct ledger *ledger, unsigned number)
{
	struct node_facts facts;
	char name[16], uid[24];
	int r;

	node_facts_init(&facts);
	snprintf(name, sizeof(name), "n%04u", number);
	snprintf(uid, sizeof(uid), "uid-%s", name);
	facts.mode = GPU_MODE_SHARE;
	facts.unit_mib = 1024;
	facts.n_gpus = 8;
	for (int i = 0; i < 8; i++) {
		facts.gpus[i] = (struct gpu_facts){.index = i, .mib = GPU_UNITS << 10, .healthy = true};
		snprintf(facts.gpus[i].uuid, sizeof(facts.gpus[i].uuid), "GPU-%s-%d", name, i);
	}
	facts.name = name;
	facts.uid = uid;
	r = ledger_set_node(ledger, &facts);
	return r;
}

/* A pod of one container; its strings are never freed, the program is short. */
static struct pod_facts pod_of(unsigned number, uint32_t units)
{
	struct pod_facts pod;
	char text[16], quantity[16];

	pod_facts_init(&pod);
	snprintf(text, sizeof(text), "p%u", number);
	snprintf(quantity, sizeof(quantity), "%u", units);
	pod.uid = strdup(text);
	pod.name = strdup(text);
	pod.namespace_ = strdup("default");
	pod.owner = strdup("");
	pod.node = strdup("");
	request_add(&pod.request, "main", CONTAINER_MAIN, 0, quantity, NULL, NULL);
	return pod;
}

/* So that each GPU has `left` units free, but for every 97th, where it is twice as much. */
static int fill(struct ledger *ledger, unsigned nodes, uint32_t left)
{
	unsigned number = 0;

	for (unsigned i = 0; left < GPU_UNITS && i < nodes * 8; i++) {
		uint32_t free = i % 97 == 0 && 2 * left <= GPU_UNITS ? 2 * left : left;
		struct pod_facts pod = pod_of(1000000 + number++, GPU_UNITS - free);
		struct placement placement;
		char node[16], uuid[32];

		if (free == GPU_UNITS)
			continue;
		snprintf(node, sizeof(node), "n%04u", i / 8);
		snprintf(uuid, sizeof(uuid), "GPU-%s-%u", node, i % 8);
		placement_init(&placement);
		placement.unit_mib = 1024;
		if (placement_add(&placement, "main", uuid, GPU_UNITS - free, 0) < 0 ||
			ledger_reserve(ledger, &pod, node, &placement) < 0)
			return -1;
		placement_release(&placement);
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int measure(unsigned nodes, unsigned members, uint32_t left, uint32_t smallest, uint32_t largest)
{
	static struct pod_facts pods[GANG_SLOTS_MAX];
	static struct gang_slot slots[GANG_SLOTS_MAX];
	int64_t spent[ROUNDS];
	struct ledger ledger;
	int placed = 0;

	ledger_init(&ledger);
	for (unsigned i = 0; i < nodes; i++)
		if (add_node(&ledger, i) < 0)
			return fail("out of memory");
	if (fill(&ledger, nodes, left) < 0)
		return fail("cannot fill the GPUs");
	for (unsigned i = 0; i < members; i++) {
		pods[i] = pod_of(i, smallest + i % (largest - smallest + 1));
		slots[i] = (struct gang_slot){.pod = &pods[i]};
	}
	for (int i = 0; i < ROUNDS; i++) {
		int64_t began = cpu_ns();

		placed = gang_plan(&ledger, slots, members, members);
		spent[i] = cpu_ns() - began;
		gang_slots_release(slots, members);
	}
	qsort(spent, ROUNDS, sizeof(*spent), compare);
	printf("%u nodes, %u units free on a GPU, %u members of %u to %u: %d placed, p50 %.2f ms, max %.2f ms\n",
		nodes, left, members, smallest, largest, placed, (double)spent[ROUNDS / 2] / 1e6,
		(double)spent[ROUNDS - 1] / 1e6);
	ledger_release(&ledger);
	return placed < 0;
}

static int64_t look(struct gangs *gangs, struct ledger *ledger, int64_t now_s)
{
	int64_t began = cpu_ns();

	gangs_look(gangs, ledger, now_s * NS_PER_S, true);
	return cpu_ns() - began;
}

static int ask(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod, int64_t now_s)
{
	const char *node, *text, *name = "n0000";

	return gangs_filter(gangs, ledger, pod, &name, 1, now_s * NS_PER_S, &node, &text) == GANG_WAIT ? 0
												       : -1;
}

/* *ret_pod: one of them. */
static int wait_together(struct gangs *gangs, struct ledger *ledger, unsigned members, uint32_t units,
	struct pod_facts *ret_pod)
{
	for (unsigned i = 0; i < members; i++) {
		*ret_pod = pod_of(i, units);
		ret_pod->gang = strdup("g");
		ret_pod->gang_min = members;
		if (ledger_set_pod(ledger, ret_pod) < 0 ||
			gangs_see_pod(gangs, ledger, ret_pod, true, NS_PER_S) < 0)
			return -1;
	}
	return ask(gangs, ledger, ret_pod, 1);
}

static unsigned count_kept(const struct ledger *ledger)
{
	unsigned n = 0;

	list_for_each (item, &ledger->nominations)
		n++;
	return n;
}

static int measure_keeping(unsigned nodes, unsigned members, uint32_t units)
{
	const struct gang_rules rules = {.keep_after_ns = 300 * NS_PER_S, .timeout_ns = 60 * NS_PER_S};
	struct ledger ledger;
	struct requeue_list requeues;
	struct gangs gangs;
	struct pod_facts pod;
	int64_t first, again, others;

	ledger_init(&ledger);
	requeue_list_init(&requeues);
	gangs_init(&gangs, &rules, &requeues);
	for (unsigned i = 0; i < nodes; i++)
		if (add_node(&ledger, i) < 0)
			return fail("out of memory");
	if (fill(&ledger, nodes, 0) < 0 || wait_together(&gangs, &ledger, members, units, &pod) < 0)
		return fail("cannot fill the GPUs");
	look(&gangs, &ledger, 1);
	first = look(&gangs, &ledger, 301);
	again = look(&gangs, &ledger, 302);
	ask(&gangs, &ledger, &pod, 302); /* kube-scheduler asks at least every 5 minutes */
	for (int64_t s = 303; s < 602; s++)
		look(&gangs, &ledger, s);
	others = look(&gangs, &ledger, 602);
	printf("%u full nodes, kept for %u members of %u: %u GPUs; first %.1f ms, again %.1f ms, others %.1f ms\n",
		nodes, members, units, count_kept(&ledger), (double)first / 1e6, (double)again / 1e6,
		(double)others / 1e6);
	gangs_release(&gangs);
	requeue_list_release(&requeues);
	ledger_release(&ledger);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned nodes = argc > 1 ? (unsigned)atoi(argv[1]) : 1000,
		 members = argc > 2 ? (unsigned)atoi(argv[2]) : 64;

	if (!nodes || nodes > 9999 || !members || members > GANG_SLOTS_MAX)
		return fail("usage: bench-gang [NODES [MEMBERS]]");
	return measure(nodes, members, 16, 4, 4) || measure(nodes, members, 16, 1, 16) ||
	       measure(nodes, members, 4, 4, 4) || measure(nodes, members, 4, 1, 4) ||
	       measure(nodes, members, 4, 1, 8) || measure(nodes, members, 4, 5, 8) ||
	       measure(nodes, members, 4, 5, 5) || measure_keeping(nodes, members, 16) ||
	       measure_keeping(nodes, members, 5);
}
