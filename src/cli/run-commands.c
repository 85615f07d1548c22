/* ration run, ration ps: execute ration-run. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/run-program.h"

#define EXIT_RUN_FAILURE 125 /* as in ration-run: differs from any status of the program that is run */

/* Makes the argv of ration-run: its name, the command, the other arguments. The caller frees it. */
static char **arguments_make(const char *command, int argc, char **argv)
{
	char **made = calloc((size_t)argc + 2, sizeof(*made));

	if (!made)
		return NULL;
	made[0] = (char *)"ration-run";
	made[1] = (char *)command;
	memcpy(made + 2, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	return made;
}

static int become(const char *command, int argc, char **argv)
{
	_cleanup_free_ char **arguments = arguments_make(command, argc, argv);
	struct error err = {"out of memory"};

	if (arguments)
		run_program_exec(arguments, &err);
	fprintf(stderr, "ration: %s\n", err.text);
	return EXIT_RUN_FAILURE;
}

int run_command(int argc, char **argv)
{
	return become("run", argc, argv);
}

int ps_command(int argc, char **argv)
{
	return become("ps", argc, argv);
}
