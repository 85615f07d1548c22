/* proc-address.c - cuGetProcAddress: finds functions by name, CUDA version and kind of default stream. */
#include "sim/libcuda/proc-table.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "cuda/functions.h"
#include "sim/libcuda/started.h"

#define FLAGS_MAX (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

static bool has_per_thread(const char *name, int newest)
{
	for (size_t i = 0; i < proc_count; i++)
		if (proc_table[i].per_thread && proc_table[i].version <= newest &&
			strcmp(proc_table[i].lookup, name) == 0)
			return true;
	return false;
}

/* Returns the newest function of this name that is not newer than `version`. If a name has per-thread
 * variants, a caller with per-thread streams gets only those, even if they are too new for it. */
static const struct proc *find(const char *name, int version, int newest, bool per_thread, bool *ret_known)
{
	const struct proc *best = NULL;

	per_thread = per_thread && has_per_thread(name, newest);
	for (size_t i = 0; i < proc_count; i++) {
		const struct proc *proc = &proc_table[i];

		if (proc->version > newest || strcmp(proc->lookup, name) != 0)
			continue;
		*ret_known = true;
		if (proc->version <= version && !!proc->per_thread == per_thread &&
			(!best || proc->version >= best->version))
			best = proc;
	}
	return best;
}

/* Behaves like drivers 470.256.02, 535.309.01 and 550.163.01: negative and future versions mean the newest,
 * and of the flags only the one for per-thread streams has an effect. */
CUresult cuGetProcAddress_v2(const char *name, void **ret_function, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status)
{
	bool known = false;
	const struct proc *found;

	if (!name || !ret_function || flags > FLAGS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	found = find(name, version < 0 ? INT_MAX : version, driver_version(),
		flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	*ret_function = found ? found->function : NULL;
	if (ret_status)
		*ret_status = found   ? CU_GET_PROC_ADDRESS_SUCCESS
			      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **ret_function, int version, uint64_t flags)
{
	void *function = NULL;
	CUresult r = cuGetProcAddress_v2(name, ret_function ? &function : NULL, version, flags, NULL);

	if (r == CUDA_SUCCESS && !function)
		return CUDA_ERROR_NOT_FOUND;
	if (r == CUDA_SUCCESS)
		*ret_function = function;
	return r;
}
