/* topology.c - the location of GPUs: processors, memory nodes, links between GPUs. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "sim/libnvidia-ml/session.h"

#define BITS_PER_WORD (sizeof(unsigned long) * CHAR_BIT)

/* All processors of the machine: a simulated GPU has no bus that is closer to some of them. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *ret_set)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	size_t cpus = (size_t)sysconf(_SC_NPROCESSORS_CONF);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_set || words == 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(ret_set, 0, words * sizeof(*ret_set));
	for (size_t i = 0; i < cpus && i < words * BITS_PER_WORD; i++)
		ret_set[i / BITS_PER_WORD] |= 1UL << (i % BITS_PER_WORD);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(
	nvmlDevice_t device, unsigned words, unsigned long *ret_set, unsigned scope)
{
	return scope > 1 ? nvmlDeviceGetCpuAffinity(device, 0, NULL)
			 : nvmlDeviceGetCpuAffinity(device, words, ret_set);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(
	nvmlDevice_t device, unsigned words, unsigned long *ret_set, unsigned scope)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	size_t node;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_set || words == 0 || scope > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (call.gpu->numa_node < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	node = (size_t)call.gpu->numa_node;
	memset(ret_set, 0, words * sizeof(*ret_set));
	if (node < words * BITS_PER_WORD)
		ret_set[node / BITS_PER_WORD] |= 1UL << (node % BITS_PER_WORD);
	return NVML_SUCCESS;
}

/* Begins a call about a pair of GPUs. */
static nvmlReturn_t begin_pair(
	struct call *call, nvmlDevice_t first, nvmlDevice_t second, struct sim_gpu **ret_second)
{
	nvmlReturn_t r = call_begin_device(call, first);

	if (r != NVML_SUCCESS)
		return r;
	if (device_index(call->session, second) < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_second = &call->session->state->gpus[second->gpu];
	return device_state(call->session, second);
}

static bool is_shared(uint32_t first, uint32_t second)
{
	return first && first == second;
}

static unsigned common_ancestor(const struct sim_gpu *first, const struct sim_gpu *second)
{
	if (is_shared(first->pcie_switch, second->pcie_switch))
		return NVML_TOPOLOGY_SINGLE;
	if (is_shared(first->pcie_tree, second->pcie_tree))
		return NVML_TOPOLOGY_MULTIPLE;
	if (is_shared(first->host_bridge, second->host_bridge))
		return NVML_TOPOLOGY_HOSTBRIDGE;
	return first->numa_node == second->numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second, unsigned *ret_level)
{
	_cleanup_call_ struct call call = {};
	struct sim_gpu *other;
	nvmlReturn_t r = begin_pair(&call, first, second, &other);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_level || first == second)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_level = common_ancestor(call.gpu, other);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *ret_same)
{
	_cleanup_call_ struct call call = {};
	struct sim_gpu *other;
	nvmlReturn_t r = begin_pair(&call, first, second, &other);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_same)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_same = first == second;
	return NVML_SUCCESS;
}

static unsigned link_count(const struct sim_gpu *gpu)
{
	return gpu->link_count > SIM_MAX_LINKS ? SIM_MAX_LINKS : gpu->link_count;
}

static bool has_switch(const struct sim_gpu *gpu)
{
	return link_count(gpu) && memchr(gpu->links, SIM_LINK_SWITCH, link_count(gpu));
}

static bool leads_to(const struct session *session, uint8_t end, const struct sim_gpu *gpu)
{
	return end == SIM_LINK_SWITCH ? has_switch(gpu) : &session->state->gpus[end % SIM_MAX_GPUS] == gpu;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(
	nvmlDevice_t first, nvmlDevice_t second, unsigned index, unsigned *ret_status)
{
	_cleanup_call_ struct call call = {};
	struct sim_gpu *other;
	nvmlReturn_t r = begin_pair(&call, first, second, &other);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_status || first == second || index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_status = NVML_P2P_STATUS_NOT_SUPPORTED;
	for (unsigned i = 0; i < link_count(call.gpu); i++)
		if (leads_to(call.session, call.gpu->links[i], other))
			*ret_status = NVML_P2P_STATUS_OK;
	return NVML_SUCCESS;
}

/* Finds the GPU at the other end of a link; NULL: a switch. A GPU without links does not support NVLink. */
static nvmlReturn_t begin_link(
	struct call *call, nvmlDevice_t device, unsigned link, const struct sim_gpu **ret_remote)
{
	nvmlReturn_t r = call_begin_device(call, device);
	unsigned remote;

	if (r != NVML_SUCCESS)
		return r;
	if (link_count(call->gpu) == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	if (link >= link_count(call->gpu))
		return NVML_ERROR_INVALID_ARGUMENT;
	remote = call->gpu->links[link];
	*ret_remote = NULL;
	if (remote == SIM_LINK_SWITCH)
		return NVML_SUCCESS;
	if (remote >= call->session->gpu_count)
		return NVML_ERROR_UNKNOWN;
	*ret_remote = &call->session->state->gpus[remote];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *ret_active)
{
	_cleanup_call_ struct call call = {};
	const struct sim_gpu *remote;
	nvmlReturn_t r = begin_link(&call, device, link, &remote);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_active)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_active = remote && atomic_load(&remote->health) == SIM_LOST ? NVML_FEATURE_DISABLED
									 : NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *ret_version)
{
	_cleanup_call_ struct call call = {};
	const struct sim_gpu *remote;
	nvmlReturn_t r = begin_link(&call, device, link, &remote);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_version = call.gpu->architecture >= NVML_DEVICE_ARCH_HOPPER   ? 4
		       : call.gpu->architecture >= NVML_DEVICE_ARCH_AMPERE ? 3
									   : 2;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(
	nvmlDevice_t device, unsigned link, unsigned capability, unsigned *ret_value)
{
	_cleanup_call_ struct call call = {};
	const struct sim_gpu *remote;
	nvmlReturn_t r = begin_link(&call, device, link, &remote);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_value || capability >= NVML_NVLINK_CAP_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_value = capability == NVML_NVLINK_CAP_P2P_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *ret_type)
{
	_cleanup_call_ struct call call = {};
	const struct sim_gpu *remote;
	nvmlReturn_t r = begin_link(&call, device, link, &remote);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_type)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_type = remote ? NVML_NVLINK_DEVICE_TYPE_GPU : NVML_NVLINK_DEVICE_TYPE_SWITCH;
	return NVML_SUCCESS;
}

/* One switch represents all switches of a machine. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *ret_info)
{
	_cleanup_call_ struct call call = {};
	const struct sim_gpu *remote;
	nvmlReturn_t r = begin_link(&call, device, link, &remote);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (remote)
		gpu_pci_info(remote, ret_info);
	else
		*ret_info = (nvmlPciInfo_t){.busIdLegacy = "0000:C4:00.0",
			.bus = 0xc4,
			.pciDeviceId = 0x1af110de,
			.busId = "00000000:C4:00.0"};
	return NVML_SUCCESS;
}
