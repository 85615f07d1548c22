/* forward.h - one GET of ration-scheduler's page, which listens on its pod's loopback only: through
 * `kubectl port-forward` to the leader, by the user's own rights. */
#pragma once

struct error;
struct kubectl;
struct strbuf;

/* forward_find_leader() - the pod that holds Lease kube-system/ack-co-scheduler. The caller frees the name.
 */
int forward_find_leader(const struct kubectl *kubectl, char **ret_pod, struct error *err);

/* forward_get() - GET of path from that pod, the body of the answer appended to body. Every failure is a
 * sentence with the next step. */
int forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err);

/* http_answer_parse() - a whole HTTP/1.0 answer: status and where the body begins. -EINVAL if it is none,
 * -EPIPE if it is shorter than it says: a connection that breaks looks like one that ends. */
int http_answer_parse(const char *answer, int *ret_status, const char **ret_body);
