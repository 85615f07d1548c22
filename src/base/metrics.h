/* metrics.h - a page of metrics in Prometheus' text format 0.0.4.
 *
 * Facts: https://prometheus.io/docs/instrumenting/exposition_formats/ - one HELP and TYPE per family before
 * its samples, label values in UTF-8 with \, " and newline escaped, histograms cumulative with le="+Inf".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Counts durations in fixed buckets, from 50 us to 10 s. All zeros is an empty histogram. */
#define HISTOGRAM_BUCKETS 16
struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS + 1]; /* not cumulative; the last one is for longer durations */
	uint64_t sum_ns;
};

/* histogram_observe() - a negative duration counts as 0. */
void histogram_observe(struct histogram *histogram, int64_t ns);

/* value may contain any bytes: invalid UTF-8 becomes U+FFFD. */
struct metric_label {
	const char *name, *value;
};

struct metrics {
	struct strbuf text;
	const char *name; /* the family to which samples are added */
};

void metrics_init(struct metrics *metrics);
void metrics_release(struct metrics *metrics);
#define _cleanup_metrics_ _cleanup_(metrics_release)

/* metrics_family() - begins a family; name and help are literals, type is "counter", "gauge" or "histogram".
 * The functions after it add one sample each to the family begun last. */
void metrics_family(struct metrics *metrics, const char *name, const char *type, const char *help);
void metrics_count(
	struct metrics *metrics, const struct metric_label *labels, size_t n_labels, uint64_t value);
void metrics_seconds(struct metrics *metrics, const struct metric_label *labels, size_t n_labels, int64_t ns);
/* metrics_ratio() - a value in millionths. */
void metrics_ratio(
	struct metrics *metrics, const struct metric_label *labels, size_t n_labels, uint64_t millionths);
void metrics_histogram(struct metrics *metrics, const struct histogram *histogram);

/* A family with a single sample, or with one sample for each value of one label. */
void metrics_one(
	struct metrics *metrics, const char *name, const char *type, const char *help, uint64_t value);
void metrics_each(struct metrics *metrics, const char *label, const char *const *texts,
	const uint64_t *values, size_t n);

/* metrics_build_info() - ration_build_info. metrics_process() - the process metrics of Prometheus client
 * libraries: CPU, memory, open files, start time. Nothing is added if /proc cannot be read. */
void metrics_build_info(struct metrics *metrics);
/* metrics_clock() - ration_clock_seconds: when the page was made, by the monotonic clock of its machine. A
 * reader that has two pages computes rates over the difference of this value, so that the time which an
 * answer takes does not change them. */
void metrics_clock(struct metrics *metrics);
void metrics_process(struct metrics *metrics);

/* metrics_take() - the page; NULL if it exceeds its limit of 8 MiB or if out of memory. */
char *metrics_take(struct metrics *metrics);
