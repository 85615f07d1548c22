/* image.h - the content of a module's image: functions with their durations, and variables.
 *
 * The simulation's own format is a text:
 * {"rationSimModule": 1, "memoryMiB": 4,
 * "functions": {"step": {"us": 100, "usPerBlock": 0.5, "fault": 700}},
 * "globals": {"table": 4096}}
 *
 * A kernel takes us + usPerBlock * blocks. "fault" is the CUresult with which it ends its context. Of images
 * made for real GPUs the names are read: PTX, and cubins and fat binaries (ELF). Their kernels take 5 us.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAX (256u << 20)
#define IMAGE_NAME_MAX 512
#define IMAGE_FUNCTIONS_MAX 4096

struct image_function {
	char *name;
	double us, us_per_block;
	uint32_t fault;
};

struct image_global {
	char *name;
	uint64_t bytes;
};

struct image {
	uint64_t memory_bytes; /* GPU memory of the module */
	struct image_function *functions;
	size_t function_count;
	struct image_global *globals;
	size_t global_count;
};

/* image_read() - the length is unknown; each format says where it ends. -EBADMSG, -ENOMEM. */
int image_read(const void *data, struct image *ret_image);
void image_release(struct image *image);

/* image_add_function(), image_add_global() - length: of the name. -ENOMEM, -E2BIG. */
int image_add_function(struct image *image, const char *name, size_t length, struct image_function **ret);
int image_add_global(struct image *image, const char *name, size_t length, uint64_t bytes);

/* image_read_json() - in image-json.c. */
int image_read_json(const char *text, struct image *ret_image);
