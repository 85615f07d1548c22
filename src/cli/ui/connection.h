/* connection.h - one connection of a browser: a request, an answer, the end. There is one request for each
 * connection, so that a connection has no state that lasts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "cli/ui/request.h"
#include "cli/ui/task.h"

struct snapshot;

enum connection_state {
	CONNECTION_FREE,
	CONNECTION_READS, /* the request is not complete */
	CONNECTION_WANTS_DATA,
	CONNECTION_WANTS_WHY, /* `work` is `ration why` */
	CONNECTION_WANTS_HISTORY,
	CONNECTION_WANTS_MOMENT, /* `work` repeats the history */
	CONNECTION_WRITES,
	CONNECTION_ENDS, /* the answer is sent; waits for the peer's end, so that the answer is not lost */
};

struct connection {
	enum connection_state state;
	int fd;
	int64_t deadline_ns; /* of this state */
	char head[UI_HEAD_MAX];
	size_t head_len;
	bool wants_body;	/* false: the method is HEAD */
	uint64_t known_version; /* of the data, by If-None-Match; 0: the header is missing */
	struct strbuf header, own;
	struct snapshot *snapshot; /* the owner of `body`, unless that is `own` or part of the program */
	const char *body;
	size_t body_len, sent;
	struct task work;
};

void connection_open(struct connection *connection, int fd, int64_t now_ns);
void connection_close(struct connection *connection); /* harmless if it is free */

/* connection_read() - reads what has arrived. True: the head is complete, or the request is to be refused
 * (connection->state says WRITES then). Closes a connection whose peer is gone. */
bool connection_read(struct connection *connection, int64_t now_ns);

/* connection_reply() - begins to write an answer; `more` are header lines with their ends. The body belongs
 * to the program, or to connection->own, or to connection->snapshot. */
void connection_reply(struct connection *connection, unsigned status, const char *type, const char *more,
	const char *body, size_t len, int64_t now_ns);
void connection_reply_text(struct connection *connection, unsigned status, const char *text, int64_t now_ns);

/* connection_write() - writes what the socket takes. */
void connection_write(struct connection *connection, int64_t now_ns);
