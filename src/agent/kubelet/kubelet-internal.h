/* kubelet-internal.h - the state that the files of this folder share. */
#pragma once

#include "agent/events.h"
#include "agent/kubelet/kubelet.h"
#include "agent/kubelet/unregistered.h"
#include "base/list.h"
#include "node/registry.h"

struct kubelet {
	struct kubelet_deps deps;
	struct images *images;
	struct plugin *plugin, *gpu_plugin; /* of gpu-mem, and of whole GPUs: never both at a time */
	struct core_plugin *core_plugin;
	struct registrar *registrar, *gpu_registrar, *core_registrar;
	struct list assignments; /* of assign.c, on their way */
	struct list prestarts;	 /* of prestart.c: calls that wait */
	struct unregistered unregistered;
	struct kubelet_counts counts;
};
