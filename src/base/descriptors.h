/* descriptors.h - makes room for many open files before they are needed. */
#pragma once

/* descriptors_reserve() - raises the limit of open files to the system's maximum, at most 64 Ki, and makes
 * the kernel allocate its table for the first `n` of them now. Call it before the first thread. If the table
 * grows while a process has several threads, open() waits until every processor has switched tasks
 * (expand_fdtable() in fs/file.c calls synchronize_rcu()). That took 13 to 24 ms each time, measured with
 * Linux 6.18. Failures are ignored. */
void descriptors_reserve(unsigned int n);
