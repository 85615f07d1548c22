/* why-text.h - the answer of ration-scheduler's /why as text for users. Pure. */
#pragma once

struct error;
struct json_object;
struct strbuf;

/* why_text() - what the pod waits for or where it is, one line per node and per GPU, then the decisions in
 * order of time. who: "namespace/name". The text has only printable ASCII and newlines. */
int why_text(struct json_object *answer, const char *who, struct strbuf *out);

/* why_policy_text() - for a pod that asks for no GPU: what its ResourcePolicy decides. */
int why_policy_text(struct json_object *answer, const char *who, struct strbuf *out);
