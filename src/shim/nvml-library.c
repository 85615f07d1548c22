/* The tables of the substitute for libnvidia-ml.so.1, and nvmlInit. */
#include "shim/nvml-library.h"

#include "shim/session.h"

static int missing(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static int no_driver(void)
{
	return NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvml_started(void)
{
	unsigned count;

	return DRIVER(nvmlDeviceGetCount_v2)(&count);
}

static int denied(void)
{
	nvmlReturn_t r = nvml_started();

	return r == NVML_SUCCESS ? NVML_ERROR_NO_PERMISSION : r;
}

#define DENY_NVML(name) SYMBOL_##name,
static const unsigned short denied_symbols[] = {
#include "shim/hooks.def"
};

static const void *own_entry(void)
{
	return (const void *)nvmlInit_v2;
}

static const bool hooked[] = SHIM_SYMBOL_HOOKED;

const struct shim_library shim_library = {
	.name = "libnvidia-ml",
	.names = SHIM_SYMBOL_NAMES,
	.count = SYMBOL_COUNT,
	.hooked = hooked,
	.path_offset = offsetof(struct grant_file, nvml_library),
	.missing = missing,
	.no_driver = no_driver,
	.own_entry = own_entry,
	.denied = denied,
	.denied_symbols = denied_symbols,
	.denied_count = sizeof(denied_symbols) / sizeof(denied_symbols[0]),
};

/* Whether the driver may be started: without a grant it is reported as not loaded, as in a container without
 * a GPU. */
static bool may_start(size_t symbol)
{
	return session_get() && shim_driver_has(symbol);
}

HOOK nvmlReturn_t nvmlInit(void)
{
	return may_start(SYMBOL_nvmlInit) ? DRIVER(nvmlInit)() : NVML_ERROR_DRIVER_NOT_LOADED;
}

HOOK nvmlReturn_t nvmlInit_v2(void)
{
	return may_start(SYMBOL_nvmlInit_v2) ? DRIVER(nvmlInit_v2)() : NVML_ERROR_DRIVER_NOT_LOADED;
}

HOOK nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	return may_start(SYMBOL_nvmlInitWithFlags) ? DRIVER(nvmlInitWithFlags)(flags)
						   : NVML_ERROR_DRIVER_NOT_LOADED;
}

HOOK const char *nvmlErrorString(nvmlReturn_t error)
{
	if (shim_driver_has(SYMBOL_nvmlErrorString))
		return DRIVER(nvmlErrorString)(error);
	switch (error) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	default:
		return "Unknown Error";
	}
}
