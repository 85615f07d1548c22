/* ration - a person's way to shared GPUs: what a cluster does with them, and programs on this machine. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/commands.h"

static int ration_inspect(int argc, char **argv)
{
	return inspect_command(argc, argv, "ration", "ration inspect");
}

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
	const char *help;
} commands[] = {
	{"run", run_command, "a program on this machine with so much of a card; needs no cluster"},
	{"ps", ps_command, "the programs that run so, with what they have of which card"},
	{"top", top_command, "what pods, or programs, use of their cards now, each second"},
	{"why", why_command, "why a pod is on its card, or on none: node by node, card by card"},
	{"set", set_command, "another amount of GPU memory for a pod that runs on a cgpu or core_mem node"},
	{"cordon", cordon_command, "no new pods on a GPU, because it is faulty; those there stay"},
	{"uncordon", cordon_command, "pods on that GPU again"},
	{"inspect", ration_inspect, "how much GPU memory of each card is allocated to whom"},
	{"doctor", doctor_command,
		"what is wrong with the cluster or this node, with the command that mends it"},
	{"history", history_command, "what the scheduler has recorded, to be replayed elsewhere"},
	{"replay", replay_command, "a recorded history again, each decision compared; needs no cluster"},
};

static void print_usage(FILE *to)
{
	fputs("Usage: ration COMMAND [ARGUMENT...]\n\n", to);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("  help       this text; `ration COMMAND --help` tells more\n"
	      "  --version  the version\n",
		to);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	const struct command *command = command_find(word);

	if (command)
		return command->run(argc - 1, argv + 1);
	if (is_one_of(word, "help", "--help", "-h")) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (is_one_of(word, "version", "--version", "-V")) {
		puts("ration " RATION_VERSION);
		return EXIT_SUCCESS;
	}
	if (*word)
		fprintf(stderr, "ration: there is no command of this name\n");
	print_usage(stderr);
	return EXIT_USAGE;
}
