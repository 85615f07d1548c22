#include "agent/container/unknown.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/delivery-internal.h"
#include "agent/container/driver.h"
#include "agent/events.h"
#include "base/elf-functions.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/registry.h"

static void compare_library(
	struct delivery *delivery, enum driver_part part, struct elf_difference *ret_difference)
{
	bool cuda = part == DRIVER_CUDA;
	char library[PATH_MAX], shim[PATH_MAX];
	int r = driver_library_path(delivery->deps.driver, part, library, sizeof(library));

	*ret_difference = (struct elf_difference){0};
	snprintf(
		shim, sizeof(shim), "%s/%s", delivery->deps.shim_dir, cuda ? SHIM_CUDA_FILE : SHIM_NVML_FILE);
	/* What only a debugger asks for (cudbg...) takes no memory and starts no work. */
	if (r == 0)
		r = elf_compare(library, shim, cuda ? "cu" : "nvml", cuda ? "cudbg" : NULL, ret_difference);
	if (r < 0)
		log_warning("the functions of %s cannot be compared with those that are limited: %s", library,
			strerror(-r));
}

void unknown_compare(struct delivery *delivery)
{
	struct unknown *unknown = &delivery->isolation.unknown;
	struct elf_difference cuda, nvml;
	char text[sizeof(unknown->text)] = "";

	if (unknown->generation == delivery->deps.driver->generation + 1 &&
		strcmp(unknown->shim_version, delivery->isolation.shim_version) == 0)
		return;
	unknown->generation = delivery->deps.driver->generation + 1;
	snprintf(
		unknown->shim_version, sizeof(unknown->shim_version), "%s", delivery->isolation.shim_version);
	compare_library(delivery, DRIVER_CUDA, &cuda);
	compare_library(delivery, DRIVER_NVML, &nvml);
	unknown->count = cuda.count + nvml.count;
	if (unknown->count)
		snprintf(text, sizeof(text),
			"the NVIDIA driver %.30s has %zu functions that this version of ration does not know and does not limit: %.260s%s%.40s; upgrade ration",
			delivery->deps.driver->version, unknown->count, cuda.names,
			cuda.count && nvml.count ? ", " : "", nvml.names);
	if (strcmp(text, unknown->text) == 0)
		return;
	memcpy(unknown->text, text, sizeof(text));
	if (text[0])
		event_on_node(delivery->deps.events, NODE_REASON_UNKNOWN_FUNCTIONS, text);
}
