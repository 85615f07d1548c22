/* descriptors.h - room for many open files, made before they are needed. */
#pragma once

/* descriptors_reserve() - as many as the system lets us have, at most 64 Ki; and the kernel's table for the
 * first `n` of them is made now. Called before the first thread: a table that grows while a process has
 * several threads makes open() wait until every processor has switched tasks (expand_fdtable() in fs/file.c
 * calls synchronize_rcu()): 13 to 24 ms each time, measured with Linux 6.18. What cannot be had is done
 * without. */
void descriptors_reserve(unsigned int n);
