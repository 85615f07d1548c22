/* smi.h - a substitute for nvidia-smi. It prints the same table, list and CSV from any libnvidia-ml.so.1 that
 * the dynamic linker finds: the simulated one, or a library in front of it. Layout: driver 515.105.01. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "sim/libnvidia-ml/nvml-abi.h"

#define SMI_MAX_DEVICES 64

/* Exit codes of NVIDIA's program. */
enum { SMI_BAD_ARGUMENT = 2, SMI_NO_DEVICE = 6, SMI_NO_DRIVER = 9, SMI_NO_LIBRARY = 12, SMI_LOST = 15 };

/* The functions that this program uses, from the library that was opened. */
struct smi_nvml {
	nvmlReturn_t (*init)(void);
	const char *(*error_string)(nvmlReturn_t);
	nvmlReturn_t (*driver_version)(char *, unsigned);
	nvmlReturn_t (*cuda_version)(int *);
	nvmlReturn_t (*process_name)(unsigned, char *, unsigned);
	nvmlReturn_t (*count)(unsigned *);
	nvmlReturn_t (*by_index)(unsigned, nvmlDevice_t *);
	nvmlReturn_t (*by_uuid)(const char *, nvmlDevice_t *);
	nvmlReturn_t (*by_bus_id)(const char *, nvmlDevice_t *);
	nvmlReturn_t (*index)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*name)(nvmlDevice_t, char *, unsigned);
	nvmlReturn_t (*uuid)(nvmlDevice_t, char *, unsigned);
	nvmlReturn_t (*serial)(nvmlDevice_t, char *, unsigned);
	nvmlReturn_t (*pci)(nvmlDevice_t, nvmlPciInfo_t *);
	nvmlReturn_t (*memory)(nvmlDevice_t, nvmlMemory_t *);
	nvmlReturn_t (*utilization)(nvmlDevice_t, nvmlUtilization_t *);
	nvmlReturn_t (*temperature)(nvmlDevice_t, unsigned, unsigned *);
	nvmlReturn_t (*fan)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*performance)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*power)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*power_limit)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*persistence)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*display_active)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*display_mode)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*compute_mode)(nvmlDevice_t, unsigned *);
	nvmlReturn_t (*compute_capability)(nvmlDevice_t, int *, int *);
	nvmlReturn_t (*clock)(nvmlDevice_t, unsigned, unsigned *);
	nvmlReturn_t (*ecc_mode)(nvmlDevice_t, unsigned *, unsigned *);
	nvmlReturn_t (*ecc_errors)(nvmlDevice_t, unsigned, unsigned, unsigned long long *);
	nvmlReturn_t (*mig_mode)(nvmlDevice_t, unsigned *, unsigned *);
	nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
};

struct smi {
	struct smi_nvml nvml;
	nvmlDevice_t devices[SMI_MAX_DEVICES]; /* the selected devices */
	unsigned count;
};

/* smi_open() - opens the library and starts it. Returns 0, or an exit code after printing the reason as
 * NVIDIA does. */
int smi_open(struct smi *smi);
/* smi_choose() - selects all devices, or those named in `ids` (index, UUID or bus id, comma separated). */
int smi_choose(struct smi *smi, const char *ids);

/* These print the outputs. Each returns an exit code. */
int smi_table(const struct smi *smi);
int smi_list(const struct smi *smi);
int smi_query(const struct smi *smi, const char *fields, const char *format);
void smi_query_help(void);

/* smi_running() - the visible processes of the device; the caller frees the list. */
unsigned smi_running(const struct smi *smi, nvmlDevice_t device, nvmlProcessInfo_v2_t **ret_infos);
