#include "cli/kubectl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

#define STOP_MS 2000

void kubectl_init(struct kubectl *kubectl)
{
	const char *program = getenv("KUBECTL");

	*kubectl = (struct kubectl){.program = program && *program ? program : "kubectl"};
}

void kubectl_release(struct kubectl *kubectl)
{
	option_words_release(&kubectl->flags);
}

#define CHUNK (64 * 1024)
#define SAID_MAX (16u << 10)
#define ERRORS_MAX (64u << 10)

static int wait_for(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static char **argv_new(const struct kubectl *kubectl, const char *const *args)
{
	size_t n = 0, n_args = 0;
	char **argv;

	while (args[n_args])
		n_args++;
	argv = calloc(kubectl->flags.n + n_args + 2, sizeof(char *));
	if (!argv)
		return NULL;
	argv[n++] = (char *)kubectl->program;
	for (size_t i = 0; i < kubectl->flags.n; i++)
		argv[n++] = kubectl->flags.words[i];
	for (size_t i = 0; i < n_args; i++)
		argv[n++] = (char *)args[i];
	return argv;
}

/* Runs in the child. The child must not outlive this process, because a forwarded port would stay open
 * forever. */
static void child_exec(char **argv, int in, int out, int complaints, int failure, pid_t parent)
{
	sigset_t none;
	int r;

	/* A signal ends the child; `ration top` blocks signals and waits for them itself. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef __linux__ /* elsewhere the kubectl of a killed `ration top` runs until it writes */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
	if (getppid() == parent && (in < 0 || dup2(in, STDIN_FILENO) >= 0) && dup2(out, STDOUT_FILENO) >= 0 &&
		dup2(complaints, STDERR_FILENO) >= 0)
		execvp(argv[0], argv);
	r = errno;
	if (write(failure, &r, sizeof(r)) < 0)
		_exit(126);
	_exit(127);
}

static int not_started(const struct kubectl *kubectl, int errnum, struct error *err)
{
	if (errnum == ENOENT)
		return error_set(err, errnum,
			"%s was not found: install kubectl on PATH, or name it in the variable KUBECTL",
			kubectl->program);
	return error_set(err, errnum, "%s does not start: %s", kubectl->program, strerror(errnum));
}

/* in: the standard input of the process, -1 for that of this process. */
static int process_start(const struct kubectl *kubectl, const char *const *args, int in,
	struct kubectl_process *ret_process, struct error *err)
{
	_cleanup_free_ char **argv = argv_new(kubectl, args);
	int out[2] = {-1, -1}, complaints[2] = {-1, -1}, failure[2] = {-1, -1}, r = 0;
	pid_t parent = getpid(), pid = -1;

	if (!argv)
		return error_set(err, ENOMEM, "out of memory");
	if (pipe2(out, O_CLOEXEC) == 0 && pipe2(complaints, O_CLOEXEC) == 0 && pipe2(failure, O_CLOEXEC) == 0)
		pid = fork();
	if (pid < 0)
		r = errno;
	if (pid == 0)
		child_exec(argv, in, out[1], complaints[1], failure[1], parent);
	close_ptr(&out[1]);
	close_ptr(&complaints[1]);
	close_ptr(&failure[1]);
	if (pid > 0 && read(failure[0], &r, sizeof(r)) > 0)
		waitpid(pid, NULL, 0);
	close_ptr(&failure[0]);
	if (r != 0) {
		close_ptr(&out[0]);
		close_ptr(&complaints[0]);
		return not_started(kubectl, r, err);
	}
	*ret_process = (struct kubectl_process){.pid = pid, .out = out[0], .complaints = complaints[0]};
	return 0;
}

int kubectl_start(const struct kubectl *kubectl, const char *const *args, struct kubectl_process *ret_process,
	struct error *err)
{
	return process_start(kubectl, args, -1, ret_process, err);
}

/* A script in place of kubectl may ignore SIGTERM. */
void kubectl_stop(struct kubectl_process *process)
{
	/* This comes first, because a process that writes into a pipe may not react to the signal. */
	close_ptr(&process->out);
	close_ptr(&process->complaints);
	if (process->pid > 0) {
		kill(process->pid, SIGTERM);
		for (int ms = 0; waitpid(process->pid, NULL, WNOHANG) == 0; ms++) {
			if (ms == STOP_MS)
				kill(process->pid, SIGKILL);
			usleep(1000);
		}
	}
	*process = (struct kubectl_process){.pid = -1, .out = -1, .complaints = -1};
}

#define ERROR_WORD "error" /* "Error from server (Forbidden): ..." and "error: ..." */

/* Whether the beginning of the line that was read can be that of an error. */
static bool may_be_error(const char *line, size_t len)
{
	return strncasecmp(line, ERROR_WORD, len < strlen(ERROR_WORD) ? len : strlen(ERROR_WORD)) == 0;
}

/* As soon as a line can no longer become an error, it is passed on, byte by byte, because it may be a prompt.
 */
void complaints_take(const char *text, size_t len, struct strbuf *pending, struct strbuf *complaints)
{
	for (size_t i = 0; i < len; i++) {
		size_t before = pending->len;

		if (strbuf_add(pending, &text[i], 1) < 0) {
			strbuf_clear(pending);
			continue;
		}
		if (!may_be_error(pending->data, pending->len))
			fputs(may_be_error(pending->data, before) ? pending->data : pending->data + before,
				stderr);
		if (text[i] != '\n')
			continue;
		if (may_be_error(pending->data, pending->len))
			strbuf_adds(complaints, pending->data);
		strbuf_clear(pending);
	}
	fflush(stderr);
}

/* kubectl's standard error: the errors, and the beginning of the whole output. */
struct complaints {
	struct strbuf *errors;
	struct strbuf pending, said;
};

static void complaints_release(struct complaints *complaints)
{
	strbuf_release(&complaints->pending);
	strbuf_release(&complaints->said);
}

static int complaints_add(void *userdata, const char *text, size_t len)
{
	struct complaints *complaints = userdata;
	size_t room = SAID_MAX - complaints->said.len;

	strbuf_add(&complaints->said, text, len < room ? len : room);
	complaints_take(text, len, &complaints->pending, complaints->errors);
	return 0;
}

static int add_piece(void *userdata, const char *data, size_t len)
{
	return strbuf_add(userdata, data, len);
}

/* Passes fn what can be read now. *fd is -1 after the end. */
static int take_some(int *fd, char *chunk, kubectl_data_fn *fn, void *userdata)
{
	ssize_t n = read(*fd, chunk, CHUNK);

	if (n > 0)
		return fn(userdata, chunk, (size_t)n);
	if (n < 0 && errno != EINTR)
		return -errno;
	if (n == 0)
		*fd = -1;
	return 0;
}

/* Returns at the end of both pipes, or with the negative result of fn. */
static int take_all(const struct kubectl_process *process, kubectl_data_fn *fn, void *userdata,
	struct complaints *complaints)
{
	struct pollfd fds[] = {
		{.fd = process->out, .events = POLLIN}, {.fd = process->complaints, .events = POLLIN}};
	_cleanup_free_ char *chunk = malloc(CHUNK);
	int r = chunk ? 0 : -ENOMEM;

	while (r == 0 && (fds[0].fd >= 0 || fds[1].fd >= 0)) {
		if (poll(fds, 2, -1) < 0) {
			r = errno == EINTR ? 0 : -errno;
			continue;
		}
		if (fds[1].fd >= 0 && fds[1].revents)
			r = take_some(&fds[1].fd, chunk, complaints_add, complaints);
		if (r == 0 && fds[0].fd >= 0 && fds[0].revents)
			r = take_some(&fds[0].fd, chunk, fn, userdata);
	}
	if (complaints->pending.len && may_be_error(complaints->pending.data, complaints->pending.len))
		strbuf_addf(complaints->errors, "%s\n", complaints->pending.data);
	return r;
}

/* ---- failures that are not the API server's answer ---- */

#define WORDS_MAX 240

enum problem { PROBLEM_NONE, PROBLEM_CONFIG, PROBLEM_LOGIN, PROBLEM_NOWHERE, PROBLEM_UNREACHED };

/* The words of kubectl 1.36.3; the first match counts. */
static const struct {
	const char *words;
	enum problem problem;
} problems[] = {
	{"error: error loading config file", PROBLEM_CONFIG},
	{"error: stat ", PROBLEM_CONFIG}, /* the file of --kubeconfig */
	{"error: context \"", PROBLEM_CONFIG},
	{"error: cluster \"", PROBLEM_CONFIG},
	{"error: auth info \"", PROBLEM_CONFIG},
	{"error: cannot locate ", PROBLEM_CONFIG}, /* from `config view` */
	{"error: no configuration has been provided", PROBLEM_CONFIG},
	{"error: unable to read c", PROBLEM_CONFIG}, /* certificate-authority, client-cert, client-key */
	{"error: host must be a URL", PROBLEM_CONFIG},
	{"Error in configuration:", PROBLEM_CONFIG},
	{"Unable to connect to the server: getting credentials:", PROBLEM_CONFIG},
	{"(Unauthorized)", PROBLEM_LOGIN},
	{"The connection to the server localhost:8080 was refused",
		PROBLEM_NOWHERE}, /* the default address */
	{"The connection to the server ", PROBLEM_UNREACHED},
	{"Unable to connect to the server: ", PROBLEM_UNREACHED},
};

/* The value of a global flag; NULL if it was not given. */
static const char *flag_value(const struct kubectl *kubectl, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < kubectl->flags.n; i++)
		if (strncmp(kubectl->flags.words[i], name, len) == 0 && kubectl->flags.words[i][len] == '=')
			return kubectl->flags.words[i] + len + 1;
	return NULL;
}

