/* file.h - maps the files of a driver tree's state, DIR/state/NAME. Libc only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The beginning of each of these files. */
struct sim_file_head {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of the whole file */
};

struct sim_file {
	void *map;
	int fd; /* owned by the caller */
	bool writable;
};

/* sim_file_open() - opens for writing if possible, else for reading. Returns the descriptor; -ENOENT: no
 * tree; or the error of open(). */
int sim_file_open(const char *root, const char *name, bool *ret_writable);

/* sim_file_map() - maps the whole file, in the mode in which it was opened. -EBADMSG: not our file, or of
 * another version. */
int sim_file_map(
	const char *root, const char *name, struct sim_file_head expected, struct sim_file *ret_file);
