/* report.h - what the Node object says of the node's GPUs: inventory, unit and mode in force as annotations,
 * the documented labels, and aliyun.com/gpu-count in its status. The part compares this with every state that
 * the watch shows, and repairs it: a kubelet that registers its node again sets extended resources to 0. */
#pragma once

struct json_object;
struct kube_client;
struct leftovers;
struct node_registry;
struct report;

/* report_new() - all arguments must outlive it. */
int report_new(struct kube_client *client, const struct node_registry *node, struct leftovers *leftovers,
	struct report **ret_report);
void report_free(struct report *report); /* accepts NULL */

/* report_seen() - the Node object as the API server shows it; NULL: it is gone. */
void report_seen(struct report *report, struct json_object *node);

/* report_node() - the object of the last report_seen(). */
struct json_object *report_node(const struct report *report);

/* report_update() - writes the differences, if there are any. It is cheap; call it whenever something may
 * have changed. */
void report_update(struct report *report);
