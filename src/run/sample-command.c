/* Writes the runs for `ration top` in the form of the agent's page of metrics: the run's process takes the
 * place of the pod, its program that of the container. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/metrics.h"
#include "grant/peek.h"
#include "run/commands.h"
#include "run/registry.h"

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

	metrics_family(metrics, "ration_gpu_memory_bytes", "gauge", "Memory of the GPU.");
	add(page, GPU_MEMORY);
	metrics_family(metrics, "ration_container_limit_bytes", "gauge",
		"Memory of the GPU that an isolated container may use now.");
	add(page, LIMIT);
	metrics_family(metrics, "ration_container_used_bytes", "gauge",
		"Memory of the GPU that an isolated container's processes have, as the driver counts it.");
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
