/* proc-address.c - cuGetProcAddress: names to functions, by CUDA version and kind of default stream. */
#include "sim/libcuda/proc-table.h"

#include <stdbool.h>
#include <string.h>

#include "cuda/functions.h"

static int driver_version(void)
{
	int version = 0;

	cuDriverGetVersion(&version);
	return version;
}

/* The newest function of this name that is not newer than `version`. */
static const struct proc *find(const char *name, int version, bool per_thread, bool *ret_known)
{
	const struct proc *best = NULL;

	for (size_t i = 0; i < proc_count; i++) {
		const struct proc *proc = &proc_table[i];

		if (strcmp(proc->lookup, name) != 0)
			continue;
		*ret_known = true;
		if (proc->version > version || (proc->per_thread && !per_thread))
			continue;
		/* For a caller with per-thread streams a function that has such a variant is only that. */
		if (!best || proc->per_thread > best->per_thread ||
			(proc->per_thread == best->per_thread && proc->version >= best->version))
			best = proc;
	}
	return best;
}

CUresult cuGetProcAddress_v2(const char *name, void **ret_function, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status)
{
	bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, known = false;
	int own_version = driver_version();
	const struct proc *found;

	if (!name || !ret_function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
		version > (own_version ? own_version : 13000))
		return CUDA_ERROR_INVALID_VALUE;
	found = find(name, version, per_thread, &known);
	*ret_function = found ? found->function : NULL;
	if (ret_status)
		*ret_status = found   ? CU_GET_PROC_ADDRESS_SUCCESS
			      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **ret_function, int version, uint64_t flags)
{
	CUresult r = cuGetProcAddress_v2(name, ret_function, version, flags, NULL);

	return r == CUDA_SUCCESS && !*ret_function ? CUDA_ERROR_NOT_FOUND : r;
}
