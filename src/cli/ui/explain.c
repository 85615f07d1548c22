#include "cli/ui/explain.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/kubectl.h"

/* The process has only one terminal, so kubectl cannot ask for a password here: it has no standard input. */
int explain_run(void *userdata, int fd)
{
	const struct explain *explain = userdata;
	const struct option_words *flags = &explain->kubectl->flags;
	_cleanup_free_ char **argv = calloc(flags->n + 6, sizeof(char *));
	_cleanup_close_ int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int n = 0;

	if (!argv || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
		dup2(fd, STDERR_FILENO) < 0)
		return EXIT_FAILURE;
	argv[n++] = (char *)"why";
	for (size_t i = 0; i < flags->n; i++)
		argv[n++] = flags->words[i];
	argv[n++] = (char *)"-n";
	argv[n++] = (char *)explain->namespace_;
	argv[n++] = (char *)"--";
	argv[n++] = (char *)explain->name;
	return why_command(n, argv);
}
