/* isolation.h - what delivery_look() has found out. */
#pragma once

#include <stdint.h>

#include "agent/container/shim-install.h"
#include "agent/container/unknown.h"
#include "base/error.h"

struct isolation {
	char shim_version[SHIM_VERSION_SIZE]; /* "" until it is installed */
	unsigned int shim_driver;	      /* generation of the driver that it was fit for */
	struct unknown unknown;
	int64_t shim_again_ns, ask_again_ns;
	struct error shim_problem;
};
