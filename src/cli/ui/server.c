#include "cli/ui/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/kubectl.h"
#include "cli/pod.h"
#include "cli/printable.h"
#include "cli/top-cluster.h"
#include "cli/ui/connection.h"
#include "cli/ui/data.h"
#include "cli/ui/past.h"
#include "cli/ui/source.h"
#include "cli/ui/use.h"
#include "kube/json.h"

#define CONNECTIONS_MAX 32
#define EXPLANATIONS_MAX 4 /* a kubectl each, or three */
#define EXPLANATION_MAX_NS (60 * NS_PER_S)
#define MOMENTS_MAX 2 /* a copy of the history each */
#define MOMENT_MAX_NS (60 * NS_PER_S)
#define DATA_MAX_NS (150 * NS_PER_S)
#define ANSWER_MAX (32u << 20)

struct ui_server {
	int fd;
	struct ui_site site;
	struct source source;
	struct use use;
	struct past past;
	const struct kubectl *kubectl;
	struct connection connections[CONNECTIONS_MAX];
};

/* ---- answers ---- */

static const struct file {
	const char *name, *type, *text;
	const size_t *len;
} files[] = {
	{"", "text/html", ui_page_html, &ui_page_html_len},
	{"page.css", "text/css", ui_page_css, &ui_page_css_len},
	{"page.js", "text/javascript", ui_page_js, &ui_page_js_len},
};

static void reply_data(struct ui_server *server, struct connection *connection, int64_t now_ns)
{
	struct snapshot *latest = server->source.latest;
	char more[96];

	snprintf(more, sizeof(more), "ETag: \"%llu\"\r\nAge: %lld\r\n", (unsigned long long)latest->version,
		(long long)((now_ns - server->source.read_ns) / NS_PER_S));
	connection->snapshot = snapshot_ref(latest);
	if (!latest->version)
		connection_reply(connection, 502, "application/json", "", strbuf_cstr(&latest->text),
			latest->text.len, now_ns);
	else
		connection_reply(connection, latest->version == connection->known_version ? 304 : 200,
			"application/json", more, strbuf_cstr(&latest->text), latest->text.len, now_ns);
}

static void ask_data(
	struct ui_server *server, struct connection *connection, const char *known, int64_t now_ns)
{
	unsigned long long version;

	if (known && sscanf(known, "\"%19llu\"", &version) == 1)
		connection->known_version = version;
	if (source_is_fresh(&server->source, now_ns)) {
		reply_data(server, connection, now_ns);
		return;
	}
	if (source_begin(&server->source, now_ns) < 0) {
		connection_reply_text(connection, 503, "No process can be started.\n", now_ns);
		return;
	}
	connection->state = CONNECTION_WANTS_DATA;
	connection->deadline_ns = now_ns + DATA_MAX_NS;
}

static void reply_own(struct connection *connection, unsigned status, int64_t now_ns)
{
	const struct strbuf *own = &connection->own;

	connection_reply(connection, status, "application/json", "", strbuf_cstr(own), own->len, now_ns);
}

static void reply_error(struct connection *connection, unsigned status, const char *text, int64_t now_ns)
{
	struct strbuf *own = &connection->own;

	strbuf_adds(own, "{\"error\": ");
	json_add_string(own, text);
	strbuf_adds(own, "}\n");
	reply_own(connection, status, now_ns);
}

static size_t count(const struct ui_server *server, enum connection_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		n += server->connections[i].state == state;
	return n;
}

static void ask_use(
	struct ui_server *server, struct connection *connection, const char *query, int64_t now_ns)
{
	char machine[POD_NAME_MAX + 1];
	const char *nodes;

	if (!server->kubectl)
		nodes = ui_runs_node(machine, sizeof(machine));
	else if (ui_query_nodes(query, TOP_AGENTS_MAX, &nodes) < 0) {
		connection_reply_text(connection, 400, "Ask for ?nodes=A,B, at most 32.\n", now_ns);
		return;
	}
	if (*nodes && use_ask(&server->use, nodes, now_ns) < 0) {
		connection_reply_text(connection, 503, "No process can be started.\n", now_ns);
		return;
	}
	use_json(&server->use, now_ns, &connection->own);
	reply_own(connection, 200, now_ns);
}

/* `ration why` for one pod. */
struct explain {
	const struct kubectl *kubectl;
	const char *namespace_, *name;
};

/* A task_fn. The process has only one terminal, so kubectl cannot ask for a password here: it has no standard
 * input. */
