/* library.c - cuLibrary*: images that belong to no context, and are loaded into each context that uses
 * them. */
#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/module.h"

static void library_free(struct library *library)
{
	struct module *module;
	size_t cursor = 0;

	while ((module = (struct module *)object_next(OBJECT_MODULE, NULL, &cursor)))
		if (module->library == library)
			module_free(module);
	for (size_t i = 0; library->kernels && i < library->image.function_count; i++)
		object_forget(&library->kernels[i].object);
	object_forget(&library->object);
	image_release(&library->image);
	free(library->kernels);
	free(library);
}

/* Takes ownership of the image. */
static CUresult library_new(struct image *image, CUlibrary *ret_handle)
{
	struct library *library = calloc(1, sizeof(*library));
	bool failed;

	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->image = *image;
	*image = (struct image){};
	library->kernels = calloc(library->image.function_count + 1, sizeof(struct function));
	failed = !library->kernels || object_register(&library->object, OBJECT_LIBRARY, NULL) < 0;
	for (size_t i = 0; !failed && i < library->image.function_count; i++) {
		library->kernels[i].library = library;
		library->kernels[i].image = &library->image.functions[i];
		failed = object_register(&library->kernels[i].object, OBJECT_KERNEL, NULL) < 0;
	}
	if (failed) {
		library_free(library);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_handle = (CUlibrary)(uintptr_t)library->object.handle;
	return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *ret_handle, const void *data, const char *path, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, function);
	struct image image = {};

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || (!data && !path))
		return CUDA_ERROR_INVALID_VALUE;
	if (path)
		r = image_of_file(path, &image);
	else if (image_read(data, &image) < 0)
		r = CUDA_ERROR_INVALID_IMAGE;
	if (r == CUDA_SUCCESS)
		r = library_new(&image, ret_handle);
	image_release(&image);
	return r;
}

CUresult cuLibraryLoadData(CUlibrary *ret_handle, const void *data, CUjit_option *jit_options,
	void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
	return load(ret_handle, data, NULL, __func__);
}

CUresult cuLibraryLoadFromFile(CUlibrary *ret_handle, const char *path, CUjit_option *jit_options,
	void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
	return load(ret_handle, NULL, path, __func__);
}

static CUresult begin(struct call *call, CUlibrary handle, struct library **ret_library, const char *function)
{
	CUresult r = call_begin(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_LIBRARY, ret_library) : r;
}

CUresult cuLibraryUnload(CUlibrary handle)
{
	_cleanup_call_ struct call call = {};
	struct library *library;
	CUresult r = begin(&call, handle, &library, __func__);

	if (r == CUDA_SUCCESS)
		library_free(library);
	return r;
}

CUresult cuLibraryGetKernel(CUkernel *ret_handle, CUlibrary handle, const char *name)
{
	_cleanup_call_ struct call call = {};
	struct library *library;
	CUresult r = begin(&call, handle, &library, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !name)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < library->image.function_count; i++)
		if (strcmp(library->image.functions[i].name, name) == 0) {
			*ret_handle = (CUkernel)(uintptr_t)library->kernels[i].object.handle;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned *ret_count, CUlibrary handle)
{
	_cleanup_call_ struct call call = {};
	struct library *library;
	CUresult r = begin(&call, handle, &library, __func__);

	if (r == CUDA_SUCCESS && !ret_count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_count = (unsigned)library->image.function_count;
	return r;
}

CUresult cuLibraryEnumerateKernels(CUkernel *handles, unsigned count, CUlibrary handle)
{
	_cleanup_call_ struct call call = {};
	struct library *library;
	CUresult r = begin(&call, handle, &library, __func__);

	if (r == CUDA_SUCCESS && !handles)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count && i < library->image.function_count; i++)
		handles[i] = (CUkernel)(uintptr_t)library->kernels[i].object.handle;
	return r;
}

CUresult library_module(struct library *library, struct context *context, struct module **ret_module)
{
	struct module *module;
	size_t cursor = 0;

	while ((module = (struct module *)object_next(OBJECT_MODULE, context, &cursor)))
		if (module->library == library) {
			*ret_module = module;
			return CUDA_SUCCESS;
		}
	return module_new(context, NULL, library, ret_module);
}

CUresult cuLibraryGetModule(CUmodule *ret_handle, CUlibrary handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct library *library;
	struct module *module;

	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_LIBRARY, &library);
	if (r == CUDA_SUCCESS)
		r = library_module(library, call.context, &module);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmodule)(uintptr_t)module->object.handle;
	return r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *ret_address, size_t *ret_size, CUlibrary handle, const char *name)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct library *library;
	struct module *module;

	if (r == CUDA_SUCCESS && !name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_LIBRARY, &library);
	if (r == CUDA_SUCCESS)
		r = library_module(library, call.context, &module);
	return r == CUDA_SUCCESS ? module_global(module, name, ret_address, ret_size) : r;
}
