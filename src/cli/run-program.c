#include "cli/run-program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "cli/commands.h"

#define EXIT_NOT_FOUND 127
#define EXIT_RUN_FAILURE 125 /* as in ration-run: differs from any status of the program that is run */

#ifndef __linux__

static int needs_linux(const char *command, struct error *err)
{
	return error_set(err, ENOSYS,
		"`ration %s` needs Linux: on this machine ration has only the commands that ask a cluster",
		command);
}

int run_program_exec(char *const *argv, struct error *err)
{
	return needs_linux(argv[1], err);
}

int run_program_output(const char *command, struct strbuf *out, struct error *err)
{
	return needs_linux(command, err);
}

#else

int run_program_exec(char *const *argv, struct error *err)
{
	/* Relative to this program: in an installation, and in a build folder. */
	static const char *const places[] = {"../lib/ration", "../run", "."};
	char self[PATH_MAX], path[PATH_MAX];
	int r = fs_own_folder(self);

	if (r < 0)
		return error_set(err, -r, "/proc/self/exe: %s", strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%.3800s/%s/ration-run", self, places[i]);
		execv(path, argv);
		if (errno != ENOENT)
			break;
	}
	return error_set(err, errno, "`ration %s` needs ration-run in %.300s/../lib/ration: %s", argv[1],
		self, strerror(errno));
}

static void child(const char *command, int out)
{
	char *const argv[] = {(char *)"ration-run", (char *)command, NULL};
	struct error err = {""};
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(out, STDOUT_FILENO) < 0 || run_program_exec(argv, &err) < 0)
		fprintf(stderr, "ration: %s\n", err.text);
	_exit(EXIT_NOT_FOUND);
}

static int read_all(int fd, struct strbuf *out)
{
	char chunk[65536];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || strbuf_add(out, chunk, (size_t)n) < 0)
			return n < 0 ? -errno : out->failed;
	}
	return 0;
}

int run_program_output(const char *command, struct strbuf *out, struct error *err)
{
	int fds[2], status, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, errno, "cannot start ration-run: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		child(command, fds[1]);
	close(fds[1]);
	r = pid < 0 ? -errno : read_all(fds[0], out);
	close(fds[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return error_set(err, -r, "cannot ask ration-run: %s", strerror(-r));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0
		       ? 0
		       : error_set(err, EIO, "ration-run cannot tell which programs run");
}

#endif

/* ration run, ration ps: this process becomes ration-run. */
int run_command(int argc, char **argv)
{
	_cleanup_free_ char **arguments = calloc((size_t)argc + 2, sizeof(*arguments));
	struct error err = {"out of memory"};

	if (arguments) {
		arguments[0] = (char *)"ration-run";
		memcpy(arguments + 1, argv, (size_t)argc * sizeof(*argv));
		run_program_exec(arguments, &err);
	}
	fprintf(stderr, "ration: %s\n", err.text);
	return EXIT_RUN_FAILURE;
}
