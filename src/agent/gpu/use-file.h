/* use-file.h - keeps what a container has used (model/use.h) beside its grant, so that it survives a restart
 * of the agent. Containers cannot see the file. */
#pragma once

#include "model/use.h"

/* use_file_read() - fills n records, one for each GPU of the grant in its order; zeros if the file is empty,
 * of another version, or of another number of GPUs. */
void use_file_read(int fd, unsigned n, struct use_record *ret_records);

/* use_file_write() - writes record i of n. If it cannot be written, a restart of the agent loses it. */
void use_file_write(int fd, unsigned n, unsigned i, const struct use_record *record);
