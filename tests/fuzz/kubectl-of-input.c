#include "kubectl-of-input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/forward.h"
#include "cli/kubectl.h"
#include "cli/run-program.h"
#include "fuzz.h"

int __wrap_kubectl_get_raw(
	const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err);
int __wrap_kubectl_stream_raw(const struct kubectl *kubectl, const char *path, kubectl_data_fn *fn,
	void *userdata, struct error *err);
int __wrap_kubectl_run(const struct kubectl *kubectl, const char *const *args, struct strbuf *out,
	struct strbuf *complaints, struct error *err);
int __wrap_kubectl_send(const struct kubectl *kubectl, const char *const *args, const char *input,
	struct strbuf *out, struct strbuf *complaints, struct error *err);
int __wrap_kubectl_start(const struct kubectl *kubectl, const char *const *args,
	struct kubectl_process *ret_process, struct error *err);
int __wrap_forward_open(const struct kubectl *kubectl, const struct forward_target *target,
	struct forward *ret_forward, struct error *err);
int __wrap_forward_read(
	const struct forward *forward, const char *path, struct strbuf *body, struct error *err);
void __wrap_forward_close(struct forward *forward);
int __wrap_forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err);
int __wrap_run_program_exec(char *const *argv, struct error *err);
int __wrap_run_program_output(const char *command, struct strbuf *out, struct error *err);
int __wrap_usleep(useconds_t us);
unsigned __wrap_sleep(unsigned seconds);
int __wrap_fflush(FILE *file);
int __real_fflush(FILE *file);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static const char *rest;
static size_t left, n_calls, n_waits;
static int64_t waited_us;

void kubectl_answers(const char *text, size_t size)
{
	rest = text;
	left = size;
	n_calls = n_waits = 0;
}

size_t kubectl_calls(void)
{
	return n_calls;
}

/* What commands wait for passes by itself. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	*time = (struct timespec){
		.tv_sec = 1000000 + waited_us / 1000000, .tv_nsec = waited_us % 1000000 * 1000};
	return 0;
}

int __wrap_usleep(useconds_t us)
{
	waited_us += us;
	n_waits++;
	return 0;
}

unsigned __wrap_sleep(unsigned seconds)
{
	__wrap_usleep(seconds * 1000000);
	return 0;
}

/* After some rounds nobody reads any more what is printed again and again. libFuzzer flushes its own file. */
int __wrap_fflush(FILE *file)
{
	if (file != stdout)
		return __real_fflush(file);
	return n_waits > 3 ? EOF : 0;
}

/* The next piece; its first byte is taken from it. */
static char next(const char **ret_text, size_t *ret_len)
{
	size_t len = left ? strnlen(rest, left) : 0;
	char kind = len ? *rest : '\0';

	MUST(++n_calls < 20000);
	*ret_text = len ? rest + 1 : "";
	*ret_len = len ? len - 1 : 0;
	rest += len < left ? len + 1 : len;
	left -= len < left ? len + 1 : len;
	return kind;
}

/* Without a piece: no pods, and one node, which is another one each time, so that a command that shows what
 * has changed has something to show. NULL: there is no such thing. */
static const char *nothing(const char *path)
{
	static char text[400];
	bool is_list = strncmp(path, "/api/v1/nodes?", 14) == 0;

	if (strncmp(path, "/api/v1/pods?", 13) == 0)
		return "{\"kind\":\"PodList\",\"items\":[]}";
	if (!is_list && strncmp(path, "/api/v1/nodes/", 14) != 0)
		return NULL;
	snprintf(text, sizeof(text),
		"%s{\"metadata\":{\"uid\":\"u\",\"name\":\"n%zu\",\"labels\":{\"ack.node.gpu.schedule\":\"%"
		"s\"}},\"status\":{\"allocatable\":{\"aliyun.com/gpu-mem\":\"8\",\"aliyun.com/"
		"gpu-count\":\"1\"}}}%s",
		is_list ? "{\"kind\":\"NodeList\",\"items\":[" : "", n_calls,
		n_calls / 2 % 2 ? "share" : "topology", is_list ? "]}" : "");
	return text;
}

