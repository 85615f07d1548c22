/* Requests to `ration ui`. */
#include "fuzz.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "cli/pod.h"
#include "cli/ui/request.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define ONCE "fedcba9876543210fedcba9876543210"

const unsigned int fuzz_rounds = 50000;
const char *const fuzz_words[] = {"GET /" TOKEN "/data HTTP/1.1\r\n", "/" TOKEN "/", "/" ONCE,
	"Host: 127.0.0.1:8123\r\n", "Host: localhost:8123\r\n", "Origin: http://127.0.0.1:8123\r\n",
	"\r\n\r\n", "\r\n", "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n",
	"If-None-Match: \"1\"\r\n", "HEAD ", "POST ", "why?pod=a/b", "use?nodes=a,b",
	"moment?at=1795755421100", " HTTP/1.0", "evil.example", "null", ":", " ", "\t", NULL};

/* A request that is answered has the secret and the names of the site, and asks for no change. */
static void check_answered(const struct ui_request *request, const char *name)
{
	MUST(strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0);
	MUST(strncmp(request->path, "/" TOKEN "/", strlen("/" TOKEN "/")) == 0);
	MUST(name == request->path + strlen("/" TOKEN "/"));
	MUST(strcasecmp(request->host, "127.0.0.1:8123") == 0 ||
		strcasecmp(request->host, "localhost:8123") == 0);
	MUST(!request->origin || strcasecmp(request->origin, "http://127.0.0.1:8123") == 0 ||
		strcasecmp(request->origin, "http://localhost:8123") == 0);
	MUST(!request->has_body);
}

/* They go to a child process, which cuts the text at its commas. */
static void check_nodes(const char *nodes, size_t max)
{
	char *copy = strdup(nodes), *rest = copy;
	size_t n = 0;

	for (char *name; *nodes && (name = strsep(&rest, ",")); n++)
		MUST(pod_name_is_valid(name));
	MUST(n <= max);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ui_site site = {.port = 8123, .token = TOKEN, .once = ONCE};
	char *text = fuzz_text(data, size), namespace_[POD_NAME_MAX + 1], pod[POD_NAME_MAX + 1];
	size_t len = ui_request_end(text, size);
	struct ui_request request;
	const char *name = NULL, *nodes;
	int64_t at_ms;
	unsigned status;

	MUST(len <= size);
	if (len && ui_request_parse(text, len, &request) == 0) {
		for (const char *p = request.path; *p; p++)
			MUST(isprint((unsigned char)*p) && *p != '?');
		status = ui_request_judge(&request, &site, &name);
		MUST(status == 0 || status == 303 || status == 403 || status == 405 || status == 413);
		if (status == 0)
			check_answered(&request, name);
		if (status == 303)
			MUST(strcmp(request.path, "/" ONCE) == 0);
		if (ui_query_pod(request.query, namespace_, pod) == 0)
			MUST(pod_name_is_valid(namespace_) && pod_name_is_valid(pod));
		if (ui_query_nodes(request.query, 3, &nodes) == 0)
			check_nodes(nodes, 3);
		if (ui_query_moment(request.query, &at_ms) == 0)
			MUST(at_ms >= 0 && at_ms < INT64_C(1000000000000000));
	}
	free(text);
	return 0;
}