static int explain_run(void *userdata, int fd)
{
	const struct explain *explain = userdata;
	const struct option_words *flags = &explain->kubectl->flags;
	_cleanup_free_ char **argv = calloc(flags->n + 6, sizeof(char *));
	_cleanup_close_ int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int n = 0;

	if (!argv || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
		dup2(fd, STDERR_FILENO) < 0)
		return EXIT_FAILURE;
	argv[n++] = (char *)"why";
	for (size_t i = 0; i < flags->n; i++)
		argv[n++] = flags->words[i];
	argv[n++] = (char *)"-n";
	argv[n++] = (char *)explain->namespace_;
	argv[n++] = (char *)"--";
	argv[n++] = (char *)explain->name;
	return why_command(n, argv);
}

static void ask_why(
	struct ui_server *server, struct connection *connection, const char *query, int64_t now_ns)
{
	char namespace_[POD_NAME_MAX + 1], name[POD_NAME_MAX + 1];
	struct explain explain = {.kubectl = server->kubectl, .namespace_ = namespace_, .name = name};

	if (!server->kubectl) {
		connection_reply_text(connection, 404, "This page has no pods.\n", now_ns);
		return;
	}
	if (ui_query_pod(query, namespace_, name) < 0) {
		connection_reply_text(connection, 400, "Ask for ?pod=NAMESPACE/NAME.\n", now_ns);
		return;
	}
	if (count(server, CONNECTION_WANTS_WHY) >= EXPLANATIONS_MAX ||
		task_start(&connection->work, explain_run, &explain, ANSWER_MAX, EXPLANATION_MAX_NS) < 0) {
		reply_error(connection, 503, "ration ui asks for other pods already: ask again.", now_ns);
		return;
	}
	connection->state = CONNECTION_WANTS_WHY;
	connection->deadline_ns = connection->work.deadline_ns + NS_PER_S;
}

static void take_why(struct connection *connection, int64_t now_ns)
{
	struct strbuf *own = &connection->own;
	int status = 0, r = task_read(&connection->work, now_ns, &status);
	bool good = r == 1 && status == 0;

	if (r == 0)
		return;
	strbuf_adds(own, good ? "{\"text\": " : "{\"error\": ");
	json_add_string(own, r == 1	       ? strbuf_cstr(&connection->work.out)
			     : r == -ETIMEDOUT ? "`ration why` has not ended within a minute."
					       : "`ration why` has broken off.");
	strbuf_adds(own, "}\n");
	task_stop(&connection->work);
	reply_own(connection, good ? 200 : 502, now_ns);
}

/* ---- the past ---- */

static void ask_history(struct ui_server *server, struct connection *connection, int64_t now_ns)
{
	if (!server->kubectl)
		reply_error(connection, 404, "Programs of this machine have no history.", now_ns);
	else if (past_begin(&server->past) < 0)
		reply_error(connection, 503, "No process can be started.", now_ns);
	else {
		connection->state = CONNECTION_WANTS_HISTORY;
		connection->deadline_ns = now_ns + DATA_MAX_NS;
	}
}

static void reply_history(struct ui_server *server, struct connection *connection, int64_t now_ns)
{
	const struct past *past = &server->past;

	if (past->problem[0]) {
		reply_error(connection, 502, past->problem, now_ns);
		return;
	}
	strbuf_addf(&connection->own, "{\"from\": %lld, \"to\": %lld}\n", (long long)past->from_ms,
		(long long)past->to_ms);
	reply_own(connection, 200, now_ns);
}

struct moment {
	const struct strbuf *history;
	int64_t at_ms;
};

/* A task_fn. Status 1: what is written is a sentence. */
static int show_moment(void *userdata, int fd)
{
	const struct moment *moment = userdata;
	_cleanup_strbuf_ struct strbuf out;
	struct error err = {""};
	int r;

	strbuf_init(&out, UI_DATA_MAX);
	r = ui_moment_json(moment->history, moment->at_ms, &out, &err);
	if (r < 0)
		ui_write_all(fd, err.text, strlen(err.text));
	else
		r = ui_write_all(fd, out.data, out.len);
	return r < 0;
}

static void ask_moment(
	struct ui_server *server, struct connection *connection, const char *query, int64_t now_ns)
{
	const struct past *past = &server->past;
	struct moment moment = {.history = &past->text};

