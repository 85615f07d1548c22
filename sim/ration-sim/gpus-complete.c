#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/ration-sim/gpus.h"

#define FIRST_PCI_DEVICE 9 /* GPU 0 is 00000000:00:09.0, as on the documented node */
#define GPUS_PER_BUS 16

/* Returns the CUDA version that came with a driver branch. Source: CUDA toolkit release notes, table of
 * driver versions; 595.99.02 and 615.71.09 report it themselves. */
static uint32_t cuda_of_branch(unsigned branch)
{
	static const struct {
		unsigned branch;
		uint32_t cuda;
	} table[] = {{615, 13040}, {595, 13020}, {580, 13000}, {570, 12080}, {560, 12060}, {550, 12040},
		{535, 12020}, {525, 12000}, {515, 11070}, {510, 11060}, {470, 11040}, {460, 11020},
		{450, 11000}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (branch >= table[i].branch)
			return table[i].cuda;
	return 10020;
}

int gpus_set_driver(struct sim_state *state, const char *version, struct error *err)
{
	size_t n = strspn(version, "0123456789.");

	/* The version becomes part of a file name. */
	if (version[n] || n < 3 || n > 20 || !isdigit((unsigned char)version[0]) ||
		!isdigit((unsigned char)version[n - 1]) || !strchr(version, '.') || strstr(version, ".."))
		return error_set(
			err, EINVAL, "\"%.40s\" is not a driver version like " GPUS_DEFAULT_DRIVER, version);
	memset(state->driver_version, 0, sizeof(state->driver_version));
	strcpy(state->driver_version, version);
	state->cuda_version = cuda_of_branch((unsigned)strtoul(version, NULL, 10));
	return 0;
}

void gpus_adopt(struct sim_state *state, const struct sim_state *old, bool everything)
{
	for (uint32_t i = 0; i < state->gpu_count && i < old->gpu_count; i++) {
		struct sim_gpu *gpu = &state->gpus[i];
		const struct sim_gpu *before = &old->gpus[i];

		if (gpu->uuid[0] || gpu->memory_bytes != before->memory_bytes)
			continue;
		if (everything) {
			*gpu = *before;
		} else if (strcmp(gpu->name, before->name) == 0) {
			memcpy(gpu->uuid, before->uuid, sizeof(gpu->uuid));
			if (!gpu->serial[0])
				memcpy(gpu->serial, before->serial, sizeof(gpu->serial));
		}
	}
	/* Links name GPUs by index. Links to a GPU that no longer exists are removed. */
	for (uint32_t i = 0; everything && i < state->gpu_count; i++) {
		struct sim_gpu *gpu = &state->gpus[i];
		uint32_t kept = 0;

		for (uint32_t l = 0; l < gpu->link_count; l++)
			if (gpu->links[l] < state->gpu_count || gpu->links[l] == SIM_LINK_SWITCH)
				gpu->links[kept++] = gpu->links[l];
		memset(gpu->links + kept, 0, sizeof(gpu->links) - kept);
		gpu->link_count = kept;
	}
}

static int make_uuid(char *uuid, size_t size)
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		return -EIO;
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(uuid, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
	return 0;
}

static bool is_uuid(const char *text)
{
	static const char pattern[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (strlen(text) != sizeof(pattern) - 1)
		return false;
	for (size_t i = 0; i < sizeof(pattern) - 1; i++) {
		bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');

		if (pattern[i] == 'x' ? !digit : text[i] != pattern[i])
			return false;
	}
	return true;
}

static bool is_bus_id(const char *text)
{
	unsigned domain, bus, device;
	char again[24];

	if (sscanf(text, "%8x:%2x:%2x.0", &domain, &bus, &device) != 3 || device > 0x1f)
		return false;
	snprintf(again, sizeof(again), "%08X:%02X:%02X.0", domain, bus, device);
	return strcmp(again, text) == 0;
}

/* The GPU's generation decides more than its own number. */
static void derive(struct sim_gpu *gpu)
{
	static const unsigned char generations[] = {
		[7] = NVML_DEVICE_ARCH_VOLTA,
		[8] = NVML_DEVICE_ARCH_AMPERE,
		[9] = NVML_DEVICE_ARCH_HOPPER,
		[10] = NVML_DEVICE_ARCH_BLACKWELL,
	};

	gpu->architecture = NVML_DEVICE_ARCH_BLACKWELL;
	if (gpu->compute_major < ARRAY_SIZE(generations))
		gpu->architecture = generations[gpu->compute_major];
	if (gpu->compute_major == 7 && gpu->compute_minor >= 5)
		gpu->architecture = NVML_DEVICE_ARCH_TURING;
	if (gpu->compute_major == 8 && gpu->compute_minor == 9)
		gpu->architecture = NVML_DEVICE_ARCH_ADA;
	gpu->brand = strncmp(gpu->name, "Tesla", 5) == 0 ? NVML_BRAND_TESLA : NVML_BRAND_NVIDIA;
}

static int complete_gpu(struct sim_gpu *gpu, uint32_t index, uint32_t count, struct error *err)
{
	if (!gpu->uuid[0] && make_uuid(gpu->uuid, sizeof(gpu->uuid)) < 0)
		return error_set(err, EIO, "GPU %u: no random numbers for a UUID", index);
	if (!is_uuid(gpu->uuid))
		return error_set(err, EINVAL,
			"GPU %u: \"%s\" is not like GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in lower-case hexadecimal digits",
			index, gpu->uuid);
	if (!gpu->serial[0])
		snprintf(gpu->serial, sizeof(gpu->serial), "%013llu",
			strtoull(gpu->uuid + 4, NULL, 16) * 1000 + index);
	if (!gpu->bus_id[0])
		snprintf(gpu->bus_id, sizeof(gpu->bus_id), "00000000:%02X:%02X.0", index / GPUS_PER_BUS,
			FIRST_PCI_DEVICE + index % GPUS_PER_BUS);
	if (!is_bus_id(gpu->bus_id))
		return error_set(
			err, EINVAL, "GPU %u: \"%s\" is not like 00000000:00:09.0", index, gpu->bus_id);
	for (uint32_t l = 0; l < gpu->link_count; l++)
		if (gpu->links[l] != SIM_LINK_SWITCH && (gpu->links[l] >= count || gpu->links[l] == index))
			return error_set(err, EINVAL, "GPU %u: \"links\" names GPU %u, which does not exist",
				index, gpu->links[l]);
	gpu->minor = index;
	gpu->board_id = 0x900 + index;
	derive(gpu);
	return 0;
}

static unsigned links_between(const struct sim_state *state, uint32_t from, uint32_t to)
{
	unsigned count = 0;

	for (uint32_t l = 0; l < state->gpus[from].link_count; l++)
		count += state->gpus[from].links[l] == to;
	return count;
}

static int check_pair(const struct sim_state *state, uint32_t a, uint32_t b, struct error *err)
{
	if (strcmp(state->gpus[a].uuid, state->gpus[b].uuid) == 0)
		return error_set(
			err, EINVAL, "GPUs %u and %u have the same \"uuid\" %s", a, b, state->gpus[a].uuid);
	if (strcmp(state->gpus[a].bus_id, state->gpus[b].bus_id) == 0)
		return error_set(err, EINVAL, "GPUs %u and %u have the same \"busId\" %s", a, b,
			state->gpus[a].bus_id);
	if (strcmp(state->gpus[a].serial, state->gpus[b].serial) == 0)
		return error_set(err, EINVAL, "GPUs %u and %u have the same \"serial\" %s", a, b,
			state->gpus[a].serial);
	if (links_between(state, a, b) != links_between(state, b, a))
		return error_set(err, EINVAL, "GPU %u has %u links to GPU %u, which has %u back", a,
			links_between(state, a, b), b, links_between(state, b, a));
	return 0;
}

int gpus_complete(struct sim_state *state, struct error *err)
{
	int r;

	if (!state->driver_version[0]) {
		r = gpus_set_driver(state, GPUS_DEFAULT_DRIVER, err);
		if (r < 0)
			return r;
	}
	for (uint32_t i = 0; i < state->gpu_count; i++) {
		r = complete_gpu(&state->gpus[i], i, state->gpu_count, err);
		if (r < 0)
			return r;
	}
	for (uint32_t a = 0; a < state->gpu_count; a++)
		for (uint32_t b = a + 1; b < state->gpu_count; b++) {
			r = check_pair(state, a, b, err);
			if (r < 0)
				return r;
		}
	return 0;
}
