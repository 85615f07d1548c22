#include "cli/kubectl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

#define FIXED_ARGS 4 /* program, get, --raw=, NULL */

extern char **environ;

void kubectl_init(struct kubectl *kubectl)
{
	const char *program = getenv("KUBECTL");

	*kubectl = (struct kubectl){.program = program && *program ? program : "kubectl"};
}

void kubectl_release(struct kubectl *kubectl)
{
	for (size_t i = 0; i < kubectl->n_flags; i++)
		free(kubectl->flags[i]);
	free(kubectl->flags);
	kubectl->flags = NULL;
	kubectl->n_flags = 0;
}

int kubectl_add_flag(struct kubectl *kubectl, const char *name, const char *value)
{
	char **grown = reallocarray(kubectl->flags, kubectl->n_flags + 1, sizeof(char *));
	char *flag;

	if (!grown)
		return -ENOMEM;
	kubectl->flags = grown;
	if (asprintf(&flag, "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
		return -ENOMEM;
	kubectl->flags[kubectl->n_flags++] = flag;
	return 0;
}

/* Start it with its standard output in a pipe; returns the end to read. */
static int kubectl_spawn(const struct kubectl *kubectl, char **argv, pid_t *ret_pid, struct error *err)
{
	_cleanup_close_ int read_end = -1, write_end = -1;
	posix_spawn_file_actions_t actions;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "no pipe to %s: %s", kubectl->program, strerror(errno));
	read_end = ends[0];
	write_end = ends[1];
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
		if (r == 0)
			r = posix_spawnp(ret_pid, kubectl->program, &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	if (r == ENOENT)
		return error_set(err, r,
			"%s is not there: install kubectl on PATH, or name it in the variable KUBECTL",
			kubectl->program);
	if (r != 0)
		return error_set(err, r, "%s does not start: %s", kubectl->program, strerror(r));
	return TAKE_FD(&read_end);
}

static int read_all(int fd, struct strbuf *body)
{
	char chunk[65536];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = strbuf_add(body, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

static int wait_for(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int kubectl_result(const struct kubectl *kubectl, const char *path, int status, struct error *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return error_set(err, EIO, "%s was ended by signal %d", kubectl->program, WTERMSIG(status));
	return error_set(err, EIO,
		"%s ended with status %d (its reason is above). Try the same by hand: %s get --raw '%s'. "
		"Nodes and "
		"pods of all namespaces must be readable (verbs get and list).",
		kubectl->program, WEXITSTATUS(status), kubectl->program, path);
}

int kubectl_get_raw(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err)
{
	_cleanup_free_ char **argv = calloc(kubectl->n_flags + FIXED_ARGS, sizeof(char *));
	_cleanup_free_ char *raw = NULL;
	_cleanup_close_ int fd = -1;
	int r, reaped, status;
	size_t n = 0;
	pid_t pid;

	if (!argv || asprintf(&raw, "--raw=%s", path) < 0)
		return error_set(err, ENOMEM, "out of memory");
	argv[n++] = (char *)kubectl->program;
	for (size_t i = 0; i < kubectl->n_flags; i++)
		argv[n++] = kubectl->flags[i];
	argv[n++] = (char *)"get";
	argv[n] = raw;
	fd = kubectl_spawn(kubectl, argv, &pid, err);
	if (fd < 0)
		return fd;
	r = read_all(fd, body);
	if (r < 0)
		kill(pid, SIGTERM);
	reaped = wait_for(pid, &status);
	if (r == -EMSGSIZE)
		return error_set(
			err, EMSGSIZE, "the answer to %s is longer than %zu MiB", path, body->max >> 20);
	if (r < 0 || reaped < 0)
		return error_set(err, r < 0 ? -r : -reaped, "no answer from %s: %s", kubectl->program,
			strerror(r < 0 ? -r : -reaped));
	return kubectl_result(kubectl, path, status, err);
}
