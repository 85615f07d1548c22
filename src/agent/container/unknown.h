/* unknown.h - functions of the node's driver that this version's shim does not know. The shim cannot limit
 * what these functions do, so an Event names them before a program calls them. */
#pragma once

#include <stddef.h>

#include "agent/container/shim-install.h"

struct delivery;

/* What becomes of isolated modes while there are some. */
enum unknown_functions { UNKNOWN_SERVE, UNKNOWN_REFUSE };

struct unknown {
	unsigned int generation; /* of the driver that was compared, plus one; 0: no driver was compared */
	char shim_version[SHIM_VERSION_SIZE];
	size_t count;
	char text[512]; /* a sentence about the unknown functions; "" if all are known */
};

/* unknown_compare() - compares the driver on the node with the installed shim, if one of them has changed
 * since the last call. An Event reports new unknown functions. */
void unknown_compare(struct delivery *delivery);