static enum problem problem_find(const struct kubectl *kubectl, const char *said, const char **ret_words)
{
	for (size_t i = 0; i < ARRAY_SIZE(problems); i++) {
		*ret_words = strstr(said, problems[i].words);
		if (!*ret_words)
			continue;
		if (problems[i].problem == PROBLEM_NOWHERE && flag_value(kubectl, "--server"))
			return PROBLEM_UNREACHED;
		return problems[i].problem;
	}
	return PROBLEM_NONE;
}

static void file_text(const struct kubectl *kubectl, char *buf, size_t size)
{
	const char *flag = flag_value(kubectl, "--kubeconfig"), *variable = getenv("KUBECONFIG");

	if (flag)
		snprintf(buf, size, "--kubeconfig=%.200s", flag);
	else if (variable && *variable)
		snprintf(buf, size, "KUBECONFIG=%.200s", variable);
	else
		snprintf(buf, size, "~/.kube/config");
}

/* Copies the text up to the first empty line, as one line, without the word "error: " at its beginning. */
static void one_line(const char *words, char *buf, size_t size)
{
	const char *prefix = "error: ", *end = strstr(words, "\n\n");
	size_t n = 0, len = end ? (size_t)(end - words) : strlen(words);

	if (strncmp(words, prefix, strlen(prefix)) == 0) {
		words += strlen(prefix);
		len -= strlen(prefix);
	}
	for (size_t i = 0; i < len && n + 1 < size; i++) {
		bool blank = isspace((unsigned char)words[i]);

		if (!blank)
			buf[n++] = words[i];
		else if (n && buf[n - 1] != ' ')
			buf[n++] = ' ';
	}
	while (n && (buf[n - 1] == ' ' || buf[n - 1] == '?'))
		n--;
	buf[n] = '\0';
}

