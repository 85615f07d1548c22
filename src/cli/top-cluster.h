/* top-cluster.h - reads the pages of metrics of the agents on a cluster's isolated nodes, through ports that
 * stay forwarded. */
#pragma once

#include <stddef.h>

struct error;
struct kubectl;
struct strbuf;
struct top_cluster;
struct top_sample;

/* top_cluster_open() - nodes: names, or none for all. -ENOENT: there is no such node, or no isolated node at
 * all; -E2BIG: more than can be read at once. */
int top_cluster_open(const struct kubectl *kubectl, char *const *nodes, size_t n_nodes,
	struct top_cluster **ret_cluster, struct error *err);
void top_cluster_close(struct top_cluster *cluster); /* accepts NULL */

/* top_cluster_read() - reads the present pages of all. If one does not answer, problems gets a line, and it
 * is tried again the next time. Negative: none answers; err says why the first does not. */
int top_cluster_read(
	struct top_cluster *cluster, struct top_sample *sample, struct strbuf *problems, struct error *err);
