/* errors.c - cuGetErrorName and cuGetErrorString, which work without cuInit. */
#include <stdbool.h>

#include "base/cleanup.h"
#include "cuda/functions.h"

/* Names and texts are those of libcuda.so 550.163.01; 226 and 721 those of libcudart 13.5.37. `since` is the
 * first CUDA version that has the error; 0: older than 11.4. Of drivers 470.256.02 (11.4), 535.309.01 (12.2)
 * and 550.163.01 (12.4) each knows exactly the errors up to its version. For versions between them the
 * headers of 11.8, 12.0 and 12.9 are the source. */
static const struct {
	int code, since;
	const char *name, *text;
} errors[] = {
	{0, 0, "CUDA_SUCCESS", "no error"},
	{1, 0, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{2, 0, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{3, 0, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{4, 0, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	{5, 0, "CUDA_ERROR_PROFILER_DISABLED", "profiler disabled while using external profiling tool"},
	{6, 0, "CUDA_ERROR_PROFILER_NOT_INITIALIZED",
		"profiler not initialized: call cudaProfilerInitialize()"},
	{7, 0, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started"},
	{8, 0, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped"},
	{34, 0, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
	{46, 11080, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	{100, 0, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{101, 0, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{102, 0, "CUDA_ERROR_DEVICE_NOT_LICENSED", "device doesn't have valid Grid license"},
	{200, 0, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{201, 0, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{202, 0, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current"},
	{205, 0, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
	{206, 0, "CUDA_ERROR_UNMAP_FAILED", "unmapping of buffer object failed"},
	{207, 0, "CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped"},
	{208, 0, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
	{209, 0, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	{210, 0, "CUDA_ERROR_ALREADY_ACQUIRED", "resource already acquired"},
	{211, 0, "CUDA_ERROR_NOT_MAPPED", "resource not mapped"},
	{212, 0, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "resource not mapped as array"},
	{213, 0, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "resource not mapped as pointer"},
	{214, 0, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{215, 0, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture"},
	{216, 0, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE",
		"exclusive-thread device already in use by a different thread"},
	{217, 0, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
		"peer access is not supported between these two devices"},
	{218, 0, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{219, 0, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid OpenGL or DirectX context"},
	{220, 0, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
		"uncorrectable NVLink error detected during the execution"},
	{221, 0, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
	{222, 0, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
		"the provided PTX was compiled with an unsupported toolchain."},
	{223, 0, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled"},
	{224, 0, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "the provided execution affinity is not supported"},
	{225, 12020, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
		"the provided PTX contains unsupported call to cudaDeviceSynchronize"},
	{226, 12080, "CUDA_ERROR_CONTAINED",
		"Invalid access of peer GPU memory over nvlink or a hardware error"},
	{300, 0, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
	{301, 0, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	{302, 0, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
	{303, 0, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
	{304, 0, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
	{400, 0, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{401, 0, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
	{402, 12040, "CUDA_ERROR_LOSSY_QUERY", "attempted introspection would be semantically lossy"},
	{500, 0, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{600, 0, "CUDA_ERROR_NOT_READY", "device not ready"},
	{700, 0, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{701, 0, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	{702, 0, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	{703, 0, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch uses incompatible texturing mode"},
	{704, 0, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
	{705, 0, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
	{708, 0, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
	{709, 0, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{710, 0, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
	{711, 0, "CUDA_ERROR_TOO_MANY_PEERS", "peer mapping resources exhausted"},
	{712, 0, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
		"part or all of the requested memory range is already mapped"},
	{713, 0, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
		"pointer does not correspond to a registered memory region"},
	{714, 0, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
	{715, 0, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	{716, 0, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	{717, 0, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
		"operation not supported on global/shared address space"},
	{718, 0, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
	{719, 0, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{720, 0, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
	{721, 12080, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory not completely freed"},
	{800, 0, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{801, 0, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{802, 0, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{803, 0, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
		"system has unsupported display driver / cuda driver combination"},
	{804, 0, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
		"forward compatibility was attempted on non supported HW"},
	{805, 0, "CUDA_ERROR_MPS_CONNECTION_FAILED",
		"MPS client failed to connect to the MPS control daemon or the MPS server"},
	{806, 0, "CUDA_ERROR_MPS_RPC_FAILURE",
		"the remote procedural call between the MPS server and the MPS client failed"},
	{807, 0, "CUDA_ERROR_MPS_SERVER_NOT_READY",
		"MPS server is not ready to accept new MPS client requests"},
	{808, 0, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
		"the hardware resources required to create MPS client have been exhausted"},
	{809, 0, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
		"the hardware resources required to support device connections have been exhausted"},
	{810, 11080, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS client has been terminated by the server"},
	{811, 12000, "CUDA_ERROR_CDP_NOT_SUPPORTED",
		"is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it"},
	{812, 12000, "CUDA_ERROR_CDP_VERSION_MISMATCH",
		"unsupported interaction between different versions of CUDA Dynamic Parallelism"},
	{900, 0, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{901, 0, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
		"operation failed due to a previous error during capture"},
	{902, 0, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
		"operation would result in a merge of separate capture sequences"},
	{903, 0, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
		"capture was not ended in the same stream as it began"},
	{904, 0, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	{905, 0, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
		"dependency created on uncaptured work in another stream"},
	{906, 0, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
		"operation would make the legacy stream depend on a capturing blocking stream"},
	{907, 0, "CUDA_ERROR_CAPTURED_EVENT",
		"operation not permitted on an event last recorded in a capturing stream"},
	{908, 0, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
		"attempt to terminate a thread-local capture sequence from another thread"},
	{909, 0, "CUDA_ERROR_TIMEOUT", "wait operation timed out"},
	{910, 0, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
		"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
	{911, 0, "CUDA_ERROR_EXTERNAL_DEVICE",
		"an async error has occured in external entity outside of CUDA"},
	{912, 11080, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
		"a kernel launch error has occurred due to cluster misconfiguration"},
	{913, 12040, "CUDA_ERROR_FUNCTION_NOT_LOADED",
		"the function handle is not loaded when calling an API that requires a loaded function"},
	{914, 12040, "CUDA_ERROR_INVALID_RESOURCE_TYPE",
		"one or more resources passed in are not valid resource types for the operation"},
	{915, 12040, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
		"one or more resources are insufficient or non-applicable for the operation"},
	{916, 12040, "CUDA_ERROR_KEY_ROTATION", "an error happened during the key rotation sequence"},
	{999, 0, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult find(CUresult error, bool text, const char **ret_text)
{
	int version = 0;

	if (!ret_text)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_text = NULL;
	cuDriverGetVersion(&version);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == (int)error && (version == 0 || errors[i].since <= version))
			*ret_text = text ? errors[i].text : errors[i].name;
	return *ret_text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **ret_name)
{
	return find(error, false, ret_name);
}

CUresult cuGetErrorString(CUresult error, const char **ret_text)
{
	return find(error, true, ret_text);
}
