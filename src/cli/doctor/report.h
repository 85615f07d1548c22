/* report.h - what was found. Every check tells its findings, or that it could not be made: what was not
 * looked at is never called well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct strbuf;

/* Further findings of one check are counted, not named. */
#define FINDINGS_PER_CHECK_MAX 50

enum severity {
	SEVERITY_NOTE,	  /* worth knowing, nothing to mend: no finding for scripts */
	SEVERITY_WARNING, /* something may go wrong, or somebody be surprised */
	SEVERITY_ERROR,	  /* something does not work, or is not kept apart */
	SEVERITY_MAX,
};

struct report {
	struct json_object *checks;   /* by name, in the order of report_check() */
	struct json_object *findings; /* as they came */
	const char *current;
	bool failed; /* out of memory */
};

void report_init(struct report *report);
void report_release(struct report *report);
#define _cleanup_report_ _cleanup_(report_release)

/* report_check() - what is told from now on is of this check; it may be called again for an earlier one. */
void report_check(struct report *report, const char *name);

/* report_find() - where: "node gpu-1". mend: the command that mends it, "" if no command mends it. */
void report_find(struct report *report, enum severity severity, const char *where, const char *mend,
	const char *what, ...) __attribute__((format(printf, 5, 6)));

/* report_unknown() - the check could not be made; the first reason counts. */
void report_unknown(struct report *report, const char *reason);

/* report_text() - for people, the worst first. report_json() - {"checks":[...],"findings":[...]}. Negative
 * errno. */
int report_text(const struct report *report, struct strbuf *out);
int report_json(const struct report *report, struct strbuf *out);

/* report_status() - for scripts: 1 if there is a finding that is not a note, EXIT_UNKNOWN if not, but
 * something could not be looked at, 0 otherwise. EXIT_USAGE, which is 2, is never of a report. */
#define EXIT_UNKNOWN 3
int report_status(const struct report *report);
