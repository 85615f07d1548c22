/* top-cluster.h - reads the pages of the agents on a cluster's nodes that share GPU memory, through ports
 * that stay forwarded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/facts.h"

struct error;
struct kubectl;
struct strbuf;
struct top_cluster;
struct top_sample;

#define TOP_AGENTS_MAX 32 /* a kubectl each */

/* top_cluster_open() - nodes: names, or none for all. -ENOENT: there is no such node, or no isolated node at
 * all; -E2BIG: more than TOP_AGENTS_MAX. shared: nodes of the mode share, too. A node without an agent is a
 * problem of top_cluster_each(). */
int top_cluster_open(const struct kubectl *kubectl, char *const *nodes, size_t n_nodes, bool shared,
	struct top_cluster **ret_cluster, struct error *err);
void top_cluster_close(struct top_cluster *cluster); /* accepts NULL */

struct top_reader {
	const char *path; /* of the page */
	const char *node; /* NULL: of all agents */
	/* Called with the page of each agent. A negative result, with a sentence, counts as no answer. */
	int (*read)(void *userdata, const char *node, enum gpu_mode mode, const struct strbuf *page,
		struct error *err);
	void *userdata;
	/* NULL, or called before the i-th of n agents is asked, from 1. */
	void (*begins)(void *userdata, const char *node, size_t i, size_t n);
};

/* top_cluster_each() - reads a page of each agent. For each that does not answer, problems gets a line, and
 * it is tried again the next time. Negative: no agent answers; err says why the first one does not. */
int top_cluster_each(struct top_cluster *cluster, const struct top_reader *reader, struct strbuf *problems,
	struct error *err);

/* top_cluster_read() - adds the pages of metrics of all agents, or of that of one node, to the sample;
 * results as top_cluster_each(). */
int top_cluster_read(struct top_cluster *cluster, const char *node, struct top_sample *sample,
	struct strbuf *problems, struct error *err);

/* top_cluster_find_again() - finds the present pods of the agents that did not answer the last time. */
int top_cluster_find_again(struct top_cluster *cluster, struct error *err);
