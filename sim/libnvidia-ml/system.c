/* system.c - properties of the driver as a whole. */
#include <stdio.h>
#include <string.h>

#include "sim/libnvidia-ml/session.h"

#define TELLS_VERSION_SINCE 12010

/* Returns the CUDA version of the driver, or 0 if no driver is installed. It is also known before nvmlInit.
 */
static uint32_t cuda_version(void)
{
	struct sim_state *state;
	struct sim_tree tree;
	uint32_t version = 0;
	bool writable;

	sim_tree_find(&tree);
	if (sim_state_map(tree.root, &state, &writable) == 0) {
		version = state->cuda_version;
		sim_state_unmap(state);
	}
	return version;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	/* The texts of NVIDIA's library, 550.163.01, because programs print them and people search for them.
	 * Texts with a version are not in 470.256.02 (11.4), those with 12.4 not in 535.309.01 (12.2). */
	static const struct {
		const char *text;
		uint32_t since;
	} texts[] = {
		[NVML_SUCCESS] = {"Success"},
		[NVML_ERROR_UNINITIALIZED] = {"Uninitialized"},
		[NVML_ERROR_INVALID_ARGUMENT] = {"Invalid Argument"},
		[NVML_ERROR_NOT_SUPPORTED] = {"Not Supported"},
		[NVML_ERROR_NO_PERMISSION] = {"Insufficient Permissions"},
		[NVML_ERROR_ALREADY_INITIALIZED] = {"Already Initialized"},
		[NVML_ERROR_NOT_FOUND] = {"Not Found"},
		[NVML_ERROR_INSUFFICIENT_SIZE] = {"Insufficient Size"},
		[NVML_ERROR_INSUFFICIENT_POWER] = {"Insufficient External Power"},
		[NVML_ERROR_DRIVER_NOT_LOADED] = {"Driver Not Loaded"},
		[NVML_ERROR_TIMEOUT] = {"Timeout"},
		[NVML_ERROR_IRQ_ISSUE] = {"Interrupt Request Issue"},
		[NVML_ERROR_LIBRARY_NOT_FOUND] = {"NVML Shared Library Not Found"},
		[NVML_ERROR_FUNCTION_NOT_FOUND] = {"Function Not Found"},
		[NVML_ERROR_CORRUPTED_INFOROM] = {"Corrupted infoROM"},
		[NVML_ERROR_GPU_IS_LOST] = {"GPU is lost"},
		[NVML_ERROR_RESET_REQUIRED] = {"GPU requires reset"},
		[NVML_ERROR_OPERATING_SYSTEM] = {"GPU access blocked by the operating system"},
		[NVML_ERROR_LIB_RM_VERSION_MISMATCH] = {"Driver/library version mismatch"},
		[NVML_ERROR_IN_USE] = {"In use by another client"},
		[NVML_ERROR_MEMORY] = {"Insufficient Memory"},
		[NVML_ERROR_NO_DATA] = {"No data", 12020},
		[NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = {"vGPU ECC not supported", 12020},
		[NVML_ERROR_INSUFFICIENT_RESOURCES] = {"Insufficient Resources"},
		[NVML_ERROR_FREQ_NOT_SUPPORTED] = {"Invalid Frequency"},
		[NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = {"Argument version mismatch", 12020},
		[NVML_ERROR_DEPRECATED] = {"Requested functionality has been deprecated", 12020},
		[NVML_ERROR_NOT_READY] = {"System is not in ready state", 12020},
		[NVML_ERROR_GPU_NOT_FOUND] = {"No supported GPUs were found", 12040},
		[NVML_ERROR_INVALID_STATE] = {"Resource not in correct state to perform requested operation",
			12040},
	};
	uint32_t version = cuda_version();

	if (result >= 0 && (size_t)result < ARRAY_SIZE(texts) && texts[result].text &&
		(version == 0 || texts[result].since <= version))
		return texts[result].text;
	return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	return copy_text(call.session->state->driver_version, sizeof(call.session->state->driver_version),
		version, length);
}

/* NVML's own version is the CUDA major version followed by the driver's: 11.515.105.01. Driver 535.309.01
 * reports it before nvmlInit, 470.256.02 does not; versions between them were not examined. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);
	struct sim_state *state;
	struct sim_tree tree;
	char text[112];
	bool writable;

	if (r != NVML_SUCCESS && cuda_version() < TELLS_VERSION_SINCE)
		return r;
	sim_tree_find(&tree);
	if (sim_state_map(tree.root, &state, &writable) < 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	snprintf(text, sizeof(text), "%u.%.*s", state->cuda_version / 1000,
		(int)sizeof(state->driver_version), state->driver_version);
	sim_state_unmap(state);
	return copy_text(text, sizeof(text), version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *ret_version)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_version = (int)call.session->state->cuda_version;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *ret_version)
{
	return nvmlSystemGetCudaDriverVersion_v2(ret_version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	_cleanup_call_ struct call call = {};
	_cleanup_fclose_ FILE *f = NULL;
	char path[40], text[1024];
	nvmlReturn_t r = call_begin(&call);
	size_t n;

	if (r != NVML_SUCCESS)
		return r;
	if (!name || length == 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return NVML_ERROR_NOT_FOUND;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0'; /* the first argument: the name under which the program was started */
	if (n == 0)
		return NVML_ERROR_NOT_FOUND;
	return copy_text(text, sizeof(text), name, length);
}

static nvmlReturn_t no_units(unsigned *ret_count)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlUnitGetCount(unsigned *ret_count)
{
	return no_units(ret_count);
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned *ret_count)
{
	return no_units(ret_count);
}

/* The name before driver 455. */
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned *ret_count)
{
	return no_units(ret_count);
}

/* nvidia-smi requests tables of functions without public names, also before nvmlInit. The simulated library
 * has no such tables. */
nvmlReturn_t nvmlInternalGetExportTable(const void **ret_table, const void *id)
{
	if (!ret_table || !id)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_table = NULL;
	return NVML_ERROR_INVALID_ARGUMENT;
}

/* Internal to driver 470: a request to the kernel module. Without the module it answers
 * NV_ERR_OPERATING_SYSTEM. */
unsigned nvmlRetry_NvRmControl(void)
{
	return 0x59;
}