/* said: what kubectl wrote to its standard error before it failed. Returns a negative errno with a sentence
 * if kubectl's configuration cannot be used, or names no API server; 0 for another failure. */
static int kubectl_problem(const struct kubectl *kubectl, const char *said, struct error *err)
{
	const char *words = NULL;
	enum problem problem = problem_find(kubectl, said, &words);
	char file[240], line[WORDS_MAX];

	if (problem == PROBLEM_NONE)
		return 0;
	file_text(kubectl, file, sizeof(file));
	one_line(problem == PROBLEM_LOGIN ? said : words, line, sizeof(line));
	switch (problem) {
	case PROBLEM_CONFIG:
		return error_set(err, EINVAL,
			"kubectl cannot use its configuration (%s): %s; correct that file, or name another with --kubeconfig",
			file, line);
	case PROBLEM_LOGIN:
		return error_set(err, EACCES,
			"the API server does not accept the user of kubectl's configuration (%s): %s; log in again",
			file, line);
	case PROBLEM_NOWHERE:
		return error_set(err, EINVAL,
			"kubectl's configuration (%s) is missing or names no cluster, and nothing answers at kubectl's default, localhost:8080; name the right file with --kubeconfig",
			file);
	default:
		return error_set(err, EHOSTUNREACH,
			"the API server of kubectl's configuration (%s) does not answer: %s", file, line);
	}
}

/* ---- one call ---- */

/* Reads the output of the process to its end. Returns its exit status, or a negative errno: with a sentence
 * in err, or without one if fn returned it. */
