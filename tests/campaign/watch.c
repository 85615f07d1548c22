/* campaign-watch TREE ROLE=MIB... - what the processes of each role hold of the simulated GPU 0, all at one
 * moment.
 *
 * A process's role is RATION_CAMPAIGN in the environment that it was started with. The table of the simulated
 * driver is read again if a process has taken memory meanwhile; memory that several processes of a role have
 * counts once, as it is on the GPU once.
 *
 * It looks each --every-us. On "mark" it prints a line of JSON about the time since the mark before. A
 * stretch above limit + 32 MiB is as long as this program saw it: of a gap in which it did not run itself, at
 * most 10 ms are counted. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim/state/claim.h"

#define ROLES_MAX 8
#define KNOWN_MAX 4096
#define STEP_BYTES (UINT64_C(32) << 20) /* what may be above the limit for a moment */
#define GAP_NS (10 * NS_PER_MS)
#define EVERY_MS 3
#define ATTEMPTS 8

struct role {
	char name[32];
	uint64_t limit, now, most;
	int64_t stretch_ns, longest_ns, above_ns;
	uint64_t stretch_most, longest_most;
	uint64_t holders[SIM_MAX_PROCESSES / 64];
};

static struct role roles[ROLES_MAX];
static unsigned role_count;
static struct known {
	pid_t pid;
	uint64_t start_ticks;
	int role;
} known[KNOWN_MAX];
static uint64_t samples;
static int64_t longest_gap_ns;

/* -1: none of ours, or it is ending. */
static int read_role(pid_t pid)
{
	static char text[65536];
	char path[40], word[64];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	size = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[size] = '\0';
	for (const char *at = text; at < text + size; at += strlen(at) + 1)
		for (unsigned i = 0; i < role_count; i++) {
			snprintf(word, sizeof(word), "RATION_CAMPAIGN=%s", roles[i].name);
			if (strcmp(at, word) == 0)
				return (int)i;
		}
	return -1;
}

/* By the slot's owner: the numbers of the dead come again, with another start. */
static int role_of(pid_t pid, uint64_t start_ticks)
{
	struct known *entry = &known[(unsigned)pid % KNOWN_MAX];
	int role;

	if (entry->pid == pid && entry->start_ticks == start_ticks)
		return entry->role;
	role = read_role(pid);
	if (role >= 0)
		*entry = (struct known){pid, start_ticks, role};
	return role;
}

static void count_all(const struct sim_processes *processes)
{
	struct sim_process_table *table = processes->table;

	for (size_t i = 0; i < sim_process_slots(table); i++) {
		struct sim_process *slot = &table->slots[i];
		pid_t pid = 0;
		int role;

		if (atomic_load(&slot->pid) == 0 || !sim_process_alive(processes, slot, &pid))
			continue;
		role = role_of(pid, slot->start_ticks);
		if (role < 0)
			continue;
		roles[role].now += sim_process_bytes(slot, 0);
		roles[role].holders[i / 64] |= UINT64_C(1) << i % 64;
	}
	for (size_t i = 0; i < sim_shared_slots(table); i++) {
		const struct sim_shared_memory *shared = &table->shared[i];

		if (atomic_load(&shared->id) == 0 || atomic_load(&shared->gpu) != 0)
			continue;
		for (unsigned r = 0; r < role_count; r++) {
			uint64_t held = 0;

			for (unsigned w = 0; w < SIM_MAX_PROCESSES / 64; w++)
				held |= atomic_load(&shared->holders[w]) & roles[r].holders[w];
			roles[r].now += held ? atomic_load(&shared->bytes) : 0;
		}
	}
}

static void judge(struct role *role, int64_t passed_ns)
{
	role->most = role->now > role->most ? role->now : role->most;
	if (role->now <= role->limit + STEP_BYTES) {
		role->stretch_ns = 0;
		role->stretch_most = 0;
		return;
	}
	role->stretch_most = role->now > role->stretch_most ? role->now : role->stretch_most;
	if (role->stretch_ns > 0)
		role->above_ns += passed_ns;
	role->stretch_ns += role->stretch_ns > 0 ? passed_ns : 1;
	if (role->stretch_ns > role->longest_ns) {
		role->longest_ns = role->stretch_ns;
		role->longest_most = role->stretch_most;
	}
}

/* A process may give memory back that another one takes before that one is counted. So the count is repeated
 * until nobody has taken anything meanwhile, ATTEMPTS times at most; the least is what all of them held at
 * most. */
static void count(const struct sim_processes *processes)
{
	uint64_t least[ROLES_MAX], version;

	memset(least, 0xff, sizeof(least));
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		for (unsigned i = 0; i < role_count; i++) {
			roles[i].now = 0;
			memset(roles[i].holders, 0, sizeof(roles[i].holders));
		}
		version = sim_claim_read(processes->table, 0);
		count_all(processes);
		if (sim_claim_read(processes->table, 0) == version)
			return;
		for (unsigned i = 0; i < role_count; i++)
			least[i] = roles[i].now < least[i] ? roles[i].now : least[i];
	}
	for (unsigned i = 0; i < role_count; i++)
		roles[i].now = least[i];
}

static void look(const struct sim_processes *processes)
{
	static int64_t before;
	int64_t now, gap;

	sim_lock(&processes->table->locks[0]);
	count(processes);
	sim_unlock(&processes->table->locks[0]);
	now = monotonic_ns();
	gap = before ? now - before : 0;
	before = now;
	samples++;
	longest_gap_ns = gap > longest_gap_ns ? gap : longest_gap_ns;
	for (unsigned i = 0; i < role_count; i++)
		judge(&roles[i], gap < GAP_NS ? gap : GAP_NS);
}

static void report(void)
{
	printf("{\"samples\": %llu, \"longestGapMs\": %.1f", (unsigned long long)samples,
		(double)longest_gap_ns / NS_PER_MS);
	for (unsigned i = 0; i < role_count; i++) {
		struct role *role = &roles[i];

		printf(", \"%s\": {\"limit\": %llu, \"now\": %llu, \"most\": %llu, \"longestMs\": %.1f, "
		       "\"longestMost\": %llu, \"aboveMs\": %.1f}",
			role->name, (unsigned long long)role->limit, (unsigned long long)role->now,
			(unsigned long long)role->most, (double)role->longest_ns / NS_PER_MS,
			(unsigned long long)role->longest_most, (double)role->above_ns / NS_PER_MS);
		role->most = role->longest_most = 0;
		role->longest_ns = role->above_ns = role->stretch_ns = 0;
	}
	puts("}");
	fflush(stdout);
	samples = 0;
	longest_gap_ns = 0;
}

int main(int argc, char **argv)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	struct sim_processes processes;
	char line[16];

	for (int i = 2; i < argc && role_count < ROLES_MAX; i++) {
		unsigned long long mib;

		if (sscanf(argv[i], "%31[^=]=%llu", roles[role_count].name, &mib) == 2)
			roles[role_count++].limit = mib << 20;
	}
	if (role_count == 0 || sim_processes_open(argv[1], &processes) < 0) {
		fprintf(stderr, "campaign-watch: started by tests/campaign/campaign\n");
		return 2;
	}
	for (;;) {
		look(&processes);
		if (poll(&in, 1, EVERY_MS) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		look(&processes);
		report();
	}
}
