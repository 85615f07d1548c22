/* exits.h - put in front of every file of a coverage build. gcov writes its counters when a process calls
 * exit() or exec(), and not when it calls _exit() (libgcov of gcc 12: __gcov_exit() is a destructor,
 * __gcov_execv() and others stand in for exec).
 */
#pragma once
#ifndef __ASSEMBLER__
#include <unistd.h>

void __gcov_dump(void);

static inline void __attribute__((noreturn, unused)) coverage_exit(int status)
{
	__gcov_dump();
	_exit(status);
}

#define _exit(status) coverage_exit(status)
#endif
