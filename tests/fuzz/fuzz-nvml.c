/* What NVIDIA's management library answers: every call takes its answer from the input, byte by byte; when
 * the input has ended, calls succeed with zeros. The first byte: bits say which of the newer functions the
 * library has. */
#include "fuzz.h"

#include <dlfcn.h>
#include <errno.h>

#include "nvml/abi.h"
#include "nvml/nvml.h"
#include "nvml/watch.h"

const unsigned int fuzz_rounds = 10000;
/* Results of NVML: a first byte below 0x80 is a success. */
const char *const fuzz_words[] = {"\x83", "\x84", "\x86", "\x87", "\x89", "\x8a", "\x8f", "\x90", "\x92",
	"GPU-a", "GPU-b", "00000000:00:09.0", "\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff", NULL};

static const uint8_t *input;
static size_t left, n_sets, n_inits;
static bool has_mig, has_topology, is_long, has_graphics, has_use;

static uint8_t byte(void)
{
	if (!left)
		return 0;
	left--;
	return *input++;
}

static void fill(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = byte();
}

static uint32_t number(void)
{
	uint32_t value;

	fill(&value, sizeof(value));
	return value;
}

static int result(void)
{
	uint8_t b = byte();

	return b < 0x80 ? NVML_SUCCESS : b & 0x7f;
}

/* As the library promises: a text that ends within size. */
static void text(char *to, unsigned size)
{
	size_t n = byte() % size;

	fill(to, n);
	to[n] = '\0';
}

static nvml_device device_of(unsigned index)
{
	return (nvml_device)(uintptr_t)(index + 1);
}

static int init(void)
{
	int r = result();

	n_inits += r == NVML_SUCCESS;
	return r;
}

static int shutdown_(void)
{
	MUST(n_inits-- > 0);
	return 0;
}

static const char *error_string(int code)
{
	return code % 2 ? "an error" : "";
}

static int driver_version(char *to, unsigned size)
{
	text(to, size);
	return result();
}

static int cuda_version(int *ret)
{
	*ret = (int)number();
	return result();
}

static int device_count(unsigned *ret)
{
	*ret = byte() % 70;
	return result();
}

static int by_index(unsigned index, nvml_device *ret)
{
	int r = result();

	if (r == NVML_SUCCESS)
		*ret = device_of(index);
	return r;
}

/* The same handle for the same name. */
static int by_uuid(const char *uuid, nvml_device *ret)
{
	int r = result();

	MUST(strlen(uuid) < 96);
	if (r == NVML_SUCCESS)
		*ret = device_of((unsigned char)uuid[0] + 1);
	return r;
}

static int get_number(nvml_device device, unsigned *ret)
{
	MUST(device);
	*ret = number();
	return result();
}

static int get_text(nvml_device device, char *to, unsigned size)
{
	MUST(device);
	text(to, size);
	return result();
}

static int get_pci(nvml_device device, struct nvml_pci_info *ret)
{
	MUST(device);
	fill(ret, sizeof(*ret));
	return result();
}

static int get_memory(nvml_device device, struct nvml_memory *ret)
{
	MUST(device);
	fill(ret, sizeof(*ret));
	return result();
}

static int get_mig(nvml_device device, unsigned *current, unsigned *waiting)
{
	*current = *waiting = byte() & 1;
	return result();
}

static int get_affinity(nvml_device device, unsigned words, unsigned long *ret, unsigned scope)
{
	for (unsigned i = 0; i < words; i++)
		ret[i] = i == 0 ? byte() : 0;
	return result();
}

static int get_fields(nvml_device device, int count, struct nvml_field_value *values)
{
	MUST(count == 1);
	values->value.u = byte();
	values->result = result();
	return result();
}

/* *count may come back larger than the room was. */
static int get_processes(nvml_device device, unsigned *count, void *infos)
{
	size_t size = sizeof(struct nvml_process_info) + (is_long ? 8 : 0), n = byte() % 40;

	MUST(device && *count >= n);
	for (size_t i = 0; i < n; i++) {
		struct nvml_process_info info = {.pid = byte(), .bytes = byte() ? number() : ~0ull};

		memset((char *)infos + i * size, 0xff, size);
		memcpy((char *)infos + i * size, &info, sizeof(info));
	}
	*count = byte() == 0xff ? number() : (unsigned)n;
	return result();
}

static int get_rates(nvml_device device, struct nvml_utilization_rates *ret)
{
	fill(ret, sizeof(*ret));
	return result();
}

static int get_samples(
	nvml_device device, struct nvml_process_sample *samples, unsigned *count, unsigned long long since_us)
{
	size_t n = byte() % 40;

	MUST(*count >= n);
	for (size_t i = 0; i < n; i++)
		samples[i] = (struct nvml_process_sample){
			.pid = byte(), .time_us = (uint64_t)number() << 20, .sm_percent = number()};
	*count = byte() == 0xff ? number() : (unsigned)n;
	return result();
}

