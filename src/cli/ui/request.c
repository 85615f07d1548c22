#include "cli/ui/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "cli/pod.h"

size_t ui_request_end(const char *data, size_t len)
{
	const char *end = memmem(data, len, "\r\n\r\n", 4);

	return end ? (size_t)(end - data) + 4 : 0;
}

/* Only printable ASCII, blanks and the ends of lines. */
static bool is_text(const char *head, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool end = head[i] == '\r' && i + 1 < len && head[i + 1] == '\n';

		if (end)
			i++;
		else if (head[i] != '\t' && (head[i] < ' ' || head[i] > '~'))
			return false;
	}
	return true;
}

static char *cut_line(char **rest)
{
	char *line = *rest, *end = strstr(line, "\r\n");

	*end = '\0';
	*rest = end + 2;
	return line;
}

static int parse_first_line(char *line, struct ui_request *request)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL, *query;

	if (!version || strchr(line, '\t') ||
		(strcmp(version, " HTTP/1.1") != 0 && strcmp(version, " HTTP/1.0") != 0) ||
		target[1] != '/' || target == line)
		return -EINVAL;
	*target = *version = '\0';
	query = strchr(target + 1, '?');
	if (query)
		*query++ = '\0';
	request->method = line;
	request->path = target + 1;
	request->query = query ? query : "";
	return 0;
}

/* A second header of the same name is refused, because a browser or proxy could use the other value. */
static int set_once(const char **text, const char *value)
{
	if (*text)
		return -EINVAL;
	*text = value;
	return 0;
}

static int parse_header(char *line, struct ui_request *request)
{
	char *colon = strchr(line, ':'), *value;

	if (!colon || colon == line || strcspn(line, " \t") < (size_t)(colon - line))
		return -EINVAL;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	for (size_t n = strlen(value); n && strchr(" \t", value[n - 1]); n--)
		value[n - 1] = '\0';
	if (strcasecmp(line, "host") == 0)
		return set_once(&request->host, value);
	if (strcasecmp(line, "origin") == 0)
		return set_once(&request->origin, value);
	if (strcasecmp(line, "if-none-match") == 0)
		return set_once(&request->known, value);
	if (strcasecmp(line, "transfer-encoding") == 0 ||
		(strcasecmp(line, "content-length") == 0 && strcmp(value, "0") != 0))
		request->has_body = true;
	return 0;
}

int ui_request_parse(char *head, size_t len, struct ui_request *ret_request)
{
	char *rest = head;
	int r;

	*ret_request = (struct ui_request){0};
	if (!len || ui_request_end(head, len) != len || !is_text(head, len))
		return -EINVAL;
	head[len - 2] = '\0'; /* of the empty line; each other line has its own end */
	r = parse_first_line(cut_line(&rest), ret_request);
	while (r == 0 && *rest)
		r = parse_header(cut_line(&rest), ret_request);
	return r;
}

static bool is_host(const char *host, const struct ui_site *site)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text, sizeof(text), "%s:%u", names[i], site->port);
		if (strcasecmp(host, text) == 0)
			return true;
	}
	return false;
}

static bool is_origin(const char *origin, const struct ui_site *site)
{
	static const char scheme[] = "http://";

	return strncmp(origin, scheme, strlen(scheme)) == 0 && is_host(origin + strlen(scheme), site);
}

/* All digits are compared, so that the duration reveals nothing about the secret. */
static bool is_secret(const char *text, const char secret[UI_TOKEN_LEN + 1])
{
	unsigned char differs = 0;

	if (strlen(text) < UI_TOKEN_LEN || !*secret)
		return false;
	for (size_t i = 0; i < UI_TOKEN_LEN; i++)
		differs |= (unsigned char)(text[i] ^ secret[i]);
	return differs == 0;
}

unsigned ui_request_judge(const struct ui_request *request, const struct ui_site *site, const char **ret_name)
{
	const char *token = request->path + 1;

	if (!request->host || !is_host(request->host, site))
		return 403;
	if (request->origin && !is_origin(request->origin, site))
		return 403;
	if (is_secret(token, site->once) && !token[UI_TOKEN_LEN] && strcmp(request->method, "GET") == 0)
		return 303;
	if (!is_secret(token, site->token) || token[UI_TOKEN_LEN] != '/')
		return 403;
	if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
		return 405;
	if (request->has_body)
		return 413;
	*ret_name = token + UI_TOKEN_LEN + 1;
	return 0;
}

int ui_query_pod(const char *query, char *ret_namespace, char *ret_name)
{
	static const char key[] = "pod=";
	const char *text = strncmp(query, key, strlen(key)) == 0 ? query + strlen(key) : "";
	const char *slash = strchr(text, '/');

	if (!slash || slash - text > POD_NAME_MAX || strlen(slash + 1) > POD_NAME_MAX)
		return -EINVAL;
	memcpy(ret_namespace, text, (size_t)(slash - text));
	ret_namespace[slash - text] = '\0';
	strcpy(ret_name, slash + 1);
	return pod_name_is_valid(ret_namespace) && pod_name_is_valid(ret_name) ? 0 : -EINVAL;
}

int ui_query_nodes(const char *query, size_t max, const char **ret_nodes)
{
	static const char key[] = "nodes=";
	bool named = strncmp(query, key, strlen(key)) == 0;
	const char *at = named ? query + strlen(key) : query;
	char name[POD_NAME_MAX + 1];

	*ret_nodes = at;
	if (!*query)
		return 0;
	for (size_t n = 0, len; named && n < max; n++, at += len + 1) {
		len = strcspn(at, ",");
		if (len > POD_NAME_MAX)
			return -EINVAL;
		memcpy(name, at, len);
		name[len] = '\0';
		if (!pod_name_is_valid(name))
			return -EINVAL;
		if (!at[len])
			return 0;
	}
	return -EINVAL;
}

int ui_query_moment(const char *query, int64_t *ret_at_ms)
{
	static const char key[] = "at=";
	const char *text = strncmp(query, key, strlen(key)) == 0 ? query + strlen(key) : "";
	size_t len = strlen(text);

	if (!len || len > 15 || strspn(text, "0123456789") != len)
		return -EINVAL;
	*ret_at_ms = strtoll(text, NULL, 10);
	return 0;
}
