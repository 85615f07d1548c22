/* request.h - the head of an HTTP request, and whether the server may answer it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UI_HEAD_MAX 8192 /* bytes of a request */
#define UI_TOKEN_LEN 32	 /* hexadecimal digits */

/* Texts are in the buffer that was parsed. */
struct ui_request {
	const char *method, *path;
	const char *query;  /* "" if the URL has no query */
	const char *host;   /* NULL: no such header */
	const char *origin; /* NULL: no such header */
	const char *known;  /* If-None-Match; NULL: no such header */
	bool has_body;
};

/* The server's URL: the port on 127.0.0.1, and the secret. */
struct ui_site {
	uint16_t port;
	char token[UI_TOKEN_LEN + 1];
	char once[UI_TOKEN_LEN + 1]; /* a secret that leads to the page once; "": it was used */
};

/* ui_request_end() - the length of the head that `data` begins with, including its empty line; 0 if it is not
 * complete. */
size_t ui_request_end(const char *data, size_t len);

/* ui_request_parse() - parses a complete head, in place. -EINVAL: it is not HTTP/1.0 or 1.1 by RFC 9112. */
int ui_request_parse(char *head, size_t len, struct ui_request *ret_request);

/* ui_request_judge() - 0: answer it; *ret_name is the path behind the token ("", "data"). 303: it asks for
 * the site's `once`, and may be sent to the page. Else the status of the refusal: 403 if Host, Origin or
 * token is not the site's, 405, 413. */
unsigned ui_request_judge(
	const struct ui_request *request, const struct ui_site *site, const char **ret_name);

/* ui_query_pod() - "pod=NAMESPACE/NAME" cut into two valid names, in buffers of POD_NAME_MAX + 1 bytes.
 * -EINVAL for everything else. */
int ui_query_pod(const char *query, char *ret_namespace, char *ret_name);

/* ui_query_nodes() - "nodes=A,B" or "": valid names of at most max nodes. *ret_nodes is the part behind "=".
 * -EINVAL for everything else. */
int ui_query_nodes(const char *query, size_t max, const char **ret_nodes);

/* ui_query_moment() - "at=MILLISECONDS", of Unix time. -EINVAL for everything else. */
int ui_query_moment(const char *query, int64_t *ret_at_ms);
