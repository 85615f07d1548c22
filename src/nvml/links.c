/* links.c - reads how the GPUs are connected: NVLink and PCIe. */
#include "nvml/nvml.h"

#include <stdio.h>
#include <string.h>

#include "nvml/abi.h"

/* The other ends of one GPU's links. */
struct ends {
	uint8_t to_gpu[NVML_MAX_GPUS];
	uint8_t to_switch;
};

/* From data sheets: P100; V100, A100 and H100; B200. The driver counts generations
 * (nvmlDeviceGetNvLinkVersion). */
static unsigned gbps_of(unsigned version)
{
	return version <= 1 ? 20 : version <= 4 ? 25 : 50;
}

static uint8_t path_of(unsigned level)
{
	switch (level) {
	case NVML_TOPOLOGY_INTERNAL:
	case NVML_TOPOLOGY_SINGLE:
		return NVML_PATH_PIX;
	case NVML_TOPOLOGY_MULTIPLE:
		return NVML_PATH_PXB;
	case NVML_TOPOLOGY_HOSTBRIDGE:
		return NVML_PATH_PHB;
	case NVML_TOPOLOGY_NODE:
		return NVML_PATH_NODE;
	case NVML_TOPOLOGY_SYSTEM:
		return NVML_PATH_SYS;
	default:
		return NVML_PATH_UNKNOWN;
	}
}

static bool is_at(const struct nvml_gpu *gpu, const struct nvml_pci_info *pci)
{
	unsigned domain, bus, device;

	return sscanf(gpu->bus_id, "%x:%x:%x.", &domain, &bus, &device) == 3 && domain == pci->domain &&
	       bus == pci->bus && device == pci->device;
}

/* In a virtual machine a switch need not be on the bus, so it is recognised by its type, not by its
 * address. */
static void follow_link(const struct nvml_functions *f, const struct nvml_inventory *inventory,
	nvml_device device, unsigned link, struct ends *ends)
{
	struct nvml_pci_info pci = {};
	unsigned type;

	if (f->link_remote_type && f->link_remote_type(device, link, &type) == NVML_SUCCESS &&
		type == NVML_NVLINK_DEVICE_SWITCH) {
		ends->to_switch++;
		return;
	}
	if (f->link_remote_pci(device, link, &pci) != NVML_SUCCESS)
		return;
	for (size_t i = 0; i < inventory->count; i++)
		if (is_at(&inventory->gpus[i], &pci)) {
			ends->to_gpu[i]++;
			return;
		}
}

static void follow_links(const struct nvml_functions *f, const struct nvml_inventory *inventory,
	nvml_device device, struct ends *ends, unsigned *gbps)
{
	unsigned active, version;

	for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
		if (f->link_state(device, link, &active) != NVML_SUCCESS || !active)
			continue;
		if (!*gbps && f->link_version && f->link_version(device, link, &version) == NVML_SUCCESS)
			*gbps = gbps_of(version);
		follow_link(f, inventory, device, link, ends);
	}
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

void nvml_links(struct nvml *nvml, const struct nvml_inventory *inventory, struct nvml_links *ret_links)
{
	const struct nvml_functions *f = nvml_table(nvml);
	bool has_nvlink = f->link_state && f->link_remote_pci;
	nvml_device devices[NVML_MAX_GPUS] = {NULL};
	struct ends ends[NVML_MAX_GPUS] = {0};
	unsigned level;

	memset(ret_links, 0, sizeof(*ret_links));
	for (size_t i = 0; i < inventory->count; i++) {
		if (f->device_by_uuid(inventory->gpus[i].uuid, &devices[i]) != NVML_SUCCESS)
			devices[i] = NULL;
		else if (has_nvlink)
			follow_links(f, inventory, devices[i], &ends[i], &ret_links->nvlink_gbps);
	}
	for (size_t a = 0; a < inventory->count; a++)
		for (size_t b = 0; b < a; b++) {
			/* If the two ends disagree, only links that both report count. */
			ret_links->between[a][b].nvlinks =
				(uint8_t)(smaller(ends[a].to_gpu[b], ends[b].to_gpu[a]) +
					  smaller(ends[a].to_switch, ends[b].to_switch));
			if (devices[a] && devices[b] && f->common_ancestor &&
				f->common_ancestor(devices[a], devices[b], &level) == NVML_SUCCESS)
				ret_links->between[a][b].path = path_of(level);
			ret_links->between[b][a] = ret_links->between[a][b];
		}
}
