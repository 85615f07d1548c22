/* bench-load - sends the same kind of request again and again and tells how long the answers took, as one
 * line of JSON. In C, so that the tool measures the server and not itself. */
#include <curl/curl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define ANSWER_MAX (64 << 20)
#define BODIES_MAX (1u << 30)
#define THREADS_MAX 256

struct load {
	const char *url, *header;
	uint32_t calls, connections;
	char **bodies; /* call i sends the body i modulo n_bodies */
	size_t n_bodies;
	int64_t *took_ns; /* by call */
	atomic_uint next, failed;
	atomic_size_t answer_bytes; /* of the largest answer */
	char first_failure[300];
	atomic_flag told;
};

static const char help[] =
	"Usage: bench-load [--calls N] [--connections N] [--header TEXT] URL BODIES\n"
	"POSTs the lines of the file BODIES in turn, N times in all, and prints as JSON how long\n"
	"the answers took. A status other than 2xx, or an Error in the answer, is a failure.\n";

static size_t on_data(char *data, size_t size, size_t n, void *userdata)
{
	return strbuf_add(userdata, data, size * n) < 0 ? 0 : size * n;
}

static void load_fail(struct load *load, const char *what, const char *detail)
{
	load->failed++;
	if (!atomic_flag_test_and_set(&load->told))
		snprintf(load->first_failure, sizeof(load->first_failure), "%s: %.200s", what, detail);
}

/* An extender tells a failure in a 200: "Error" followed by anything but the empty string. */
static bool tells_an_error(const char *answer)
{
	const char *error = strstr(answer, "\"Error\":");

	return error && strncmp(error + 8, "\"\"", 2) != 0;
}

static void load_check(struct load *load, CURL *curl, CURLcode code, struct strbuf *answer)
{
	size_t largest = load->answer_bytes;
	long status = 0;

	if (code != CURLE_OK) {
		load_fail(load, "no answer", curl_easy_strerror(code));
		return;
	}
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (status / 100 != 2 || tells_an_error(strbuf_cstr(answer)))
		load_fail(load, "refused", strbuf_cstr(answer));
	while (answer->len > largest &&
		!atomic_compare_exchange_weak(&load->answer_bytes, &largest, answer->len))
		;
}

static CURL *connection_new(const struct load *load, struct curl_slist *headers, struct strbuf *answer)
{
	CURL *curl = curl_easy_init();

	if (!curl)
		return NULL;
	curl_easy_setopt(curl, CURLOPT_URL, load->url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
	/* The benchmark's API server has a certificate that it signed itself, and nothing secret is sent to
	 * another server. */
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	return curl;
}

static void *connection_run(void *userdata)
{
	struct load *load = userdata;
	/* "Expect:" empty: curl would ask before it sends a large body; Go's client does not. */
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	_cleanup_strbuf_ struct strbuf answer;
	CURL *curl;

	headers = curl_slist_append(headers, "Expect:");
	if (load->header)
		headers = curl_slist_append(headers, load->header);
	strbuf_init(&answer, ANSWER_MAX);
	curl = connection_new(load, headers, &answer);
	for (unsigned i = load->next++; curl && i < load->calls; i = load->next++) {
		const char *body = load->bodies[i % load->n_bodies];
		int64_t before;
		CURLcode code;

		strbuf_clear(&answer);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
		before = monotonic_ns();
		code = curl_easy_perform(curl);
		load->took_ns[i] = monotonic_ns() - before;
		load_check(load, curl, code, &answer);
	}
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	return NULL;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_json(struct load *load, int64_t all_ns)
{
	uint32_t n = load->calls;
	int64_t *ns = load->took_ns;

	qsort(ns, n, sizeof(*ns), compare_ns);
	for (char *p = load->first_failure; *p; p++)
		if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
			*p = '\'';
	printf("{\"calls\": %u, \"failed\": %u, \"seconds\": %.6f, \"answer_bytes\": %zu, \"p50\": %.6f, "
	       "\"p90\": %.6f, \"p99\": %.6f, \"max\": %.6f, \"failure\": \"%s\"}\n",
		n, load->failed, (double)all_ns / 1e9, load->answer_bytes, (double)ns[n / 2] / 1e6,
		(double)ns[(size_t)n * 90 / 100] / 1e6, (double)ns[(size_t)n * 99 / 100] / 1e6,
		(double)ns[n - 1] / 1e6, load->first_failure);
}

static int load_bodies(struct load *load, const char *path, char **ret_text)
{
	char *text, *line, *rest = NULL;
	size_t n = 1;

	if (fs_read(path, BODIES_MAX, &text, NULL) < 0)
		return -1;
	for (const char *p = text; *p; p++)
		n += *p == '\n';
	load->bodies = calloc(n, sizeof(*load->bodies));
	for (line = strtok_r(text, "\n", &rest); load->bodies && line; line = strtok_r(NULL, "\n", &rest))
		load->bodies[load->n_bodies++] = line;
	*ret_text = text;
	return load->n_bodies ? 0 : -1;
}

static int options_parse(int argc, char **argv, struct load *load)
{
	static const struct option known[] = {{"calls", required_argument, NULL, 'n'},
		{"connections", required_argument, NULL, 'c'}, {"header", required_argument, NULL, 'H'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int c, r = 0;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'n')
			r = parse_u32(optarg, 10000000, &load->calls);
		else if (c == 'c')
			r = parse_u32(optarg, THREADS_MAX, &load->connections);
		else if (c == 'H')
			load->header = optarg;
		else
			r = -1;
		if (r < 0)
			return r;
	}
	return optind + 2 == argc && load->calls && load->connections ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct load load = {.calls = 1000, .connections = 1, .told = ATOMIC_FLAG_INIT};
	pthread_t threads[THREADS_MAX];
	char *text = NULL;
	int64_t before;

	if (options_parse(argc, argv, &load) < 0) {
		fputs(help, stderr);
		return 2;
	}
	load.url = argv[optind];
	load.took_ns = calloc(load.calls, sizeof(*load.took_ns));
	if (!load.took_ns || load_bodies(&load, argv[optind + 1], &text) < 0) {
		fprintf(stderr, "bench-load: cannot read %s\n", argv[optind + 1]);
		return 1;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	before = monotonic_ns();
	for (uint32_t i = 0; i < load.connections; i++)
		if (pthread_create(&threads[i], NULL, connection_run, &load) != 0)
			return 1;
	for (uint32_t i = 0; i < load.connections; i++)
		pthread_join(threads[i], NULL);
	print_json(&load, monotonic_ns() - before);
	free(load.bodies);
	free(load.took_ns);
	free(text);
	return 0;
}