static int get_ancestor(nvml_device a, nvml_device b, unsigned *ret)
{
	MUST(a && b);
	*ret = byte();
	return result();
}

static int get_link(nvml_device device, unsigned link, unsigned *ret)
{
	MUST(device && link < NVML_LINKS_MAX);
	*ret = byte() % 4;
	return result();
}

static int get_link_pci(nvml_device device, unsigned link, struct nvml_pci_info *ret)
{
	ret->domain = 0;
	ret->bus = byte() % 4;
	ret->device = byte() % 4;
	return result();
}

static int get_types(nvml_device device, unsigned long long *ret)
{
	*ret = byte();
	return result();
}

static int register_events(nvml_device device, unsigned long long types, nvml_event_set set)
{
	MUST(device && set && types);
	return result();
}

static int create_set(nvml_event_set *ret)
{
	int r = result();

	if (r == NVML_SUCCESS) {
		n_sets++;
		*ret = &n_sets;
	}
	return r;
}

static int free_set(nvml_event_set set)
{
	MUST(set && n_sets-- > 0);
	return 0;
}

/* No event without a byte of the input, or there would be no end. */
static int wait_event(nvml_event_set set, struct nvml_event *ret, unsigned timeout_ms)
{
	MUST(set && timeout_ms == 0);
	if (!left || byte() < 0x80)
		return NVML_ERROR_TIMEOUT;
	*ret = (struct nvml_event){.device = device_of(byte()), .type = byte() & 0xf, .data = byte()};
	return NVML_SUCCESS;
}

static int nothing(void)
{
	MUST(!"called");
	return 0;
}

static const struct {
	const char *name;
	void *function;
	const bool *there; /* NULL: always */
} functions[] = {
	{"nvmlInit_v2", init, NULL},
	{"nvmlShutdown", shutdown_, NULL},
	{"nvmlErrorString", error_string, NULL},
	{"nvmlSystemGetDriverVersion", driver_version, NULL},
	{"nvmlSystemGetCudaDriverVersion_v2", cuda_version, NULL},
	{"nvmlDeviceGetCount_v2", device_count, NULL},
	{"nvmlDeviceGetHandleByIndex_v2", by_index, NULL},
	{"nvmlDeviceGetHandleByUUID", by_uuid, NULL},
	{"nvmlDeviceGetIndex", get_number, NULL},
	{"nvmlDeviceGetMinorNumber", get_number, NULL},
	{"nvmlDeviceGetUUID", get_text, NULL},
	{"nvmlDeviceGetName", get_text, NULL},
	{"nvmlDeviceGetPciInfo_v3", get_pci, NULL},
	{"nvmlDeviceGetMemoryInfo", get_memory, NULL},
	{"nvmlDeviceGetComputeMode", get_number, NULL},
	{"nvmlDeviceGetMigMode", get_mig, &has_mig},
	{"nvmlDeviceGetMemoryAffinity", get_affinity, &has_mig},
	{"nvmlDeviceGetFieldValues", get_fields, NULL},
	{"nvmlDeviceGetComputeRunningProcesses_v3", get_processes, NULL},
	{"nvmlDeviceGetGraphicsRunningProcesses_v3", get_processes, &has_graphics},
	{"nvmlDeviceGetUtilizationRates", get_rates, &has_use},
	{"nvmlDeviceGetProcessUtilization", get_samples, &has_use},
	{"nvmlDeviceGetTopologyCommonAncestor", get_ancestor, &has_topology},
	{"nvmlDeviceGetNvLinkState", get_link, &has_topology},
	{"nvmlDeviceGetNvLinkVersion", get_link, &has_topology},
	{"nvmlDeviceGetNvLinkRemoteDeviceType", get_link, &has_topology},
	{"nvmlDeviceGetNvLinkRemotePciInfo_v2", get_link_pci, &has_topology},
	{"nvmlDeviceGetSupportedEventTypes", get_types, NULL},
	{"nvmlDeviceRegisterEvents", register_events, NULL},
	{"nvmlEventSetCreate", create_set, NULL},
	{"nvmlEventSetFree", free_set, NULL},
	{"nvmlEventSetWait_v2", wait_event, NULL},
	{"nvmlDeviceGetConfComputeMemSizeInfo", nothing, &is_long},
};

static void *function_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (strcmp(functions[i].name, name) == 0)
			return !functions[i].there || *functions[i].there ? functions[i].function : NULL;
	return NULL;
}

static void *library_open(const char *path, int flags)
{
	return &n_sets;
}

static int library_close(void *library)
{
	MUST(library == &n_sets);
	return 0;
}