	if (ui_query_moment(query, &moment.at_ms) < 0)
		connection_reply_text(
			connection, 400, "Ask for ?at=TIME, in milliseconds since 1970.\n", now_ns);
	else if (!past->text.len)
		reply_error(connection, 404, "No history was read yet.", now_ns);
	else if (moment.at_ms < past->from_ms)
		reply_error(connection, 404, "The history does not go back that far.", now_ns);
	else if (count(server, CONNECTION_WANTS_MOMENT) >= MOMENTS_MAX ||
		 task_start(&connection->work, show_moment, &moment, UI_DATA_MAX, MOMENT_MAX_NS) < 0)
		reply_error(connection, 503, "ration ui shows other moments already: ask again.", now_ns);
	else {
		connection->state = CONNECTION_WANTS_MOMENT;
		connection->deadline_ns = connection->work.deadline_ns + NS_PER_S;
	}
}

static void take_moment(struct connection *connection, int64_t now_ns)
{
	struct task *work = &connection->work;
	int status = 0, r = task_read(work, now_ns, &status);

	if (r == 0)
		return;
	if (r == 1 && status == 0) {
		connection->own = work->out;
		strbuf_init(&work->out, 0);
		reply_own(connection, 200, now_ns);
	} else {
		reply_error(connection, 502,
			r == 1 && work->out.len ? printable(work->out.data)
						: "the process that repeats the history has ended",
			now_ns);
	}
	task_stop(work);
}

/* Answers the first request of the browser that `ration ui` has started: sends it to the page. */
static void lead_to_page(struct ui_server *server, struct connection *connection, int64_t now_ns)
{
	char more[64 + UI_TOKEN_LEN];

	server->site.once[0] = '\0';
	snprintf(more, sizeof(more), "Location: /%s/\r\n", server->site.token);
	connection_reply(connection, 303, "text/plain", more, "", 0, now_ns);
}

static void answer(struct ui_server *server, struct connection *connection, int64_t now_ns)
{
	struct ui_request request;
	const char *name = NULL;
	unsigned status = 400;
	size_t len = ui_request_end(connection->head, connection->head_len);

	if (ui_request_parse(connection->head, len, &request) == 0) {
		status = ui_request_judge(&request, &server->site, &name);
		connection->wants_body = strcmp(request.method, "HEAD") != 0;
	}
	if (status == 303) {
		lead_to_page(server, connection, now_ns);
		return;
	}
	if (status) {
		connection_reply_text(connection, status, "This request is refused.\n", now_ns);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strcmp(name, files[i].name) == 0) {
			connection_reply(
				connection, 200, files[i].type, "", files[i].text, *files[i].len, now_ns);
			return;
		}
	if (strcmp(name, "data") == 0)
		ask_data(server, connection, request.known, now_ns);
	else if (strcmp(name, "why") == 0)
		ask_why(server, connection, request.query, now_ns);
	else if (strcmp(name, "use") == 0)
		ask_use(server, connection, request.query, now_ns);
	else if (strcmp(name, "history") == 0)
		ask_history(server, connection, now_ns);
	else if (strcmp(name, "moment") == 0)
		ask_moment(server, connection, request.query, now_ns);
	else
		connection_reply_text(connection, 404, "There is no such page.\n", now_ns);
}

/* ---- connections ---- */

/* A slot for a new connection. If all are taken, the connection that has been silent longest gives way to it:
 * one whose request is not complete, or whose peer does not close it after the answer. NULL: all are being
 * answered. */
static struct connection *slot_find(struct ui_server *server)
{
	struct connection *oldest = NULL;

	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *connection = &server->connections[i];

		if (connection->state == CONNECTION_FREE)
			return connection;
		if ((connection->state == CONNECTION_READS || connection->state == CONNECTION_ENDS) &&
			(!oldest || connection->deadline_ns < oldest->deadline_ns))
			oldest = connection;
	}
	return oldest;
}

static void accept_one(struct ui_server *server, int64_t now_ns)
{
	int fd = accept(server->fd, NULL, NULL);
	struct connection *connection = fd < 0 ? NULL : slot_find(server);

	if (fd < 0)
		return;
	if (!connection || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		close(fd);
		return;
	}
#ifdef SO_NOSIGPIPE /* macOS has this in place of MSG_NOSIGNAL */
	setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
	connection_close(connection);
	connection_open(connection, fd, now_ns);
}

