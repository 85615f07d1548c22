/* module.h - modules and libraries: loaded images, their functions and variables. */
#pragma once

#include "sim/libcuda/image.h"
#include "sim/libcuda/memory.h"

/* A function of a module, or (as a kernel, without a context) of a library. */
struct function {
	struct object object;
	struct module *module;
	struct library *library;
	const struct image_function *image;
	int max_dynamic_shared;
	int carveout;
};

struct module {
	struct object object;
	struct library *library; /* the library for which it was loaded in this context */
	struct image image;	 /* empty for a library's module */
	uint64_t bytes;		 /* of GPU memory */
	struct function *functions;
	struct region **globals; /* one per global of the image; created at the first request */
	size_t function_count;
};

struct library {
	struct object object;
	struct image image;
	struct function *kernels;
};

/* module_new() - takes ownership of a module's image, or borrows the library's. */
CUresult module_new(
	struct context *context, struct image *image, struct library *library, struct module **ret_module);
void module_free(struct module *module);
const struct image *module_image(const struct module *module);

/* module_global() - the address of a variable. NOT_FOUND. */
CUresult module_global(struct module *module, const char *name, CUdeviceptr *ret_address, size_t *ret_size);
/* image_of_file() - FILE_NOT_FOUND, INVALID_IMAGE. */
CUresult image_of_file(const char *path, struct image *ret_image);

/* library_module() - the library's module in this context, loaded at the first request. */
CUresult library_module(struct library *library, struct context *context, struct module **ret_module);

/* function_find() - a function, or a kernel in this context (a CUkernel may be passed as a CUfunction). */
CUresult function_find(struct context *context, uint64_t handle, struct function **ret_function);
/* function_blocks_per_sm() - how many blocks of a kernel a multiprocessor runs at a time. */
unsigned function_blocks_per_sm(unsigned threads, size_t shared);
