/* ps-command.c - ration ps: which runs exist, with their grants; and samples of them for ration top. */
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/metrics.h"
#include "grant/peek.h"
#include "model/shares.h"
#include "run/options.h"
#include "run/registry.h"

#define MIB (UINT64_C(1) << 20)

struct table {
	bool head_printed;
};

static const char *user_name(uid_t uid, char buffer[16])
{
	const struct passwd *user = getpwuid(uid);

	snprintf(buffer, 16, "%u", uid);
	return user ? user->pw_name : buffer;
}

/* A program's arguments may contain control sequences of terminals. */
static void print_text(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
	putchar('\n');
}

static int print_run(void *context, const struct run_seen *run)
{
	struct table *table = context;
	char number[16], used[32], core[16];

	if (!table->head_printed)
		printf("%-8s %-10s %-4s %10s %10s %5s  %s\n", "PID", "USER", "GPU", "GRANTED", "USED", "CORE",
			"PROGRAM");
	table->head_printed = true;
	for (unsigned i = 0; i < run->grant->gpu_count; i++) {
		uint64_t share;

		snprintf(used, sizeof(used), "%" PRIu64 "MiB", run->used_bytes[i] / MIB);
		/* "-": the computing power is not controlled. */
		share = atomic_load(&run->grant->live[i].core_share);
		if (share == 0)
			strcpy(core, "-");
		else
			snprintf(core, 16, "%u%%",
				(unsigned)((share + SHARE_WHOLE / 200) * 100 / SHARE_WHOLE));
		printf("%-8d %-10s %-4s %7" PRIu64 "MiB %10s %5s  ", (int)run->pid,
			user_name(run->uid, number), run->labels[i],
			grant_file_limit_bytes(run->grant, i) / MIB, run->usage_known ? used : "-", core);
		print_text(i ? "" : run->grant->container);
	}
	return 0;
}

static int list_runs(void)
{
	_cleanup_registry_ struct registry registry;
	struct table table = {0};
	struct error err = {""};

	if (registry_open(&registry, false, &err) < 0) {
		fprintf(stderr, "ration ps: %s\n", err.text);
		return EXIT_FAILURE;
	}
	registry_each(&registry, print_run, &table);
	if (!table.head_printed)
		puts("No program runs under a grant of `ration run`.");
	return EXIT_SUCCESS;
}

int ps_command(int argc, char **argv)
{
	int r = options_parse(&ps_option_table, argc, argv, NULL);

	return r >= 0 ? r : list_runs();
}

/* Writes the runs for `ration top` in the form of the agent's page of metrics: the run's process takes the
 * place of the pod, its program that of the container. */
enum value { GPU_MEMORY, LIMIT, USED, SHARE, RATE, STARTED, WAITED };

struct page {
	struct metrics metrics;
	struct registry registry;
	enum value value; /* the value that is being added */
};

static void add_power(struct page *page, const struct metric_label *labels, size_t n,
	const struct run_seen *run, unsigned gpu, int usage_fd)
{
	const struct grant_file_live *live = &run->grant->live[gpu];
	struct usage_peek_power seen;

	if (!atomic_load(&live->core_share))
		return;
	if (page->value == SHARE)
		metrics_ratio(&page->metrics, labels, n, atomic_load(&live->core_share));
	else if (page->value == RATE)
		metrics_ratio(&page->metrics, labels, n, atomic_load(&live->core_rate));
	else if (usage_fd >= 0 && usage_peek_power(usage_fd, gpu, &seen) == 0)
		metrics_seconds(&page->metrics, labels, n,
			(int64_t)(page->value == STARTED ? seen.started_ns : seen.waited_ns));
}

static int add_run(void *context, const struct run_seen *run)
{
	struct page *page = context;
	_cleanup_close_ int usage_fd = -1;
	char path[PATH_MAX], pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)run->pid);
	snprintf(path, sizeof(path), "%.4080s/usage", run->folder);
	usage_fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	for (unsigned i = 0; i < run->grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &run->grant->gpus[i];
		const struct metric_label labels[] = {{"namespace", ""}, {"pod", pid},
			{"container", run->grant->container}, {"gpu", run->labels[i]}, {"UUID", gpu->uuid}};
		const struct metric_label of_gpu[] = {
			{"gpu", run->labels[i]}, {"UUID", gpu->uuid}, {"modelName", ""}};

		if (page->value == GPU_MEMORY)
			metrics_count(&page->metrics, of_gpu, ARRAY_SIZE(of_gpu), gpu->physical_bytes);
		else if (page->value == LIMIT)
			metrics_count(&page->metrics, labels, ARRAY_SIZE(labels),
				grant_file_limit_bytes(run->grant, i));
		else if (page->value == USED && run->usage_known)
			metrics_count(&page->metrics, labels, ARRAY_SIZE(labels), run->used_bytes[i]);
		else if (page->value > USED)
			add_power(page, labels, ARRAY_SIZE(labels), run, i, usage_fd);
	}
	return 0;
}

static void add(struct page *page, enum value value)
{
	page->value = value;
	registry_each(&page->registry, add_run, page);
}

/* The names and sentences are the agent's. */
static void add_all(struct page *page)
{
	struct metrics *metrics = &page->metrics;

	metrics_clock(metrics);
	metrics_family(metrics, "ration_gpu_memory_bytes", "gauge", "Memory of the GPU.");
	add(page, GPU_MEMORY);
	metrics_family(metrics, "ration_container_limit_bytes", "gauge",
		"Memory of the GPU that an isolated container may use now.");
	add(page, LIMIT);
	metrics_family(metrics, "ration_container_used_bytes", "gauge",
		"Memory of the GPU that a container's processes have, as the driver counts it.");
	add(page, USED);
	metrics_family(metrics, "ration_container_core_share_ratio", "gauge",
		"Part of the GPU's time that a container has, where computing power is controlled.");
	add(page, SHARE);
	metrics_family(metrics, "ration_container_core_rate_ratio", "gauge",
		"Share that the container's processes enforce: the share, corrected by the use that the driver reports.");
	add(page, RATE);
	metrics_family(metrics, "ration_container_core_started_seconds_total", "counter",
		"Time of the GPU that a container's kernels take, by its own estimate.");
	add(page, STARTED);
	metrics_family(metrics, "ration_container_core_waited_seconds_total", "counter",
		"Time for which a container's threads were held back, by its own count.");
	add(page, WAITED);
}

int sample_command(void)
{
	_cleanup_free_ char *text = NULL;
	struct error err = {""};
	struct page page;

	if (registry_open(&page.registry, false, &err) < 0) {
		fprintf(stderr, "ration top: %s\n", err.text);
		return EXIT_FAILURE;
	}
	metrics_init(&page.metrics);
	add_all(&page);
	text = metrics_take(&page.metrics);
	metrics_release(&page.metrics);
	registry_close(&page.registry);
	if (!text || fputs(text, stdout) == EOF || fflush(stdout) == EOF)
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}
