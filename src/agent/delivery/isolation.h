/* isolation.h - whether this node can hold containers to a limit at all: the runtime applies CDI files, the
 * shim is on the host, the driver is one that the shim can stand before. Where it cannot, an isolated node is
 * not in service: nobody gets a whole GPU instead.
 */
#pragma once

#include <stdint.h>

#include "agent/delivery/shim-install.h"
#include "agent/delivery/unknown.h"
#include "base/error.h"

struct agent;

struct isolation {
	char shim_version[SHIM_VERSION_SIZE]; /* "" until it is installed */
	unsigned int shim_driver;	      /* generation of the driver that it was fit for */
	struct error problem;		      /* "": none */
	struct unknown unknown;
	int64_t shim_again_ns, ask_again_ns;
	struct error shim_problem;
};

/* isolation_look() - again. Cheap enough for every second; a change of the problem is told. */
void isolation_look(struct agent *agent);
