/* Memory that another process, or another interface, made: IPC handles, imported pools, external memory.
 *
 * It is charged once, where it was made: by the process that allocated it, or, where Vulkan or OpenGL did, as
 * overhead, since the driver counts it for the process and no call of ours shows it. So an import charges
 * nothing; it calls the keeper, who compares with the driver's own sum.
 */
#include "shim/cuda-library.h"
#include "shim/session.h"

static CUresult look(CUresult r)
{
	if (r == CUDA_SUCCESS)
		session_want_look();
	return r;
}

HOOK CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return look(DRIVER(cuIpcOpenMemHandle)(address, handle, flags));
}

HOOK CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return look(DRIVER(cuIpcOpenMemHandle_v2)(address, handle, flags));
}

HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	return look(DRIVER(cuIpcCloseMemHandle)(address));
}

HOOK CUresult cuMemPoolImportFromShareableHandle(
	CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	return look(DRIVER(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags));
}

HOOK CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	return look(DRIVER(cuMemPoolImportPointer)(address, pool, data));
}

HOOK CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	return look(DRIVER(cuImportExternalMemory)(memory, d));
}

HOOK CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	return look(DRIVER(cuDestroyExternalMemory)(memory));
}
