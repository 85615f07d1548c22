/* query.c - `-L` and `--query-gpu`. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "sim/nvidia-smi/smi.h"

#define MAX_FIELDS 64
#define VALUE_SIZE 128

/* Writes the value without its unit. Any result but success is printed as not available. */
typedef nvmlReturn_t (*reader)(const struct smi *smi, nvmlDevice_t device, char *value);

int smi_list(const struct smi *smi)
{
	for (unsigned i = 0; i < smi->count; i++) {
		char name[96] = "", uuid[96] = "";
		unsigned index = i;

		smi->nvml.index(smi->devices[i], &index);
		smi->nvml.name(smi->devices[i], name, sizeof(name));
		smi->nvml.uuid(smi->devices[i], uuid, sizeof(uuid));
		printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
	}
	return 0;
}

static nvmlReturn_t unsigned_value(nvmlReturn_t r, unsigned long long number, char *value)
{
	if (r == NVML_SUCCESS)
		snprintf(value, VALUE_SIZE, "%llu", number);
	return r;
}

static nvmlReturn_t word_value(nvmlReturn_t r, unsigned on, char *value)
{
	if (r == NVML_SUCCESS)
		strcpy(value, on ? "Enabled" : "Disabled");
	return r;
}

static nvmlReturn_t read_timestamp(const struct smi *smi, nvmlDevice_t device, char *value)
{
	struct timespec now;
	struct tm local;
	char seconds[40];

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(seconds, sizeof(seconds), "%Y/%m/%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
	snprintf(value, VALUE_SIZE, "%s.%03ld", seconds, now.tv_nsec / 1000000);
	return NVML_SUCCESS;
}

static nvmlReturn_t read_driver(const struct smi *smi, nvmlDevice_t device, char *value)
{
	return smi->nvml.driver_version(value, VALUE_SIZE);
}

static nvmlReturn_t read_count(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned count = 0;

	return unsigned_value(smi->nvml.count(&count), count, value);
}

static nvmlReturn_t read_index(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned index = 0;
	nvmlReturn_t r = smi->nvml.index(device, &index);

	return unsigned_value(r, index, value);
}

static nvmlReturn_t read_name(const struct smi *smi, nvmlDevice_t device, char *value)
{
	return smi->nvml.name(device, value, VALUE_SIZE);
}

static nvmlReturn_t read_uuid(const struct smi *smi, nvmlDevice_t device, char *value)
{
	return smi->nvml.uuid(device, value, VALUE_SIZE);
}

static nvmlReturn_t read_serial(const struct smi *smi, nvmlDevice_t device, char *value)
{
	return smi->nvml.serial(device, value, VALUE_SIZE);
}

static nvmlReturn_t read_bus_id(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlPciInfo_t pci = {};
	nvmlReturn_t r = smi->nvml.pci(device, &pci);

	if (r == NVML_SUCCESS)
		snprintf(value, VALUE_SIZE, "%s", pci.busId);
	return r;
}

static nvmlReturn_t read_memory_total(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlMemory_t memory = {};
	nvmlReturn_t r = smi->nvml.memory(device, &memory);

	return unsigned_value(r, memory.total >> 20, value);
}

static nvmlReturn_t read_memory_used(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlMemory_t memory = {};
	nvmlReturn_t r = smi->nvml.memory(device, &memory);

	return unsigned_value(r, memory.used >> 20, value);
}

static nvmlReturn_t read_memory_free(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlMemory_t memory = {};
	nvmlReturn_t r = smi->nvml.memory(device, &memory);

	return unsigned_value(r, memory.free >> 20, value);
}

static nvmlReturn_t read_gpu_utilization(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlUtilization_t utilization = {};
	nvmlReturn_t r = smi->nvml.utilization(device, &utilization);

	return unsigned_value(r, utilization.gpu, value);
}

static nvmlReturn_t read_memory_utilization(const struct smi *smi, nvmlDevice_t device, char *value)
{
	nvmlUtilization_t utilization = {};
	nvmlReturn_t r = smi->nvml.utilization(device, &utilization);

	return unsigned_value(r, utilization.memory, value);
}

static nvmlReturn_t read_temperature(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned celsius = 0;
	nvmlReturn_t r = smi->nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius);

	return unsigned_value(r, celsius, value);
}

static nvmlReturn_t read_fan(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned percent = 0;
	nvmlReturn_t r = smi->nvml.fan(device, &percent);

	return unsigned_value(r, percent, value);
}

