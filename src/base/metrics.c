#include "base/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define PAGE_MAX ((size_t)8 << 20)

static const struct {
	int64_t ns;
	const char *seconds;
} bounds[HISTOGRAM_BUCKETS] = {{50000, "0.00005"}, {100000, "0.0001"}, {250000, "0.00025"},
	{500000, "0.0005"}, {1000000, "0.001"}, {2500000, "0.0025"}, {5000000, "0.005"}, {10000000, "0.01"},
	{25000000, "0.025"}, {50000000, "0.05"}, {100000000, "0.1"}, {250000000, "0.25"}, {500000000, "0.5"},
	{1000000000, "1"}, {2500000000, "2.5"}, {10000000000, "10"}};

void histogram_observe(struct histogram *histogram, int64_t ns)
{
	size_t i = 0;

	while (i < HISTOGRAM_BUCKETS && ns > bounds[i].ns)
		i++;
	histogram->buckets[i]++;
	histogram->sum_ns += ns > 0 ? (uint64_t)ns : 0;
}

void metrics_init(struct metrics *metrics)
{
	*metrics = (struct metrics){0};
	strbuf_init(&metrics->text, PAGE_MAX);
}

void metrics_release(struct metrics *metrics)
{
	strbuf_release(&metrics->text);
}

char *metrics_take(struct metrics *metrics)
{
	return strbuf_take(&metrics->text);
}

void metrics_family(struct metrics *metrics, const char *name, const char *type, const char *help)
{
	metrics->name = name;
	strbuf_addf(&metrics->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Returns the length of the UTF-8 character at text (RFC 3629: no surrogates, nothing over-long), 0 if it is
 * invalid. */
static size_t utf8_length(const unsigned char *text)
{
	size_t n = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

	if (text[0] > 0xf4 || n == 0)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
		(text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return n;
}

static void add_value(struct strbuf *text, const char *value)
{
	while (*value) {
		size_t n = utf8_length((const unsigned char *)value);

		if (*value == '\\' || *value == '"')
			strbuf_addf(text, "\\%c", *value);
		else if (*value == '\n')
			strbuf_adds(text, "\\n");
		else if (n)
			strbuf_add(text, value, n);
		else
			strbuf_adds(text, "\xef\xbf\xbd");
		value += n ? n : 1;
	}
}

static void add_labels(struct metrics *metrics, const struct metric_label *labels, size_t n)
{
	strbuf_adds(&metrics->text, metrics->name);
	for (size_t i = 0; i < n; i++) {
		strbuf_addf(&metrics->text, "%c%s=\"", i ? ',' : '{', labels[i].name);
		add_value(&metrics->text, labels[i].value);
		strbuf_adds(&metrics->text, "\"");
	}
	if (n)
		strbuf_adds(&metrics->text, "}");
}

void metrics_count(
	struct metrics *metrics, const struct metric_label *labels, size_t n_labels, uint64_t value)
{
	add_labels(metrics, labels, n_labels);
	strbuf_addf(&metrics->text, " %" PRIu64 "\n", value);
}

void metrics_seconds(struct metrics *metrics, const struct metric_label *labels, size_t n_labels, int64_t ns)
{
	if (ns < 0)
		ns = 0;
	add_labels(metrics, labels, n_labels);
	strbuf_addf(&metrics->text, " %" PRId64 ".%09" PRId64 "\n", ns / NS_PER_S, ns % NS_PER_S);
}

void metrics_ratio(
	struct metrics *metrics, const struct metric_label *labels, size_t n_labels, uint64_t millionths)
{
	add_labels(metrics, labels, n_labels);
	strbuf_addf(
		&metrics->text, " %" PRIu64 ".%06" PRIu64 "\n", millionths / 1000000, millionths % 1000000);
}

void metrics_histogram(struct metrics *metrics, const struct histogram *histogram)
{
	uint64_t count = 0;

	for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++) {
		count += histogram->buckets[i];
		strbuf_addf(&metrics->text, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", metrics->name,
			i < HISTOGRAM_BUCKETS ? bounds[i].seconds : "+Inf", count);
	}
	strbuf_addf(&metrics->text, "%s_sum %" PRIu64 ".%09" PRIu64 "\n%s_count %" PRIu64 "\n", metrics->name,
		histogram->sum_ns / NS_PER_S, histogram->sum_ns % NS_PER_S, metrics->name, count);
}

void metrics_one(
	struct metrics *metrics, const char *name, const char *type, const char *help, uint64_t value)
{
	metrics_family(metrics, name, type, help);
	metrics_count(metrics, NULL, 0, value);
}

void metrics_each(struct metrics *metrics, const char *label, const char *const *texts,
	const uint64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct metric_label one = {label, texts[i]};

		metrics_count(metrics, &one, 1, values[i]);
	}
}

void metrics_build_info(struct metrics *metrics)
{
	static const struct metric_label version = {"version", RATION_VERSION};

	metrics_family(metrics, "ration_build_info", "gauge", "Always 1; the version is the label.");
	metrics_count(metrics, &version, 1, 1);
}

void metrics_clock(struct metrics *metrics)
{
	metrics_family(metrics, "ration_clock_seconds", "gauge",
		"The monotonic clock of the machine when this page was made.");
	metrics_seconds(metrics, NULL, 0, monotonic_ns());
}

#ifdef __linux__ /* the command-line tools for macOS contain this file, too */
/* The process metrics of Prometheus client libraries, read from /proc. Fields 14, 15 and 22 to 24 of
 * proc_pid_stat(5). */
struct process_stat {
	unsigned long user_ticks, system_ticks, virtual_bytes;
	unsigned long long start_ticks;
	long resident_pages;
};

static int process_read(struct process_stat *ret_stat)
{
	char text[2048], *after;
	FILE *file = fopen("/proc/self/stat", "re");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[n] = '\0';
	/* The name before it may contain blanks and parentheses. */
	after = strrchr(text, ')');
	return after && sscanf(after + 1,
				"%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %*s %*s %*s %*s %*s %*s %llu %lu %ld",
				&ret_stat->user_ticks, &ret_stat->system_ticks, &ret_stat->start_ticks,
				&ret_stat->virtual_bytes, &ret_stat->resident_pages) == 5
		       ? 0
		       : -1;
}

static uint64_t count_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the directory itself */
}

void metrics_process(struct metrics *metrics)
{
	int64_t tick_ns = NS_PER_S / sysconf(_SC_CLK_TCK);
	int64_t booted_ns = realtime_ns() - clock_read_ns(CLOCK_BOOTTIME);
	struct process_stat stat;

	if (process_read(&stat) < 0)
		return;
	metrics_family(metrics, "process_cpu_seconds_total", "counter", "User and system CPU time.");
	metrics_seconds(metrics, NULL, 0, (int64_t)(stat.user_ticks + stat.system_ticks) * tick_ns);
	metrics_family(metrics, "process_start_time_seconds", "gauge", "Start of the process, Unix time.");
	metrics_seconds(metrics, NULL, 0, booted_ns + (int64_t)stat.start_ticks * tick_ns);
	metrics_one(metrics, "process_resident_memory_bytes", "gauge", "Resident memory.",
		(uint64_t)stat.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE));
	metrics_one(metrics, "process_virtual_memory_bytes", "gauge", "Virtual memory.", stat.virtual_bytes);
	metrics_one(metrics, "process_open_fds", "gauge", "Open file descriptors.", count_open_files());
}
#endif
