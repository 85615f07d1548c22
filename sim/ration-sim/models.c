/* models.c - name and abilities of a GPU by its size. Sizes are those that NVML reports for the model (some
 * depend on the ECC mode, hence two for one model). Figures are from NVIDIA's data sheets. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/ration-sim/gpus.h"

/* The bandwidth that a copy to or from the host achieves on a link of 16 lanes: three quarters of the maximum
 * of PCIe 3, 4 and 5 in one direction (15.75, 31.5 and 63 GB/s). */
#define PCIE_3 12
#define PCIE_4 24
#define PCIE_5 47

/* The size of an empty context grows with the number of threads that can run at a time. The two values give
 * some 310 MiB on a V100 and 490 on an H100. */
#define CONTEXT_BASE_MIB 32
#define CONTEXT_MIB_PER_4_SM 14

static const struct model {
	uint32_t mib;
	const char *name;
	uint32_t sm_count, compute_major, compute_minor;
	uint32_t pci_device_id;
	uint32_t power_limit_w, idle_power_w;
	uint32_t sm_clock_mhz, memory_clock_mhz;
	uint32_t pcie_gbps, memory_gbps;
	enum sim_mig mig;
} models[] = {
	{15079, "Tesla T4", 40, 7, 5, 0x1eb810de, 70, 10, 1590, 5001, PCIE_3, 320, SIM_MIG_UNSUPPORTED},
	{15360, "Tesla T4", 40, 7, 5, 0x1eb810de, 70, 10, 1590, 5001, PCIE_3, 320, SIM_MIG_UNSUPPORTED},
	{16160, "Tesla V100-SXM2-16GB", 80, 7, 0, 0x1db110de, 300, 56, 1530, 877, PCIE_3, 900,
		SIM_MIG_UNSUPPORTED},
	{16384, "Tesla V100-SXM2-16GB", 80, 7, 0, 0x1db110de, 300, 56, 1530, 877, PCIE_3, 900,
		SIM_MIG_UNSUPPORTED},
	{32510, "Tesla V100-SXM2-32GB", 80, 7, 0, 0x1db510de, 300, 56, 1530, 877, PCIE_3, 900,
		SIM_MIG_UNSUPPORTED},
	{24564, "NVIDIA L4", 58, 8, 9, 0x27b810de, 72, 16, 2040, 6251, PCIE_4, 300, SIM_MIG_UNSUPPORTED},
	{40960, "NVIDIA A100-SXM4-40GB", 108, 8, 0, 0x20b010de, 400, 52, 1410, 1215, PCIE_4, 1555,
		SIM_MIG_DISABLED},
	{81920, "NVIDIA A100-SXM4-80GB", 108, 8, 0, 0x20b210de, 400, 62, 1410, 1593, PCIE_4, 2039,
		SIM_MIG_DISABLED},
	{81559, "NVIDIA H100 80GB HBM3", 132, 9, 0, 0x233010de, 700, 70, 1980, 2619, PCIE_5, 3350,
		SIM_MIG_DISABLED},
	{143771, "NVIDIA H200", 132, 9, 0, 0x233510de, 700, 75, 1980, 3201, PCIE_5, 4800, SIM_MIG_DISABLED},
};

void gpus_set_model(struct sim_gpu *gpu)
{
	static const struct model generic = {.sm_count = 80,
		.compute_major = 8,
		.pci_device_id = 0x20b010de,
		.power_limit_w = 300,
		.idle_power_w = 50,
		.sm_clock_mhz = 1410,
		.memory_clock_mhz = 1215,
		.pcie_gbps = PCIE_4,
		.memory_gbps = 1555};
	const struct model *model = &generic;
	uint64_t mib = gpu->memory_bytes >> 20;

	for (size_t i = 0; i < ARRAY_SIZE(models); i++)
		if (models[i].mib == mib)
			model = &models[i];
	if (model->name)
		snprintf(gpu->name, sizeof(gpu->name), "%s", model->name);
	else
		snprintf(gpu->name, sizeof(gpu->name), "NVIDIA Simulated-%lluMiB", (unsigned long long)mib);
	gpu->sm_count = model->sm_count;
	gpu->compute_major = model->compute_major;
	gpu->compute_minor = model->compute_minor;
	gpu->pci_device_id = model->pci_device_id;
	gpu->pci_subsystem_id = 0x121210de;
	gpu->power_limit_mw = model->power_limit_w * 1000;
	gpu->power_mw = model->idle_power_w * 1000;
	gpu->sm_clock_mhz = model->sm_clock_mhz;
	gpu->memory_clock_mhz = model->memory_clock_mhz;
	gpu->pcie_gbps = model->pcie_gbps;
	gpu->memory_gbps = model->memory_gbps;
	gpu->mig = model->mig;
	gpu->context_mib = CONTEXT_BASE_MIB + CONTEXT_MIB_PER_4_SM * gpu->sm_count / 4;
	gpu->temperature_c = 33;
	gpu->numa_node = -1;
	gpu->compute_mode = NVML_COMPUTEMODE_DEFAULT;
}
