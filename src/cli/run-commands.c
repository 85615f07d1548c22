/* ration run, ration ps: become ration-run, which opens the driver's libraries, as this static program
 * cannot. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/commands.h"

#define EXIT_RUN_FAILURE 125 /* as ration-run: told from any status of the program that is run */

/* argv of ration-run: its name, the command, the rest. The caller frees. */
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
	/* Installed, and in a build folder. */
	static const char *const places[] = {"../lib/ration", "../run", "."};
	_cleanup_free_ char **arguments = arguments_make(command, argc, argv);
	char self[PATH_MAX], path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (!arguments || n < 0) {
		fprintf(stderr, "ration: %s\n", arguments ? strerror(errno) : "out of memory");
		return EXIT_RUN_FAILURE;
	}
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%.3800s/%s/ration-run", self, places[i]);
		execv(path, arguments);
		if (errno != ENOENT)
			break;
	}
	fprintf(stderr, "ration: `ration %s` needs ration-run in %s/../lib/ration: %s\n", command, self,
		strerror(errno));
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
