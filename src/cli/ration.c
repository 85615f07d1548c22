/* ration - the program for users of shared GPUs: its subcommands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/options.h"

static int ration_inspect(int argc, char **argv)
{
	return inspect_command(argc, argv, &inspect_option_table, "ration");
}

/* The names are those of ration_option_table. */
static const struct {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} commands[] = {
	{"run", run_command},
	{"ps", run_command},
	{"top", top_command},
	{"why", why_command},
	{"plan", plan_command},
	{"advise", advise_command},
	{"set", set_command},
	{"cordon", cordon_command},
	{"uncordon", cordon_command},
	{"inspect", ration_inspect},
	{"ui", ui_command},
	{"doctor", doctor_command},
	{"history", history_command},
	{"replay", replay_command},
};

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, word) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (strcmp(word, "help") == 0) {
		options_help(&ration_option_table);
		return EXIT_SUCCESS;
	}
	if (strcmp(word, "version") == 0 || strcmp(word, "-V") == 0) {
		puts("ration " RATION_VERSION);
		return EXIT_SUCCESS;
	}
	return options_parse(&ration_option_table, argc, argv, NULL);
}
