/* table.c - the table that nvidia-smi prints without options. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "sim/nvidia-smi/smi.h"

#define WIDE_RULE "+-----------------------------------------------------------------------------+\n"
#define GPU_RULE "+-------------------------------+----------------------+----------------------+\n"
#define NAME_WIDTH 18
#define PROCESS_NAME_WIDTH 28

/* A value that the GPU may not have: its text, or "N/A". */
struct cell {
	char text[32];
};

static struct cell cell(nvmlReturn_t r, const char *before, unsigned long long value, const char *after)
{
	struct cell c = {"N/A"};

	if (r == NVML_SUCCESS)
		snprintf(c.text, sizeof(c.text), "%s%llu%s", before, value, after);
	else if (r == NVML_ERROR_GPU_IS_LOST)
		snprintf(c.text, sizeof(c.text), "ERR!");
	return c;
}

static void print_header(const struct smi *smi)
{
	char date[64], driver[80] = "N/A", cuda[16] = "N/A";
	time_t now = time(NULL);
	struct tm local;
	int version;

	strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", localtime_r(&now, &local));
	smi->nvml.driver_version(driver, sizeof(driver));
	if (smi->nvml.cuda_version(&version) == NVML_SUCCESS)
		snprintf(cuda, sizeof(cuda), "%d.%d", version / 1000, version % 1000 / 10);
	printf("%s\n" WIDE_RULE, date);
	printf("| NVIDIA-SMI %-12s Driver Version: %-12s CUDA Version: %-8s |\n", driver, driver, cuda);
	printf("|-------------------------------+----------------------+----------------------+\n"
	       "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
	       "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
	       "|                               |                      |               MIG M. |\n"
	       "|===============================+======================+======================|\n");
}

static void print_first_line(const struct smi *smi, nvmlDevice_t device)
{
	unsigned index = 0, persistence = 0, display = 0, ecc_current = 0, ecc_pending;
	unsigned long long errors = 0;
	char name[96] = "ERR!", shown[96];
	nvmlPciInfo_t pci = {};
	struct cell ecc;
	nvmlReturn_t r;

	smi->nvml.index(device, &index);
	smi->nvml.name(device, name, sizeof(name));
	smi->nvml.pci(device, &pci);
	smi->nvml.persistence(device, &persistence);
	smi->nvml.display_active(device, &display);
	if (strlen(name) > NAME_WIDTH)
		snprintf(shown, sizeof(shown), "%.*s...", NAME_WIDTH - 3, name);
	else
		strcpy(shown, name);
	r = smi->nvml.ecc_mode(device, &ecc_current, &ecc_pending);
	if (r == NVML_SUCCESS)
		r = smi->nvml.ecc_errors(
			device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors);
	ecc = cell(r, "", errors, "");
	if (r == NVML_SUCCESS && !ecc_current)
		strcpy(ecc.text, "Off");
	printf("| %3u  %-*s  %-3s  | %-16s %3s | %20s |\n", index, NAME_WIDTH, shown,
		persistence ? "On" : "Off", pci.busId, display ? "On" : "Off", ecc.text);
}

static const char *compute_mode_name(unsigned mode)
{
	static const char *const names[] = {"Default", "E. Thread", "Prohibited", "E. Process"};

	return mode < ARRAY_SIZE(names) ? names[mode] : "N/A";
}

static void print_second_line(const struct smi *smi, nvmlDevice_t device)
{
	unsigned fan = 0, temperature = 0, performance = 0, power = 0, limit = 0, mode = 0;
	nvmlMemory_t memory = {};
	nvmlUtilization_t utilization = {};
	nvmlReturn_t r;
	struct cell c;
	char usage[64];

	r = smi->nvml.fan(device, &fan);
	c = cell(r, "", fan, "%");
	printf("| %3s", c.text);
	r = smi->nvml.temperature(device, NVML_TEMPERATURE_GPU, &temperature);
	c = cell(r, "", temperature, "C");
	printf("  %4s", c.text);
	r = smi->nvml.performance(device, &performance);
	c = cell(r, "P", performance, "");
	printf("    %-3s", c.text);
	r = smi->nvml.power(device, &power);
	c = cell(r, "", power / 1000, "W");
	printf(" %5s", c.text);
	r = smi->nvml.power_limit(device, &limit);
	c = cell(r, "", limit / 1000, "W");
	printf(" / %4s |", c.text);
	if (smi->nvml.memory(device, &memory) == NVML_SUCCESS)
		snprintf(usage, sizeof(usage), "%lluMiB / %5lluMiB", memory.used >> 20, memory.total >> 20);
	else
		strcpy(usage, "N/A");
	printf("%21s |", usage);
	r = smi->nvml.utilization(device, &utilization);
	c = cell(r, "", utilization.gpu, "%");
	printf(" %7s", c.text);
	r = smi->nvml.compute_mode(device, &mode);
	printf(" %12s |\n", r == NVML_SUCCESS ? compute_mode_name(mode) : "N/A");
}

static void print_third_line(const struct smi *smi, nvmlDevice_t device)
{
	unsigned current, pending;
	const char *mig = "N/A";

	if (smi->nvml.mig_mode(device, &current, &pending) == NVML_SUCCESS)
		mig = current ? "Enabled" : "Disabled";
	printf("|                               |                      | %20s |\n", mig);
}

static void print_process(const struct smi *smi, unsigned index, const nvmlProcessInfo_v2_t *info)
{
	char name[1024] = "", shown[PROCESS_NAME_WIDTH + 4];
	size_t length;

	if (smi->nvml.process_name(info->pid, name, sizeof(name)) != NVML_SUCCESS)
		strcpy(name, "[Not Found]");
	length = strlen(name);
	if (length > PROCESS_NAME_WIDTH)
		snprintf(shown, sizeof(shown), "...%s", name + length - (PROCESS_NAME_WIDTH - 3));
	else
		strcpy(shown, name);
	printf("| %4u   N/A  N/A %9u      C   %-*s %8lluMiB |\n", index, info->pid, PROCESS_NAME_WIDTH, shown,
		info->usedGpuMemory >> 20);
}

static void print_processes(const struct smi *smi)
{
	printf("\n" WIDE_RULE
	       "| Processes:                                                                  |\n"
	       "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n"
	       "|        ID   ID                                                   Usage      |\n"
	       "|=============================================================================|\n");
	for (unsigned i = 0; i < smi->count; i++) {
		_cleanup_free_ nvmlProcessInfo_v2_t *infos = NULL;
		unsigned count = smi_running(smi, smi->devices[i], &infos), index = i;

		smi->nvml.index(smi->devices[i], &index);
		for (unsigned p = 0; p < count; p++)
			print_process(smi, index, &infos[p]);
	}
	printf(WIDE_RULE);
}

int smi_table(const struct smi *smi)
{
	print_header(smi);
	for (unsigned i = 0; i < smi->count; i++) {
		print_first_line(smi, smi->devices[i]);
		print_second_line(smi, smi->devices[i]);
		print_third_line(smi, smi->devices[i]);
		printf(GPU_RULE);
	}
	print_processes(smi);
	return 0;
}
