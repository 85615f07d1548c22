#include "cli/ui/use.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/printable.h"
#include "cli/top-cluster.h"
#include "cli/top-page.h"
#include "cli/top-table.h"
#include "cli/ui/data.h"
#include "cli/ui/source.h"
#include "kube/json.h"

#define INTERVAL_NS (2 * NS_PER_S)
#define AGAIN_NS (10 * NS_PER_S)       /* between attempts to find an agent that did not answer */
#define KEPT_NS (6 * NS_PER_S)	       /* nodes are measured at least this long before others are */
#define UNASKED_MAX_NS (15 * NS_PER_S) /* if no page asks for this long, the measuring ends */
#define MEASURING_MAX_NS (24 * 3600 * NS_PER_S)
#define LINE_MAX_BYTES (16u << 20)

/* ---- the child: "NODE<tab>JSON" in a line for each measurement of a node ---- */

struct measured {
	char *node;
	struct top_sample samples[2];
	unsigned last;	  /* of the two */
	bool known;	  /* the last one was taken */
	int64_t rests_ns; /* it is not asked before */
};

struct measuring {
	const struct kubectl *kubectl;
	struct top_cluster *cluster;
	char *names; /* what `node` points into */
	struct measured nodes[TOP_AGENTS_MAX];
	size_t n;
	int fd;
	bool incomplete; /* an agent did not answer */
};

static int write_line(const struct measuring *measuring, const char *node, struct json_object *document)
{
	_cleanup_strbuf_ struct strbuf line;
	const char *text = json_text(document);

	strbuf_init(&line, LINE_MAX_BYTES);
	strbuf_addf(&line, "%s\t%s\n", node, text ? text : "{}");
	return line.failed ? line.failed : ui_write_all(measuring->fd, line.data, line.len);
}

static int tell_problem(const struct measuring *measuring, const char *node, const char *text)
{
	_cleanup_json_ struct json_object *document = json_object_new_object();
	_cleanup_free_ char *copy = printable_copy(text);

	if (json_set_text(document, "error", copy) < 0)
		return -ENOMEM;
	return write_line(measuring, node, document);
}

static int take_sample(
	const struct measuring *measuring, const char *node, struct top_sample *sample, struct error *err)
{
	_cleanup_strbuf_ struct strbuf problems;
	int r;

	strbuf_init(&problems, 4096);
	top_sample_release(sample);
	r = measuring->kubectl ? top_cluster_read(measuring->cluster, node, sample, &problems, err)
			       : ui_runs_sample(sample, err);
	sample->at_ns = monotonic_ns();
	top_sample_sort(sample);
	return r;
}

/* Until there are two samples, nothing is known about what is used of the computing power. */
static int measure(struct measuring *measuring, struct measured *node)
{
	_cleanup_json_ struct json_object *document = NULL;
	struct top_sample *before = &node->samples[node->last], *now = &node->samples[!node->last];
	struct error err = {""};
	int r;

	if (monotonic_ns() < node->rests_ns) {
		measuring->incomplete = true;
		return 0;
	}
	r = take_sample(measuring, node->node, now, &err);
	if (r < 0) {
		node->known = false;
		node->rests_ns = monotonic_ns() +
				 AGAIN_NS; /* the other nodes must not wait for it each time */
		measuring->incomplete = true;
		return tell_problem(
			measuring, node->node, err.text[0] ? err.text : "the agent's page cannot be held");
	}
	document = top_json(node->known ? before : now, now, !measuring->kubectl);
	node->last = !node->last;
	node->known = true;
	r = document ? write_line(measuring, node->node, document) : -ENOMEM;
	return r == -EMSGSIZE ? tell_problem(measuring, node->node, "the agent's page is too long") : r;
}

static int open_nodes(struct measuring *measuring, const char *nodes, struct error *err)
{
	char *names[TOP_AGENTS_MAX], *rest;

	measuring->names = rest = strdup(nodes);
	for (char *name; rest && (name = strsep(&rest, ",")) && measuring->n < TOP_AGENTS_MAX;) {
		struct measured *node = &measuring->nodes[measuring->n];

		node->node = names[measuring->n++] = name;
		for (int i = 0; i < 2; i++)
			top_sample_init(&node->samples[i]);
	}
	if (!measuring->names)
		return error_set(err, ENOMEM, "out of memory");
	return measuring->kubectl ? top_cluster_open(measuring->kubectl, names, measuring->n, true,
					    &measuring->cluster, err)
				  : 0;
}

/* A task_fn. It ends by a signal, or when the server has closed the pipe; status 1: the last line is a
 * sentence. */
