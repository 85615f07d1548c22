/* refusal.h - the sentence for a pod that was given to this node without a usable placement. */
#pragma once

#include <stddef.h>

struct agent;
struct node_pod;

/* refusal_sentence() - why the containers of this pod cannot start here, and what to do. */
void refusal_sentence(const struct agent *agent, const struct node_pod *pod, char *buf, size_t size);

/* refusal_report() - post it as an Event on the pod, once per pod. Unknown uids are ignored. */
void refusal_report(struct agent *agent, const char *uid);
