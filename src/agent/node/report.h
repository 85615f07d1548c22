/* report.h - what the node object says of our GPUs: inventory, unit and mode in force as annotations, the
 * documented labels, aliyun.com/gpu-count in its status. Compared with every state that the watch shows and
 * repaired: a kubelet that registers its node anew sets extended resources to 0. */
#pragma once

struct json_object;
struct kube_client;
struct leftovers;
struct node_registry;
struct report;

/* report_new() - all that it is given must outlive it. */
int report_new(struct kube_client *client, const struct node_registry *node, struct leftovers *leftovers,
	struct report **ret_report);
void report_free(struct report *report); /* accepts NULL */

/* report_seen() - the node object as the API server shows it; NULL: it is gone. */
void report_seen(struct report *report, struct json_object *node);

/* report_node() - what report_seen() was given last. */
struct json_object *report_node(const struct report *report);

/* report_update() - write what differs, if anything. Cheap; call it whenever something may have changed. */
void report_update(struct report *report);
