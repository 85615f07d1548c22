/* metrics-process.c - the process metrics of Prometheus client libraries, read from /proc. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metrics.h"

/* Fields 14, 15 and 22 to 24 of proc_pid_stat(5). */
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
