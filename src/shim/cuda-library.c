/* The tables of the substitute for libcuda.so.1. */
#include "shim/cuda-library.h"

#include "shim/cuda-devices.h"
#include "shim/cuda-visible.h"
#include "shim/session.h"
#include "shim/shim.h"

static int missing(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static int no_driver(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static const void *own_entry(void)
{
	return (const void *)cuInit;
}

static const bool hooked[] = SHIM_SYMBOL_HOOKED;

const struct shim_library shim_library = {
	.name = "libcuda",
	.names = SHIM_SYMBOL_NAMES,
	.count = SYMBOL_COUNT,
	.hooked = hooked,
	.path_offset = offsetof(struct grant_file, cuda_library),
	.missing = missing,
	.no_driver = no_driver,
	.own_entry = own_entry,
};

#define HOOK_CUDA(name, variant, kind) {SYMBOL_##name, (void *)name},
const struct shim_hook cuda_hooks[] = {
#include "shim/hooks.def"
};
const size_t cuda_hooks_count = sizeof(cuda_hooks) / sizeof(cuda_hooks[0]);

/* Functions that a program calls before any other. They answer without a driver and without a grant, as far
 * as the driver itself answers before cuInit. A program that only checks whether there is a GPU must get an
 * answer. */
/* The version of the interface that this library exports. It is reported if no driver can be asked. */
#define OWN_CUDA_VERSION 13000

static const struct {
	CUresult code;
	const char *name, *text;
} own_errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

HOOK CUresult cuInit(unsigned int flags)
{
	CUresult r;

	/* The driver gives this answer in a child of a process that had used it. */
	if (shim_was_cut_off())
		return CUDA_ERROR_NOT_INITIALIZED;
	/* Without a grant the driver would start with all GPUs that it sees. */
	if (!session_get() || !shim_driver_has(SYMBOL_cuInit))
		return CUDA_ERROR_NO_DEVICE;
	cuda_visible_give((const void *)DRIVER(cuInit));
	r = DRIVER(cuInit)(flags);
	/* The first of several granted GPUs is lost, and for the driver that ends the list. */
	if (r == CUDA_ERROR_NO_DEVICE && cuda_visible_give_all())
		r = DRIVER(cuInit)(flags);
	if (r == CUDA_SUCCESS && !cuda_devices_find())
		r = CUDA_ERROR_NO_DEVICE;
	return r;
}

HOOK CUresult cuDriverGetVersion(int *version)
{
	if (shim_driver_has(SYMBOL_cuDriverGetVersion))
		return DRIVER(cuDriverGetVersion)(version);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = OWN_CUDA_VERSION;
	return CUDA_SUCCESS;
}

static CUresult own_error(CUresult error, const char **ret_text, bool name)
{
	if (!ret_text)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(own_errors) / sizeof(own_errors[0]); i++) {
		if (own_errors[i].code != error)
			continue;
		*ret_text = name ? own_errors[i].name : own_errors[i].text;
		return CUDA_SUCCESS;
	}
	*ret_text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

HOOK CUresult cuGetErrorName(CUresult error, const char **text)
{
	if (shim_driver_has(SYMBOL_cuGetErrorName))
		return DRIVER(cuGetErrorName)(error, text);
	return own_error(error, text, true);
}

HOOK CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (shim_driver_has(SYMBOL_cuGetErrorString))
		return DRIVER(cuGetErrorString)(error, text);
	return own_error(error, text, false);
}
