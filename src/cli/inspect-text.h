/* inspect-text.h - the output formats. Each function adds to `out` and returns 0, -ENOMEM or -EMSGSIZE. */
#pragma once

#include <stdbool.h>

struct inspect;
struct strbuf;

/* The mark after the name of a pod that was deleted while its containers still run. Names of pods have no
 * parentheses. The mark is one word, for scripts that split lines at blanks. */
#define ORPHAN_MARK "(orphan)"

/* The marks of a pod that shares its ResourceClaim with other pods, and of a claim that no pod uses. */
#define SHARED_MARK "(shared)"
#define CLAIM_MARK "(claim)"

/* One line per node, then the sum. `wide` adds mode, unit, GPU models and health. */
int inspect_summary(const struct inspect *inspect, bool wide, struct strbuf *out);

/* One table of pods per node, then the sum (-d). */
int inspect_details(const struct inspect *inspect, struct strbuf *out);

/* For topology nodes: how the GPUs are connected, as nvidia-smi topo -m shows it, and which pod has which. */
int inspect_topology(const struct inspect *inspect, struct strbuf *out);

/* One JSON document with everything. */
int inspect_json(const struct inspect *inspect, struct strbuf *out);
