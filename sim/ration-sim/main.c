#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/options.h"

/* The names are those of sim_option_table. */
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"up", command_up},
	{"status", command_status},
	{"fault", command_fault},
	{"set", command_set},
	{"usage", command_usage},
	{"hold", command_hold},
	{"down", command_down},
};

int command_fail(const struct error *err)
{
	fprintf(stderr, "ration-sim: %s\n", err->text);
	return 1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (strcmp(name, "help") == 0) {
		options_help(&sim_option_table);
		return 0;
	}
	return options_parse(&sim_option_table, argc, argv, NULL);
}
