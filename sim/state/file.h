/* file.h - the files of a driver tree's state, DIR/state/NAME, mapped. Libc only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How each of them begins. */
struct sim_file_head {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of the whole file */
};

struct sim_file {
	void *map;
	int fd; /* the caller's */
	bool writable;
};

/* sim_file_open() - to write, else to read only. Returns the descriptor, or -ENOENT: no tree; or what open()
 * says. */
int sim_file_open(const char *root, const char *name, bool *ret_writable);

/* sim_file_map() - the whole file; opened so. -EBADMSG: not our file, or another version's. */
int sim_file_map(
	const char *root, const char *name, struct sim_file_head expected, struct sim_file *ret_file);
