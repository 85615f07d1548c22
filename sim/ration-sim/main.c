#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/ration-sim/commands.h"

static const struct command {
	const char *name, *arguments, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"up",
		"DIR [--gpus SPEC | --gpus-file FILE] [--links MACHINE] [--driver-version V]\n"
		"                [--slice-us N] [--latency-ns N] [--jitter-percent N] [--seed N]",
		"make or update a driver tree", command_up},
	{"status", "DIR", "show cards, health and processes", command_status},
	{"fault",
		"DIR CARD xid N | lost | ecc | heal |\n"
		"                oom [TIMES] | slow CALL MS [TIMES] | fail CALL CODE [TIMES] | kill POINT [SKIP] | calm",
		"inject a fault, or repair the card", command_fault},
	{"set", "DIR [--slice-us N] [--latency-ns N] [--jitter-percent N] [--seed N]",
		"show how the cards pace work, after changing it", command_set},
	{"usage", "DIR [--json [--every MS]]", "show what each process did on each card", command_usage},
	{"hold", "DIR CARD MIB", "hold memory of a card, as a process would, until interrupted",
		command_hold},
	{"down", "DIR", "remove the tree", command_down},
};

static void usage(FILE *out)
{
	fprintf(out, "usage: ration-sim COMMAND ...\n\n"
		     "A simulated NVIDIA driver: cards without hardware, for tests and demonstrations.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-6s %s\n         %s\n", commands[i].name, commands[i].arguments,
			commands[i].summary);
	fprintf(out,
		"\nSPEC is COUNTxSIZEMiB[+...], as in 4x16160MiB+1x81559MiB. CARD is an index or a UUID.\n"
		"See ration-sim(1).\n");
}

int command_fail(const struct error *err)
{
	fprintf(stderr, "ration-sim: %s\n", err->text);
	return 1;
}

int command_misused(const char *command)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, command) == 0)
			fprintf(stderr, "usage: ration-sim %s %s\n", command, commands[i].arguments);
	return 2;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		usage(stderr);
		return 2;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		usage(stdout);
		return 0;
	}
	if (strcmp(name, "--version") == 0) {
		printf("ration-sim " RATION_VERSION "\n");
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
			printf("usage: ration-sim %s %s\n", name, commands[i].arguments);
			return 0;
		}
		return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "ration-sim: no command \"%.40s\"; try --help\n", name);
	return 2;
}
