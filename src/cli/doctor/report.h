/* report.h - the result of the checks. Each check reports its findings, or that it could not be made: a check
 * that was not made never counts as passed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct strbuf;

/* Further findings of one check are counted, not named. */
#define FINDINGS_PER_CHECK_MAX 50

enum severity {
	SEVERITY_NOTE,	  /* worth knowing; does not change the exit status */
	SEVERITY_WARNING, /* something may fail, or surprise a user */
	SEVERITY_ERROR,	  /* something does not work, or a limit is not enforced */
	SEVERITY_MAX,
};

struct report {
	struct json_object *checks;   /* by name, in the order of report_check() */
	struct json_object *findings; /* in the order in which they were found */
	const char *current;
	bool failed; /* out of memory */
};

void report_init(struct report *report);
void report_release(struct report *report);
#define _cleanup_report_ _cleanup_(report_release)

/* report_check() - the next findings belong to this check. It may be called again for an earlier check. */
void report_check(struct report *report, const char *name);

/* report_find() - where: "node gpu-1". mend: the command that corrects it, "" if no command corrects it. */
void report_find(struct report *report, enum severity severity, const char *where, const char *mend,
	const char *what, ...) __attribute__((format(printf, 5, 6)));

/* report_unknown() - the check could not be made; the first reason counts. */
void report_unknown(struct report *report, const char *reason);

/* report_text() - for users, the worst findings first. report_json() - {"checks":[...],"findings":[...]}.
 * Negative errno. */
int report_text(const struct report *report, struct strbuf *out);
int report_json(const struct report *report, struct strbuf *out);

/* report_status() - the exit status: 1 if there is a warning or an error, else EXIT_UNKNOWN if a check could
 * not be made, else 0. It is never EXIT_USAGE, which is 2. */
#define EXIT_UNKNOWN 3
int report_status(const struct report *report);
