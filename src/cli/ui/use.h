/* use.h - what the containers of some nodes use now, measured every two seconds by a child process while a
 * page asks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "cli/ui/task.h"

struct kubectl;
struct strbuf;

struct use {
	const struct kubectl *kubectl; /* NULL: the programs of this machine */
	struct task task;
	char *nodes; /* "a,b": the nodes that are measured; NULL: no node is measured */
	int64_t asked_ns, begun_ns;
	struct table latest; /* node -> struct use_latest */
	char problem[512];   /* why the child has ended; "": it has not */
};

void use_init(struct use *use, const struct kubectl *kubectl);
void use_release(struct use *use);

/* use_ask() - a page wants to know these nodes ("a,b"; "" on one machine). Starts to measure. If other
 * nodes are measured, they are measured for some seconds first, so that two pages leave each other some time.
 * Negative errno if no process can be started. */
int use_ask(struct use *use, const char *nodes, int64_t now_ns);

/* use_take() - call it when task.fd is readable, and from time to time: the measuring ends if no page has
 * asked for a while. */
void use_take(struct use *use, int64_t now_ns);

/* use_json() - {"nodes": {NODE: {"age": seconds, "use": what `ration top -o json` prints of it, or {"error":
 * sentence}}}, "error": sentence}; the last only if nothing is measured. */
void use_json(const struct use *use, int64_t now_ns, struct strbuf *out);
