/* kubectl.h - access to the API server through the user's own kubectl, so that every kind of credential
 * works. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/options.h"

struct error;
struct strbuf;

struct kubectl {
	const char *program;	   /* looked up on PATH if it has no slash */
	struct option_words flags; /* global flags to pass on, "--name=value" */
};

/* kubectl_init() - the program that $KUBECTL names, or "kubectl"; no flags. */
void kubectl_init(struct kubectl *kubectl);
void kubectl_release(struct kubectl *kubectl);

/* All functions below return a negative errno with a sentence if kubectl's configuration cannot be used, or
 * names no API server.
 *
 * kubectl_get_raw() - GET of a path of the API; appends the answer to body. kubectl keeps this process'
 * stdin. Its standard error is handled as in kubectl_run(), and the errors are in the sentence. */
int kubectl_get_raw(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err);

/* kubectl_stream_raw() - the same, piece by piece as it arrives. If fn returns a negative result, kubectl is
 * ended and the result is returned unchanged, without a sentence. */
typedef int kubectl_data_fn(void *userdata, const char *data, size_t len);
int kubectl_stream_raw(const struct kubectl *kubectl, const char *path, kubectl_data_fn *fn, void *userdata,
	struct error *err);

/* kubectl_start() - starts kubectl with its global flags and these arguments (NULL at the end); it ends when
 * this process ends. Its standard output and error are pipes to read. The caller closes them and waits for
 * the process. */
struct kubectl_process {
	pid_t pid;
	int out, complaints;
};
int kubectl_start(const struct kubectl *kubectl, const char *const *args, struct kubectl_process *ret_process,
	struct error *err);

/* kubectl_stop() - ends the process, if there is one, and closes its pipes. It takes up to 2 s if the process
 * ignores SIGTERM. */
void kubectl_stop(struct kubectl_process *process);

/* kubectl_run() - kubectl_start(), and waits for its end; standard output is appended to out. Its standard
 * error is passed on as it arrives, because it may be a prompt. Lines that begin with "Error" or "error" go
 * into complaints instead: the caller has a better sentence. Returns its exit status, or a negative errno. */
int kubectl_run(const struct kubectl *kubectl, const char *const *args, struct strbuf *out,
	struct strbuf *complaints, struct error *err);

/* kubectl_send() - kubectl_run() with a text on its standard input, at most KUBECTL_INPUT_MAX bytes. It is
 * for commands that read their input to its end, like `create --raw=PATH -f -`. */
#define KUBECTL_INPUT_MAX (60 * 1024)
int kubectl_send(const struct kubectl *kubectl, const char *const *args, const char *input,
	struct strbuf *out, struct strbuf *complaints, struct error *err);

/* complaints_take() - the part of kubectl_run() that sorts standard error: whole lines that are errors go
 * into complaints, everything else to this process' standard error. pending holds the incomplete line. */
void complaints_take(const char *text, size_t len, struct strbuf *pending, struct strbuf *complaints);
