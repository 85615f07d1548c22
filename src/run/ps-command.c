/* ration ps: which runs exist, with their grants. */
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/shares.h"
#include "run/commands.h"
#include "run/options.h"
#include "run/registry.h"

#define MIB (UINT64_C(1) << 20)

struct table {
	bool head_printed;
};

static const char *user_name(uid_t uid, char buffer[16])
{
	const struct passwd *user = getpwuid(uid);

	snprintf(buffer, 16, "%u", uid);
	return user ? user->pw_name : buffer;
}

/* A program's arguments may contain control sequences of terminals. */
static void print_text(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
	putchar('\n');
}

static int print_run(void *context, const struct run_seen *run)
{
	struct table *table = context;
	char number[16], used[32], core[16];

	if (!table->head_printed)
		printf("%-8s %-10s %-4s %10s %10s %5s  %s\n", "PID", "USER", "GPU", "GRANTED", "USED", "CORE",
			"PROGRAM");
	table->head_printed = true;
	for (unsigned i = 0; i < run->grant->gpu_count; i++) {
		uint64_t share;

		snprintf(used, sizeof(used), "%" PRIu64 "MiB", run->used_bytes[i] / MIB);
		/* "-": the computing power is not controlled. */
		share = atomic_load(&run->grant->live[i].core_share);
		if (share == 0)
			strcpy(core, "-");
		else
			snprintf(core, 16, "%u%%",
				(unsigned)((share + SHARE_WHOLE / 200) * 100 / SHARE_WHOLE));
		printf("%-8d %-10s %-4s %7" PRIu64 "MiB %10s %5s  ", (int)run->pid,
			user_name(run->uid, number), run->labels[i],
			grant_file_limit_bytes(run->grant, i) / MIB, run->usage_known ? used : "-", core);
		print_text(i ? "" : run->grant->container);
	}
	return 0;
}

static int list_runs(void)
{
	_cleanup_registry_ struct registry registry;
	struct table table = {0};
	struct error err = {""};

	if (registry_open(&registry, false, &err) < 0) {
		fprintf(stderr, "ration ps: %s\n", err.text);
		return EXIT_FAILURE;
	}
	registry_each(&registry, print_run, &table);
	if (!table.head_printed)
		puts("No program runs under a grant of `ration run`.");
	return EXIT_SUCCESS;
}

int ps_command(int argc, char **argv)
{
	int r = options_parse(&ps_option_table, argc, argv, NULL);

	return r >= 0 ? r : list_runs();
}
