/* why-decisions.h - the recorded decisions of an answer of /why as text. */
#pragma once

struct json_object;
struct strbuf;

/* why_add_decisions() - who: NAMESPACE/NAME of the pod of the question; a decision about another pod names
 * that pod. */
void why_add_decisions(struct json_object *answer, const char *who, struct strbuf *out);

/* why_add_gpus() - the GPUs that a decision has chosen. */
void why_add_gpus(struct strbuf *out, struct json_object *decision);
