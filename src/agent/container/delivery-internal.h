/* delivery-internal.h - the state that the files of this folder share. */
#pragma once

#include "agent/container/delivery.h"
#include "agent/container/isolation.h"
#include "base/list.h"

struct delivery {
	struct delivery_deps deps;
	struct list grants; /* struct node_grant */
	struct isolation isolation;
};