static int run_measuring(void *userdata, int fd)
{
	const struct use *use = userdata;
	struct measuring measuring = {.kubectl = use->kubectl, .fd = fd};
	int64_t found_ns = monotonic_ns();
	struct error err = {""};
	int r = open_nodes(&measuring, use->nodes, &err);

	if (r < 0) {
		ui_write_all(fd, err.text, strlen(err.text));
		return EXIT_FAILURE;
	}
	while (r == 0) {
		int64_t begun_ns = monotonic_ns(), left;

		measuring.incomplete = false;
		for (size_t i = 0; i < measuring.n && r == 0; i++)
			r = measure(&measuring, &measuring.nodes[i]);
		if (use->kubectl && measuring.incomplete && begun_ns - found_ns >= AGAIN_NS) {
			top_cluster_find_again(measuring.cluster, &err);
			found_ns = begun_ns;
		}
		left = begun_ns + INTERVAL_NS - monotonic_ns();
		usleep(left > 0 ? (useconds_t)(left / 1000) : 0);
	}
	return EXIT_FAILURE;
}

/* ---- the server ---- */

struct use_latest {
	int64_t at_ns;
	char text[]; /* JSON */
};

void use_init(struct use *use, const struct kubectl *kubectl)
{
	*use = (struct use){.kubectl = kubectl};
	task_init(&use->task);
	table_init(&use->latest);
}

static void forget(struct use *use)
{
	void *latest;

	task_stop(&use->task);
	table_for_each (&use->latest, cursor, latest)
		free(latest);
	table_release(&use->latest);
	table_init(&use->latest);
	free(use->nodes);
	use->nodes = NULL;
}

void use_release(struct use *use)
{
	forget(use);
	table_release(&use->latest);
}

int use_ask(struct use *use, const char *nodes, int64_t now_ns)
{
	use->asked_ns = now_ns;
	if (use->nodes && strcmp(use->nodes, nodes) == 0 &&
		(use->task.pid > 0 || now_ns - use->begun_ns < (*use->problem ? AGAIN_NS : INTERVAL_NS)))
		return 0;
	if (use->task.pid > 0 && now_ns - use->begun_ns < KEPT_NS)
		return 0;
	if (!use->nodes ||
		strcmp(use->nodes, nodes) != 0) /* else the sentence stays until something is measured */
		use->problem[0] = '\0';
	forget(use);
	use->begun_ns = now_ns;
	use->nodes = strdup(nodes);
	if (!use->nodes)
		return -ENOMEM;
	return task_start(&use->task, run_measuring, use, 2 * LINE_MAX_BYTES, MEASURING_MAX_NS);
}

static void take_line(struct use *use, char *line)
{
	char *text = strchr(line, '\t');
	struct use_latest *latest;

	if (!text)
		return;
	*text++ = '\0';
	latest = malloc(sizeof(*latest) + strlen(text) + 1);
	if (!latest)
		return;
	latest->at_ns = monotonic_ns();
	strcpy(latest->text, text);
	use->problem[0] = '\0';
	free(table_remove(&use->latest, line));
	if (table_set(&use->latest, line, latest) < 0)
		free(latest);
}

static void take_lines(struct use *use)
{
	struct strbuf *out = &use->task.out;
	size_t at = 0;
	char *end;

	while (at < out->len && (end = memchr(out->data + at, '\n', out->len - at))) {
		*end = '\0';
		take_line(use, out->data + at);
		at = (size_t)(end - out->data) + 1;
	}
	strbuf_drop_front(out, at);
}

void use_take(struct use *use, int64_t now_ns)
{
	int status = 0, r;

	if (use->task.pid < 0)
		return;
	if (now_ns - use->asked_ns > UNASKED_MAX_NS) {
		forget(use);
		return;
	}
	r = task_read(&use->task, now_ns, &status);
	take_lines(use);
	if (r == 0)
		return;
	snprintf(use->problem, sizeof(use->problem), "%s",
		r == 1 && use->task.out.len ? printable(use->task.out.data)
					    : "the process that measures has ended");
	task_stop(&use->task);
}

void use_json(const struct use *use, int64_t now_ns, struct strbuf *out)
{
	const char *node, *between = "";
	size_t cursor = 0;
	void *value;

	strbuf_adds(out, "{\"nodes\": {");
	while (table_next(&use->latest, &cursor, &node, &value)) {
		const struct use_latest *latest = value;

		strbuf_adds(out, between);
		json_add_string(out, node);
		strbuf_addf(out, ": {\"age\": %.1f, \"use\": %s}",
			(double)(now_ns - latest->at_ns) / (double)NS_PER_S, latest->text);
		between = ",\n";
	}
	strbuf_adds(out, "}");
	if (use->problem[0]) {
		strbuf_adds(out, ", \"error\": ");
		json_add_string(out, use->problem);
	}
	strbuf_adds(out, "}\n");
}