static int process_finish(const struct kubectl *kubectl, struct kubectl_process *process, kubectl_data_fn *fn,
	void *userdata, struct strbuf *errors, struct error *err)
{
	_cleanup_(complaints_release) struct complaints complaints = {.errors = errors};
	int r, status = 0;

	strbuf_init(&complaints.pending, errors->max);
	strbuf_init(&complaints.said, SAID_MAX);
	r = take_all(process, fn, userdata, &complaints);
	if (r == 0) {
		r = wait_for(process->pid, &status);
		process->pid = -1;
	}
	kubectl_stop(process);
	if (r < 0)
		return r;
	if (WIFSIGNALED(status))
		return error_set(err, EIO, "%s was ended by signal %d", kubectl->program, WTERMSIG(status));
	r = WEXITSTATUS(status) ? kubectl_problem(kubectl, strbuf_cstr(&complaints.said), err) : 0;
	return r < 0 ? r : WEXITSTATUS(status);
}

static int get_failed(
	const struct kubectl *kubectl, const char *path, struct strbuf *errors, struct error *err)
{
	const char *reason = errors->len ? errors->data : "kubectl's message is above";
	bool forbidden = strcasestr(reason, "forbidden"), claims = strstr(path, "/apis/resource.k8s.io/");

	if (errors->len)
		errors->data[strcspn(errors->data, "\n")] = '\0';
	return error_set(err, EIO, "`%s get --raw '%.120s'` failed: %.220s%s", kubectl->program, path, reason,
		!forbidden ? ""
		: claims
			? ". ResourceSlices and the ResourceClaims of all namespaces must be readable (verb list)"
			: ". Nodes and pods of all namespaces must be readable (verbs get and list)");
}

int kubectl_stream_raw(const struct kubectl *kubectl, const char *path, kubectl_data_fn *fn, void *userdata,
	struct error *err)
{
	_cleanup_free_ char *raw = NULL;
	_cleanup_strbuf_ struct strbuf errors;
	struct kubectl_process process;
	int r;

	strbuf_init(&errors, ERRORS_MAX);
	if (asprintf(&raw, "--raw=%s", path) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = process_start(kubectl, (const char *const[]){"get", raw, NULL}, -1, &process, err);
	if (r == 0)
		r = process_finish(kubectl, &process, fn, userdata, &errors, err);
	return r > 0 ? get_failed(kubectl, path, &errors, err) : r;
}

int kubectl_get_raw(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err)
{
	int r = kubectl_stream_raw(kubectl, path, add_piece, body, err);

	if (r == -EMSGSIZE && body->failed)
		return error_set(
			err, EMSGSIZE, "the answer to %s is longer than %zu MiB", path, body->max >> 20);
	return r;
}

static int run_with_input(const struct kubectl *kubectl, const char *const *args, int in, struct strbuf *out,
	struct strbuf *complaints, struct error *err)
{
	struct kubectl_process process;
	int r = process_start(kubectl, args, in, &process, err);

	if (r < 0)
		return r;
	r = process_finish(kubectl, &process, add_piece, out, complaints, err);
	if (out->failed)
		return error_set(err, EIO, "no answer from %s: %s", kubectl->program, strerror(-out->failed));
	return r;
}

int kubectl_run(const struct kubectl *kubectl, const char *const *args, struct strbuf *out,
	struct strbuf *complaints, struct error *err)
{
	return run_with_input(kubectl, args, -1, out, complaints, err);
}

int kubectl_send(const struct kubectl *kubectl, const char *const *args, const char *input,
	struct strbuf *out, struct strbuf *complaints, struct error *err)
{
	_cleanup_close_ int reads = -1;
	size_t len = strlen(input);
	int in[2];
	ssize_t n;

	if (len > KUBECTL_INPUT_MAX)
		return error_set(err, EMSGSIZE, "the input of kubectl is too long (%zu bytes)", len);
	if (pipe2(in, O_CLOEXEC) < 0)
		return error_set(
			err, errno, "cannot create a pipe to %s: %s", kubectl->program, strerror(errno));
	reads = in[0];
	/* A pipe has room for 64 KiB (pipe(7)), so the whole input fits before kubectl reads. Pipes of a user
	 * with very many pipes have less room. Without O_NONBLOCK this process would then wait for kubectl,
	 * which is not started yet. */
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	n = write(in[1], input, len);
	close(in[1]);
	if (n < 0 || (size_t)n != len)
		return error_set(err, EIO, "%s cannot be given its input", kubectl->program);
	return run_with_input(kubectl, args, reads, out, complaints, err);
}