static nvmlReturn_t watts(nvmlReturn_t r, unsigned milliwatts, char *value)
{
	if (r == NVML_SUCCESS)
		snprintf(value, VALUE_SIZE, "%u.%02u", milliwatts / 1000, milliwatts % 1000 / 10);
	return r;
}

static nvmlReturn_t read_power(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned milliwatts = 0;
	nvmlReturn_t r = smi->nvml.power(device, &milliwatts);

	return watts(r, milliwatts, value);
}

static nvmlReturn_t read_power_limit(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned milliwatts = 0;
	nvmlReturn_t r = smi->nvml.power_limit(device, &milliwatts);

	return watts(r, milliwatts, value);
}

static nvmlReturn_t read_pstate(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned state = 0;
	nvmlReturn_t r = smi->nvml.performance(device, &state);

	if (r == NVML_SUCCESS)
		snprintf(value, VALUE_SIZE, "P%u", state);
	return r;
}

static nvmlReturn_t read_persistence(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned on = 0;
	nvmlReturn_t r = smi->nvml.persistence(device, &on);

	return word_value(r, on, value);
}

static nvmlReturn_t read_display_active(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned on = 0;
	nvmlReturn_t r = smi->nvml.display_active(device, &on);

	return word_value(r, on, value);
}

static nvmlReturn_t read_display_mode(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned on = 0;
	nvmlReturn_t r = smi->nvml.display_mode(device, &on);

	return word_value(r, on, value);
}

static nvmlReturn_t read_compute_mode(const struct smi *smi, nvmlDevice_t device, char *value)
{
	static const char *const names[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
	unsigned mode = 0;
	nvmlReturn_t r = smi->nvml.compute_mode(device, &mode);

	if (r == NVML_SUCCESS)
		strcpy(value, mode < ARRAY_SIZE(names) ? names[mode] : "[Unknown]");
	return r;
}

static nvmlReturn_t read_compute_cap(const struct smi *smi, nvmlDevice_t device, char *value)
{
	int major = 0, minor = 0;
	nvmlReturn_t r = smi->nvml.compute_capability(device, &major, &minor);

	if (r == NVML_SUCCESS)
		snprintf(value, VALUE_SIZE, "%d.%d", major, minor);
	return r;
}

static nvmlReturn_t read_ecc_mode(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned current = 0, pending = 0;
	nvmlReturn_t r = smi->nvml.ecc_mode(device, &current, &pending);

	return word_value(r, current, value);
}

static nvmlReturn_t read_ecc_errors(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned long long count = 0;
	nvmlReturn_t r = smi->nvml.ecc_errors(
		device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &count);

	return unsigned_value(r, count, value);
}

static nvmlReturn_t read_mig_mode(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned current = 0, pending = 0;
	nvmlReturn_t r = smi->nvml.mig_mode(device, &current, &pending);

	return word_value(r, current, value);
}

static nvmlReturn_t read_sm_clock(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned mhz = 0;
	nvmlReturn_t r = smi->nvml.clock(device, NVML_CLOCK_SM, &mhz);

	return unsigned_value(r, mhz, value);
}

static nvmlReturn_t read_memory_clock(const struct smi *smi, nvmlDevice_t device, char *value)
{
	unsigned mhz = 0;
	nvmlReturn_t r = smi->nvml.clock(device, NVML_CLOCK_MEM, &mhz);

	return unsigned_value(r, mhz, value);
}

/* `alias` is an older name that is accepted, and printed as the user wrote it. */
static const struct field {
	const char *name, *alias, *unit;
	reader read;
} known[] = {
	{"timestamp", NULL, NULL, read_timestamp},
	{"driver_version", NULL, NULL, read_driver},
	{"count", NULL, NULL, read_count},
	{"index", NULL, NULL, read_index},
	{"name", "gpu_name", NULL, read_name},
	{"uuid", "gpu_uuid", NULL, read_uuid},
	{"serial", "gpu_serial", NULL, read_serial},
	{"pci.bus_id", "gpu_bus_id", NULL, read_bus_id},
	{"memory.total", NULL, "MiB", read_memory_total},
	{"memory.used", NULL, "MiB", read_memory_used},
	{"memory.free", NULL, "MiB", read_memory_free},
	{"utilization.gpu", NULL, "%", read_gpu_utilization},
	{"utilization.memory", NULL, "%", read_memory_utilization},
	{"temperature.gpu", NULL, NULL, read_temperature},
	{"fan.speed", NULL, "%", read_fan},
	{"power.draw", NULL, "W", read_power},
	{"power.limit", "enforced.power.limit", "W", read_power_limit},
	{"pstate", NULL, NULL, read_pstate},
	{"persistence_mode", NULL, NULL, read_persistence},
	{"display_active", NULL, NULL, read_display_active},
	{"display_mode", NULL, NULL, read_display_mode},
	{"compute_mode", NULL, NULL, read_compute_mode},
	{"compute_cap", NULL, NULL, read_compute_cap},
	{"ecc.mode.current", NULL, NULL, read_ecc_mode},
	{"ecc.errors.uncorrected.volatile.total", NULL, NULL, read_ecc_errors},
	{"mig.mode.current", NULL, NULL, read_mig_mode},
	{"clocks.current.sm", "clocks.sm", "MHz", read_sm_clock},
	{"clocks.current.memory", "clocks.mem", "MHz", read_memory_clock},
};

struct query {
	const struct field *fields[MAX_FIELDS];
	const char *names[MAX_FIELDS]; /* as the user wrote them */
	unsigned count;
	bool header, units;
};

void smi_query_help(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		printf("\"%s\"%s%s%s\n", known[i].name, known[i].alias ? " or \"" : "",
			known[i].alias ? known[i].alias : "", known[i].alias ? "\"" : "");
}

static const struct field *find_field(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0 || (known[i].alias && strcmp(known[i].alias, name) == 0))
			return &known[i];
	return NULL;
}

