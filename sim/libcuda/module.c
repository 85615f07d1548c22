#include "sim/libcuda/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/objects.h"

const struct image *module_image(const struct module *module)
{
	return module->library ? &module->library->image : &module->image;
}

void module_free(struct module *module)
{
	const struct image *image = module_image(module);

	for (size_t i = 0; module->functions && i < module->function_count; i++)
		object_forget(&module->functions[i].object);
	for (size_t i = 0; module->globals && i < image->global_count; i++)
		if (module->globals[i])
			memory_free(module->globals[i]);
	context_grow(module->object.context, -(int64_t)module->bytes);
	object_forget(&module->object);
	image_release(&module->image);
	free(module->functions);
	free(module->globals);
	free(module);
}

void module_free_object(struct object *object)
{
	module_free((struct module *)object);
}

static CUresult add_functions(struct module *module)
{
	const struct image *of = module_image(module);

	while (module->function_count < of->function_count) {
		struct function *function = &module->functions[module->function_count];

		function->module = module;
		function->image = &of->functions[module->function_count];
		/* It has no context of its own, because it is freed with its module. */
		if (object_register(&function->object, OBJECT_FUNCTION, NULL) < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		module->function_count++;
	}
	return CUDA_SUCCESS;
}

CUresult module_new(
	struct context *context, struct image *image, struct library *library, struct module **ret_module)
{
	struct module *module = calloc(1, sizeof(*module));
	const struct image *of = library ? &library->image : image;
	CUresult r;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->bytes = round_up(of->memory_bytes, PAGE_BYTES);
	r = context_grow(context, (int64_t)module->bytes);
	if (r != CUDA_SUCCESS) {
		free(module);
		return r;
	}
	module->library = library;
	module->object.context = context;
	if (!library) {
		module->image = *image;
		*image = (struct image){};
	}
	of = module_image(module);
	module->functions = calloc(of->function_count + 1, sizeof(struct function));
	module->globals = calloc(of->global_count + 1, sizeof(struct region *));
	if (!module->functions || !module->globals ||
		object_register(&module->object, OBJECT_MODULE, context) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else
		r = add_functions(module);
	if (r == CUDA_SUCCESS)
		*ret_module = module;
	else
		module_free(module);
	return r;
}

static CUresult load(CUmodule *ret_handle, const void *data, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, function);
	struct module *module;
	struct image image;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !data)
		return CUDA_ERROR_INVALID_VALUE;
	if (image_read(data, &image) < 0)
		return CUDA_ERROR_INVALID_IMAGE;
	r = module_new(call.context, &image, NULL, &module);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmodule)(uintptr_t)module->object.handle;
	else
		image_release(&image);
	return r;
}

CUresult cuModuleLoadData(CUmodule *ret_handle, const void *data)
{
	return load(ret_handle, data, __func__);
}

/* Options have no effect, because nothing is compiled. */
CUresult cuModuleLoadDataEx(
	CUmodule *ret_handle, const void *data, unsigned count, CUjit_option *options, void **values)
{
	return load(ret_handle, data, __func__);
}

CUresult cuModuleLoadFatBinary(CUmodule *ret_handle, const void *data)
{
	return load(ret_handle, data, __func__);
}

/* Returns the file, NUL-terminated for text formats. The caller frees it. */
static CUresult read_file(const char *path, char **ret_data)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *data = NULL;
	size_t length = 0, n = 1;

	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	while (n > 0 && length < IMAGE_MAX) {
		char *more = realloc(data, length + 65536 + 1);

		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		data = more;
		n = fread(data + length, 1, 65536, f);
		length += n;
	}
	if (length < 8 || length >= IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	data[length] = '\0';
	*ret_data = TAKE_PTR(data);
	return CUDA_SUCCESS;
}

CUresult image_of_file(const char *path, struct image *ret_image)
{
	_cleanup_free_ char *data = NULL;
	CUresult r = read_file(path, &data);

	if (r == CUDA_SUCCESS && image_read(data, ret_image) < 0)
		r = CUDA_ERROR_INVALID_IMAGE;
	return r;
}

CUresult cuModuleLoad(CUmodule *ret_handle, const char *path)
{
	_cleanup_free_ char *data = NULL;
	CUresult r = ret_handle && path ? read_file(path, &data) : CUDA_ERROR_INVALID_VALUE;

	return r == CUDA_SUCCESS ? load(ret_handle, data, __func__) : r;
}

static CUresult begin(struct call *call, CUmodule handle, struct module **ret_module, const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_MODULE, ret_module) : r;
}

CUresult cuModuleUnload(CUmodule handle)
{
	_cleanup_call_ struct call call = {};
	struct module *module;
	CUresult r = begin(&call, handle, &module, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (module->library)
		return CUDA_ERROR_NOT_PERMITTED;
	module_free(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret_handle, CUmodule handle, const char *name)
{
	_cleanup_call_ struct call call = {};
	struct module *module;
	CUresult r = begin(&call, handle, &module, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !name)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < module->function_count; i++)
		if (strcmp(module->functions[i].image->name, name) == 0) {
			*ret_handle = (CUfunction)(uintptr_t)module->functions[i].object.handle;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned *ret_count, CUmodule handle)
{
	_cleanup_call_ struct call call = {};
	struct module *module;
	CUresult r = begin(&call, handle, &module, __func__);

	if (r == CUDA_SUCCESS && !ret_count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_count = (unsigned)module->function_count;
	return r;
}

CUresult cuModuleEnumerateFunctions(CUfunction *handles, unsigned count, CUmodule handle)
{
	_cleanup_call_ struct call call = {};
	struct module *module;
	CUresult r = begin(&call, handle, &module, __func__);

	if (r == CUDA_SUCCESS && !handles)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count && i < module->function_count; i++)
		handles[i] = (CUfunction)(uintptr_t)module->functions[i].object.handle;
	return r;
}

CUresult module_global(struct module *module, const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	const struct image *image = module_image(module);

	for (size_t i = 0; i < image->global_count; i++) {
		CUresult r = CUDA_SUCCESS;

		if (strcmp(image->globals[i].name, name) != 0)
			continue;
		if (!module->globals[i])
			r = memory_new(module->object.context, REGION_GLOBAL, ARENA_DEVICE,
				image->globals[i].bytes, &module->globals[i]);
		if (r == CUDA_SUCCESS && ret_address)
			*ret_address = module->globals[i]->span.base;
		if (r == CUDA_SUCCESS && ret_size)
			*ret_size = image->globals[i].bytes;
		return r;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *ret_address, size_t *ret_size, CUmodule handle, const char *name)
{
	_cleanup_call_ struct call call = {};
	struct module *module;
	CUresult r = begin(&call, handle, &module, __func__);

	if (r == CUDA_SUCCESS && !name)
		r = CUDA_ERROR_INVALID_VALUE;
	return r == CUDA_SUCCESS ? module_global(module, name, ret_address, ret_size) : r;
}

/* Modules are loaded completely when requested. */
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *ret_mode)
{
	if (!ret_mode)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_mode = 1;
	return CUDA_SUCCESS;
}
