#include "cli/doctor/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/printable.h"
#include "kube/json.h"

#define WHAT_MAX 1024

static const char *const severity_texts[SEVERITY_MAX] = {
	[SEVERITY_NOTE] = "note",
	[SEVERITY_WARNING] = "warning",
	[SEVERITY_ERROR] = "error",
};

void report_init(struct report *report)
{
	*report = (struct report){.checks = json_object_new_object(), .findings = json_object_new_array()};
	report->failed = !report->checks || !report->findings;
}

void report_release(struct report *report)
{
	json_put_ptr(&report->checks);
	json_put_ptr(&report->findings);
}

void report_check(struct report *report, const char *name)
{
	report->current = name;
	if (!json_member(report->checks, name) &&
		json_set(report->checks, name, json_new_pair("name", name)) < 0)
		report->failed = true;
}

static struct json_object *current(const struct report *report)
{
	return json_member(report->checks, report->current);
}

/* Names of objects in the cluster must not control the terminal. */
static int set_text(struct json_object *object, const char *key, const char *text)
{
	_cleanup_free_ char *copy = printable_copy(text);

	return json_set_text(object, key, copy);
}

static void count_finding(struct report *report, enum severity severity)
{
	struct json_object *check = current(report);
	const char *key = severity == SEVERITY_NOTE ? "notes" : "findings";

	if (json_set(check, key, json_object_new_int64(number_of(check, key) + 1)) < 0)
		report->failed = true;
}

void report_find(struct report *report, enum severity severity, const char *where, const char *mend,
	const char *what, ...)
{
	struct json_object *finding;
	char text[WHAT_MAX];
	va_list args;

	count_finding(report, severity);
	if (number_of(current(report), "findings") + number_of(current(report), "notes") >
		FINDINGS_PER_CHECK_MAX)
		return;
	va_start(args, what);
	vsnprintf(text, sizeof(text), what, args);
	va_end(args);
	finding = json_append_object(report->findings);
	if (json_set_text(finding, "severity", severity_texts[severity]) < 0 ||
		set_text(finding, "check", report->current) < 0 || set_text(finding, "where", where) < 0 ||
		set_text(finding, "what", text) < 0 || set_text(finding, "mend", mend) < 0)
		report->failed = true;
}

void report_unknown(struct report *report, const char *reason)
{
	if (!json_member(current(report), "unknown") && set_text(current(report), "unknown", reason) < 0)
		report->failed = true;
}

static void add_findings(const struct report *report, enum severity severity, struct strbuf *out)
{
	for (size_t i = 0; i < json_count(report->findings); i++) {
		struct json_object *finding = json_item(report->findings, i);

		if (strcmp(json_text_of(finding, "severity"), severity_texts[severity]) != 0)
			continue;
		strbuf_addf(out, "%-8s %s: %s: %s\n", severity_texts[severity],
			json_text_of(finding, "check"), json_text_of(finding, "where"),
			json_text_of(finding, "what"));
		if (*json_text_of(finding, "mend"))
			strbuf_addf(out, "         %s\n", json_text_of(finding, "mend"));
	}
}

static const char *state_of(struct json_object *check)
{
	if (json_member(check, "unknown"))
		return "unknown";
	return number_of(check, "findings") ? "findings" : "ok";
}

struct counts {
	size_t passed, with, findings, unknown;
};

static struct counts report_count(const struct report *report)
{
	struct counts counts = {0};

	json_object_object_foreach (report->checks, name, check) {
		(void)name;
		counts.passed += strcmp(state_of(check), "ok") == 0;
		counts.with += number_of(check, "findings") > 0;
		counts.findings += (size_t)number_of(check, "findings");
		counts.unknown += json_member(check, "unknown") != NULL;
	}
	return counts;
}

int report_text(const struct report *report, struct strbuf *out)
{
	struct counts counts = report_count(report);

	for (int severity = SEVERITY_MAX - 1; severity >= 0; severity--)
		add_findings(report, (enum severity)severity, out);
	json_object_object_foreach (report->checks, name, check) {
		int64_t all = number_of(check, "findings") + number_of(check, "notes");

		if (all > FINDINGS_PER_CHECK_MAX)
			strbuf_addf(out, "more     %s: %" PRId64 " further ones are not shown\n", name,
				all - FINDINGS_PER_CHECK_MAX);
		if (json_member(check, "unknown"))
			strbuf_addf(out, "unknown  %s: could not look: %s\n", name,
				json_text_of(check, "unknown"));
	}
	strbuf_addf(out, "%zu check%s passed", counts.passed, plural((int64_t)counts.passed));
	if (counts.with)
		strbuf_addf(out, ", %zu had %zu finding%s", counts.with, counts.findings,
			plural((int64_t)counts.findings));
	if (counts.unknown)
		strbuf_addf(out, ", %zu could not be made", counts.unknown);
	strbuf_addf(out, "\n");
	return report->failed ? -ENOMEM : out->failed;
}

static int add_check(struct json_object *list, const char *name, struct json_object *check)
{
	struct json_object *out = json_append_object(list);

	if (json_set_text(out, "name", name) < 0 || json_set_text(out, "state", state_of(check)) < 0 ||
		json_set(out, "findings", json_object_new_int64(number_of(check, "findings"))) < 0 ||
		json_set(out, "notes", json_object_new_int64(number_of(check, "notes"))) < 0)
		return -ENOMEM;
	return json_member(check, "unknown") ? json_set_text(out, "reason", json_text_of(check, "unknown"))
					     : 0;
}

int report_json(const struct report *report, struct strbuf *out)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *checks = json_set_array(root, "checks");

	if (!checks || json_set(root, "findings", json_object_get(report->findings)) < 0 || report->failed)
		return -ENOMEM;
	json_object_object_foreach (report->checks, name, check)
		if (add_check(checks, name, check) < 0)
			return -ENOMEM;
	return add_document(out, root);
}

int report_status(const struct report *report)
{
	struct counts counts = report_count(report);

	if (counts.findings)
		return EXIT_FAILURE;
	return counts.unknown || report->failed ? EXIT_UNKNOWN : EXIT_SUCCESS;
}