/* Splits `fields`; the names then point into it. */
static int parse_fields(char *fields, struct query *query)
{
	char *name;

	while ((name = strsep(&fields, ","))) {
		while (*name == ' ')
			name++;
		query->fields[query->count] = find_field(name);
		if (!query->fields[query->count] || query->count + 1 >= MAX_FIELDS) {
			printf("Field \"%s\" is not a valid field to query.\n\n", name);
			return SMI_BAD_ARGUMENT;
		}
		query->names[query->count++] = name;
	}
	return 0;
}

static int parse_format(char *format, struct query *query)
{
	bool csv = false;
	char *word;

	query->header = query->units = true;
	while ((word = strsep(&format, ","))) {
		while (*word == ' ')
			word++;
		if (strcmp(word, "csv") == 0) {
			csv = true;
		} else if (strcmp(word, "noheader") == 0) {
			query->header = false;
		} else if (strcmp(word, "nounits") == 0) {
			query->units = false;
		} else {
			printf("\"--format=\" value is invalid: \"%s\". Allowed: csv, noheader, nounits.\n",
				word);
			return SMI_BAD_ARGUMENT;
		}
	}
	if (!csv)
		printf("\"--format=\" must say csv.\n");
	return csv ? 0 : SMI_BAD_ARGUMENT;
}

static void print_row(const struct smi *smi, const struct query *query, nvmlDevice_t device)
{
	for (unsigned f = 0; f < query->count; f++) {
		const struct field *field = query->fields[f];
		char value[VALUE_SIZE] = "";
		nvmlReturn_t r = field->read(smi, device, value);

		printf("%s", f ? ", " : "");
		if (r == NVML_ERROR_GPU_IS_LOST)
			printf("[GPU is lost]");
		else if (r != NVML_SUCCESS)
			printf("[N/A]");
		else
			printf("%s%s%s", value, field->unit && query->units ? " " : "",
				field->unit && query->units ? field->unit : "");
	}
	printf("\n");
}

int smi_query(const struct smi *smi, const char *fields, const char *format)
{
	_cleanup_free_ char *field_text = strdup(fields), *format_text = strdup(format ? format : "");
	struct query query = {};
	int rc;

	if (!field_text || !format_text)
		return SMI_BAD_ARGUMENT;
	rc = parse_format(format_text, &query);
	if (rc == 0)
		rc = parse_fields(field_text, &query);
	if (rc != 0)
		return rc;
	for (unsigned f = 0; query.header && f < query.count; f++)
		printf("%s%s%s%s%s", f ? ", " : "", query.names[f], query.fields[f]->unit ? " [" : "",
			query.fields[f]->unit ? query.fields[f]->unit : "", query.fields[f]->unit ? "]" : "");
	if (query.header)
		printf("\n");
	for (unsigned i = 0; i < smi->count; i++)
		print_row(smi, &query, smi->devices[i]);
	return 0;
}
