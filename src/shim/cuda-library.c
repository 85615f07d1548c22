/* The tables of the substitute for libcuda.so.1. */
#include "shim/cuda-library.h"

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