static void serve(struct ui_server *server, struct connection *connection, short events, int64_t now_ns)
{
	if (events && connection->state == CONNECTION_WRITES)
		connection_write(connection, now_ns);
	else if (events && connection->state != CONNECTION_FREE && connection_read(connection, now_ns))
		answer(server, connection, now_ns);
	if (connection->state == CONNECTION_WANTS_WHY)
		take_why(connection, now_ns);
	if (connection->state == CONNECTION_WANTS_MOMENT)
		take_moment(connection, now_ns);
	if (connection->state != CONNECTION_FREE && now_ns >= connection->deadline_ns)
		connection_close(connection);
}

/* What poll() waits for: the listening socket, the reading of the cluster, the measuring, the reading of the
 * history; and for each connection its socket and its child process. */
#define FDS_OWN 4
#define FDS_MAX (FDS_OWN + 2 * CONNECTIONS_MAX)
#define TICK_MS 500

static void fds_fill(struct ui_server *server, struct pollfd fds[FDS_MAX])
{
	fds[0] = (struct pollfd){.fd = slot_find(server) ? server->fd : -1, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = server->source.task.fd, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = server->use.task.fd, .events = POLLIN};
	fds[3] = (struct pollfd){.fd = server->past.task.fd, .events = POLLIN};
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		const struct connection *connection = &server->connections[i];
		bool open = connection->state != CONNECTION_FREE;

		fds[FDS_OWN + 2 * i] = (struct pollfd){.fd = open ? connection->fd : -1,
			.events = connection->state == CONNECTION_WRITES ? POLLOUT : POLLIN};
		fds[FDS_OWN + 1 + 2 * i] = (struct pollfd){
			.fd = open ? connection->work.fd : -1, .events = POLLIN};
	}
}

typedef void reply_fn(struct ui_server *server, struct connection *connection, int64_t now_ns);
static void reply_all(struct ui_server *server, enum connection_state state, reply_fn *reply, int64_t now_ns)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (server->connections[i].state == state)
			reply(server, &server->connections[i], now_ns);
}

int ui_server_run(struct ui_server *server, struct error *err)
{
	struct pollfd fds[FDS_MAX];

	for (;;) {
		int64_t now_ns;

		fds_fill(server, fds);
		if (poll(fds, FDS_MAX, TICK_MS) < 0 && errno != EINTR)
			return error_set(
				err, errno, "the server cannot wait for requests: %s", strerror(errno));
		now_ns = monotonic_ns();
		if (server->source.task.pid > 0 && source_take(&server->source, now_ns))
			reply_all(server, CONNECTION_WANTS_DATA, reply_data, now_ns);
		if (server->past.task.pid > 0 && past_take(&server->past, now_ns))
			reply_all(server, CONNECTION_WANTS_HISTORY, reply_history, now_ns);
		use_take(&server->use, now_ns);
		for (size_t i = 0; i < CONNECTIONS_MAX; i++)
			serve(server, &server->connections[i], fds[FDS_OWN + 2 * i].revents, now_ns);
		if (fds[0].revents)
			accept_one(server, now_ns);
	}
}

/* ---- the listening socket ---- */

static int make_token(char ret_token[UI_TOKEN_LEN + 1])
{
	unsigned char random[UI_TOKEN_LEN / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(ret_token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

static int listen_on(struct ui_server *server, uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);

	server->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (server->fd < 0 || fcntl(server->fd, F_SETFD, FD_CLOEXEC) < 0 ||
		fcntl(server->fd, F_SETFL, O_NONBLOCK) < 0 ||
		setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
		bind(server->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(server->fd, CONNECTIONS_MAX) < 0 ||
		getsockname(server->fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	server->site.port = ntohs(address.sin_port);
	return 0;
}

int ui_server_new(
	const struct kubectl *kubectl, uint16_t port, struct ui_server **ret_server, struct error *err)
{
	struct ui_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return error_set(err, ENOMEM, "out of memory");
	server->fd = -1;
	server->kubectl = kubectl;
	source_init(&server->source, kubectl);
	use_init(&server->use, kubectl);
	past_init(&server->past, kubectl);
	r = make_token(server->site.token);
	if (r == 0)
		r = make_token(server->site.once);
	if (r == 0)
		r = listen_on(server, port);
	if (r < 0) {
		ui_server_free(server);
		return error_set(err, -r, "127.0.0.1:%u cannot be listened on: %s", port, strerror(-r));
	}
	*ret_server = server;
	return 0;
}

void ui_server_free(struct ui_server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		connection_close(&server->connections[i]);
	source_release(&server->source);
	use_release(&server->use);
	past_release(&server->past);
	close_ptr(&server->fd);
	free(server);
}

const struct ui_site *ui_server_site(const struct ui_server *server)
{
	return &server->site;
}
