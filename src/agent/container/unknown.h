/* unknown.h - functions of the node's driver that this version's shim does not know. A program that calls
 * them is not held to its limit by them, so people are told which they are before it matters.
 */
#pragma once

#include <stddef.h>

#include "agent/container/shim-install.h"

struct delivery;

/* What becomes of isolated modes while there are some. */
enum unknown_functions { UNKNOWN_SERVE, UNKNOWN_REFUSE };

struct unknown {
	unsigned int generation; /* of the driver that was compared, plus one; 0: none was */
	char shim_version[SHIM_VERSION_SIZE];
	size_t count;
	char text[512]; /* a sentence about the unknown functions; "" if all are known */
};

/* unknown_compare() - the driver that was found with the shim that was installed, if either is another than
 * the last time. What is new is told by an Event. */
void unknown_compare(struct delivery *delivery);