/* Not by the linker: sanitizers need libc's functions of these names themselves. */
#define dlopen library_open
#define dlsym(library, name) function_find(name)
#define dlclose library_close
#include "nvml/nvml.c"

static void check_inventory(const struct nvml_inventory *inventory)
{
	MUST(inventory->count + inventory->unreachable <= NVML_MAX_GPUS);
	MUST(memchr(inventory->driver_version, 0, sizeof(inventory->driver_version)));
	for (size_t i = 0; i < inventory->count; i++) {
		const struct nvml_gpu *gpu = &inventory->gpus[i];

		MUST(gpu->index < NVML_MAX_GPUS && gpu->numa_node >= -1);
		MUST(memchr(gpu->uuid, 0, sizeof(gpu->uuid)) && memchr(gpu->name, 0, sizeof(gpu->name)) &&
			memchr(gpu->bus_id, 0, sizeof(gpu->bus_id)));
	}
}

static void check_processes(struct nvml *nvml, const char *uuid)
{
	static struct nvml_process list[NVML_MAX_PROCESSES];
	size_t count = NVML_MAX_PROCESSES + 1;
	int r = nvml_processes(nvml, uuid, list, &count);

	MUST(r <= 0 && (r == 0 ? count <= NVML_MAX_PROCESSES : count == NVML_MAX_PROCESSES + 1));
	for (size_t i = 0; r == 0 && i < count; i++)
		for (size_t k = 0; k < i; k++)
			MUST(list[i].pid != list[k].pid);
}

static void check_use(struct nvml *nvml, const char *uuid)
{
	static struct nvml_process_use list[NVML_MAX_PROCESSES];
	unsigned percent = 101;
	uint64_t since = 0;
	size_t count = 0;

	if (nvml_utilization(nvml, uuid, &since, &percent, list, &count) < 0)
		return;
	MUST(percent <= 100 && count <= NVML_MAX_PROCESSES);
	for (size_t i = 0; i < count; i++) {
		MUST(list[i].percent <= 100);
		for (size_t k = 0; k < i; k++)
			MUST(list[i].pid != list[k].pid);
	}
}

static void check_links(struct nvml *nvml, const struct nvml_inventory *inventory)
{
	static struct nvml_links links;

	nvml_links(nvml, inventory, &links);
	for (size_t a = 0; a < inventory->count; a++)
		for (size_t b = 0; b < inventory->count; b++)
			MUST(links.between[a][b].path == links.between[b][a].path &&
				links.between[a][b].nvlinks == links.between[b][a].nvlinks &&
				links.between[a][b].nvlinks <= NVML_LINKS_MAX);
}

/* Only changes are told, each with its reason. */
static void check_watch(struct nvml *nvml, const struct nvml_inventory *inventory)
{
	bool healthy[NVML_MAX_GPUS];
	struct nvml_change changes[NVML_MAX_GPUS];
	struct nvml_watch *watch;
	struct error err = {""};

	memset(healthy, true, sizeof(healthy));
	MUST(nvml_watch_open(&watch, nvml, inventory, &err) == 0);
	for (int turn = 0; turn < 5; turn++) {
		size_t n = nvml_watch_poll(watch, turn * NVML_WATCH_RETRY_NS, changes, NVML_MAX_GPUS);

		MUST(n <= inventory->count);
		for (size_t i = 0; i < n; i++) {
			MUST(changes[i].gpu < inventory->count);
			MUST(changes[i].healthy != healthy[changes[i].gpu]);
			MUST(changes[i].healthy == !*changes[i].reason);
			healthy[changes[i].gpu] = changes[i].healthy;
		}
	}
	nvml_watch_close(watch);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nvml_inventory inventory;
	struct error err = {""};
	struct nvml *nvml;

	if (!size)
		return 0;
	input = data + 1;
	left = size - 1;
	has_mig = data[0] & 1;
	has_topology = data[0] & 2;
	is_long = data[0] & 4;
	has_graphics = data[0] & 8;
	has_use = data[0] & 16;
	n_sets = n_inits = 0;
	if (nvml_open(&nvml, "/nowhere", &err) < 0) {
		MUST(err.text[0] && !n_inits);
		return 0;
	}
	if (nvml_inventory(nvml, &inventory, &err) == 0) {
		check_inventory(&inventory);
		for (size_t i = 0; i < inventory.count && i < 2; i++) {
			check_processes(nvml, inventory.gpus[i].uuid);
			check_use(nvml, inventory.gpus[i].uuid);
		}
		check_links(nvml, &inventory);
		check_watch(nvml, &inventory);
	} else {
		MUST(err.text[0]);
	}
	nvml_close(nvml);
	MUST(!n_sets && !n_inits);
	return 0;
}
