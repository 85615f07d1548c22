/* nvmlInit: without a grant it reports no driver, as in a container without a GPU. */
#include "shim/nvml-library.h"

#include "shim/session.h"

/* Whether the driver may be started. */
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
