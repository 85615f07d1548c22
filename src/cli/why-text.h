/* why-text.h - the answer of ration-scheduler's /why for a person. Pure. */
#pragma once

struct error;
struct json_object;
struct strbuf;

/* why_text() - what the pod waits for or where it is, one line per node and per GPU, then the decisions in
 * the order of time. who is "namespace/name". Nothing but printable ASCII and newlines comes out. */
int why_text(struct json_object *answer, const char *who, struct strbuf *out);

/* why_policy_text() - of a pod that asks for no GPU: what its ResourcePolicy says. */
int why_policy_text(struct json_object *answer, const char *who, struct strbuf *out);
