/* delivery-internal.h - the state that the files of this folder share. */
#pragma once

#include <stdint.h>

#include "agent/container/delivery.h"
#include "agent/container/shim-install.h"
#include "agent/container/unknown.h"
#include "base/error.h"
#include "base/list.h"

/* What delivery_look() has found out. */
struct isolation {
	char shim_version[SHIM_VERSION_SIZE]; /* "" until it is installed */
	unsigned int shim_driver;	      /* generation of the driver that it was fit for */
	struct unknown unknown;
	int64_t shim_again_ns, ask_again_ns;
	struct error shim_problem;
};

struct delivery {
	struct delivery_deps deps;
	struct list grants; /* struct node_grant */
	struct isolation isolation;
};
