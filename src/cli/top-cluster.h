/* top-cluster.h - the agents of a cluster's isolated nodes, each asked for its page of metrics through a port
 * that stays forwarded. */
#pragma once

#include <stddef.h>

struct error;
struct kubectl;
struct strbuf;
struct top_cluster;
struct top_sample;

/* top_cluster_open() - nodes: names, or none for all. -ENOENT: no such node, or none at all; -E2BIG: more
 * than can be asked at once. */
int top_cluster_open(const struct kubectl *kubectl, char *const *nodes, size_t n_nodes,
	struct top_cluster **ret_cluster, struct error *err);
void top_cluster_close(struct top_cluster *cluster); /* accepts NULL */

/* top_cluster_read() - what all of them say now. Of one that does not answer there is a line in problems; it
 * is tried again the next time. Negative: none of them does, and why the first does not. */
int top_cluster_read(
	struct top_cluster *cluster, struct top_sample *sample, struct strbuf *problems, struct error *err);
