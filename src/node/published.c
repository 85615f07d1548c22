#include "node/published.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/claims.h"
#include "node/registry.h"

#define MIB (UINT64_C(1) << 20)

int published_name(const char *uuid, char ret_name[PUBLISHED_NAME_SIZE])
{
	size_t len = strlen(uuid);

	if (!len || len >= PUBLISHED_NAME_SIZE)
		return -EINVAL;
	for (size_t i = 0; i <= len; i++) {
		char c = (char)tolower((unsigned char)uuid[i]);

		if (c && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
			return -EINVAL;
		ret_name[i] = c;
	}
	return ret_name[0] == '-' || ret_name[len - 1] == '-' ? -EINVAL : 0;
}

void published_version(const char *text, char ret_version[PUBLISHED_TEXT_SIZE])
{
	unsigned long part[3] = {0};

	ret_version[0] = '\0';
	for (int i = 0; i < 3; i++) {
		char *end;

		if (!isdigit((unsigned char)*text)) {
			if (i == 0)
				return;
			break;
		}
		part[i] = strtoul(text, &end, 10);
		if (*end != '.')
			break;
		text = end + 1;
	}
	snprintf(ret_version, PUBLISHED_TEXT_SIZE, "%lu.%lu.%lu", part[0], part[1], part[2]);
}

static const char *architecture_of(const struct gpu *gpu)
{
	static const struct {
		unsigned int from; /* ten times the compute capability */
		const char *name;
	} rows[] = {{100, "Blackwell"}, {90, "Hopper"}, {89, "Ada Lovelace"}, {80, "Ampere"}, {75, "Turing"},
		{70, "Volta"}, {60, "Pascal"}, {50, "Maxwell"}};
	unsigned int capability = gpu->compute_major * 10 + gpu->compute_minor;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (capability >= rows[i].from)
			return rows[i].name;
	return "";
}

/* NVML writes the domain with 8 digits; Linux and Kubernetes write it with 4 ("0000:00:09.0"). */
static void bus_id_of(const struct gpu *gpu, char ret_text[PUBLISHED_TEXT_SIZE])
{
	unsigned int domain, bus, device, function;

	ret_text[0] = '\0';
	if (sscanf(gpu->bus_id, "%8x:%2x:%2x.%1x", &domain, &bus, &device, &function) == 4)
		snprintf(ret_text, PUBLISHED_TEXT_SIZE, "%04x:%02x:%02x.%x", domain, bus, device, function);
}

static void number_version(unsigned int major, unsigned int minor, char ret_version[PUBLISHED_TEXT_SIZE])
{
	ret_version[0] = '\0';
	if (major)
		snprintf(ret_version, PUBLISHED_TEXT_SIZE, "%u.%u.0", major, minor);
}

size_t published_devices(const struct inventory *inventory, struct published_device *ret_devices)
{
	size_t n = 0;

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		struct published_device *device = &ret_devices[n];

		*device = (struct published_device){.gpu = gpu,
			.unit_bytes = inventory->unit_mib * MIB,
			.bytes = (uint64_t)gpu->units * inventory->unit_mib * MIB,
			.architecture = architecture_of(gpu)};
		if (!gpu->units || published_name(gpu->facts.uuid, device->name) < 0)
			continue;
		snprintf(device->product, sizeof(device->product), "%s", gpu->details.model);
		bus_id_of(gpu, device->bus_id);
		number_version(gpu->compute_major, gpu->compute_minor, device->compute_capability);
		number_version(inventory->cuda_major, inventory->cuda_minor, device->cuda_version);
		published_version(inventory->driver_version, device->driver_version);
		n++;
	}
	return n;
}

static uint64_t free_bytes(const struct node_registry *node, const struct published_device *device)
{
	uint64_t used = node_claims_mib(node, device->gpu->facts.uuid) * MIB;

	return used < device->bytes ? device->bytes - used : 0;
}

/* An insertion sort keeps the order of equal ones. */
void published_sort(const struct node_registry *node, struct published_device *devices, size_t n)
{
	uint64_t bytes[NODE_GPUS_MAX];

	if (node->placement != GPU_POLICY_SPREAD)
		return;
	for (size_t i = 0; i < n; i++) {
		struct published_device device = devices[i];
		uint64_t is_free = free_bytes(node, &device);
		size_t at = i;

		for (; at > 0 && bytes[at - 1] < is_free; at--) {
			devices[at] = devices[at - 1];
			bytes[at] = bytes[at - 1];
		}
		devices[at] = device;
		bytes[at] = is_free;
	}
}