static int get(const char *path, const char **ret_text, size_t *ret_len, struct error *err)
{
	char kind = next(ret_text, ret_len);

	MUST(*path == '/' && !strpbrk(path, " \n\r\""));
	if (kind == 'o')
		return 0;
	if (!kind && (*ret_text = nothing(path))) {
		*ret_len = strlen(*ret_text);
		return 0;
	}
	*ret_text = *ret_text ? *ret_text : "there is no such thing";
	return error_set(err, kind == 'e' ? EIO : ENOENT, "%.200s", *ret_text);
}

int __wrap_kubectl_get_raw(
	const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err)
{
	const char *text;
	size_t len;
	int r = get(path, &text, &len, err);

	return r < 0 ? r : strbuf_add(body, text, len);
}

int __wrap_kubectl_stream_raw(const struct kubectl *kubectl, const char *path, kubectl_data_fn *fn,
	void *userdata, struct error *err)
{
	const char *text;
	size_t len, half;
	int r = get(path, &text, &len, err);

	half = len / 2;
	if (r == 0)
		r = fn(userdata, text, half);
	return r < 0 ? r : fn(userdata, text + half, len - half);
}

int __wrap_kubectl_run(const struct kubectl *kubectl, const char *const *args, struct strbuf *out,
	struct strbuf *complaints, struct error *err)
{
	const char *text;
	size_t len;
	char kind = next(&text, &len);

	MUST(args[0]);
	if (kind == 'f')
		return error_set(err, ENOENT, "there is no kubectl: %.100s", text);
	if (kind == 'o')
		return strbuf_add(out, text, len);
	if (kind != 'e')
		return strbuf_adds(complaints, "Error from server (NotFound): not found\n") < 0 ? -ENOMEM : 1;
	return strbuf_add(complaints, text, len) < 0 ? -ENOMEM : 1;
}

int __wrap_kubectl_send(const struct kubectl *kubectl, const char *const *args, const char *input,
	struct strbuf *out, struct strbuf *complaints, struct error *err)
{
	MUST(input && strlen(input) <= KUBECTL_INPUT_MAX);
	return __wrap_kubectl_run(kubectl, args, out, complaints, err);
}

int __wrap_kubectl_start(const struct kubectl *kubectl, const char *const *args,
	struct kubectl_process *ret_process, struct error *err)
{
	MUST(!"nothing is executed");
	return -EIO;
}

int __wrap_forward_open(const struct kubectl *kubectl, const struct forward_target *target,
	struct forward *ret_forward, struct error *err)
{
	MUST(target->pod && *target->pod && *target->pod != '-');
	*ret_forward = (struct forward){.target = *target, .process = {.out = -1, .complaints = -1}};
	return 0;
}

int __wrap_forward_read(
	const struct forward *forward, const char *path, struct strbuf *body, struct error *err)
{
	const char *text;
	size_t len;
	char kind = next(&text, &len);

	MUST(*path == '/' && !strpbrk(path, " \n\r"));
	return kind == 'o' ? strbuf_add(body, text, len) : error_set(err, EIO, "%.200s", text);
}

void __wrap_forward_close(struct forward *forward)
{
}

int __wrap_forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err)
{
	MUST(pod && *pod && *pod != '-');
	return __wrap_forward_read(NULL, path, body, err);
}

int __wrap_run_program_exec(char *const *argv, struct error *err)
{
	return error_set(err, ENOENT, "nothing is executed");
}

int __wrap_run_program_output(const char *command, struct strbuf *out, struct error *err)
{
	const char *text;
	size_t len;
	char kind = next(&text, &len);

	return kind == 'o' ? strbuf_add(out, text, len) : error_set(err, ENOENT, "%.200s", text);
}
