/* watch.h - the health of a set of GPUs: driver events, GPUs that no longer answer, and their recovery.
 *
 * The caller's loop polls about once a second, because NVML has no file descriptor to wait on.
 *
 * Unhealthy by an event: a critical Xid or an uncorrectable ECC error. Xids that a faulty program causes (13,
 * 31, 43, 45, 68, 109) do not count. For these NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors) says
 * "restart the application", and NVIDIA's own device plugin ignores the same ones (k8s-device-plugin,
 * internal/rm/health.go). The GPU is healthy again when the driver reports that no recovery action is needed.
 * Drivers before 550 cannot report that; then only a new watch, that is, a restart of the program after a
 * person has checked the GPU, clears the fault.
 *
 * Unhealthy because lost: the GPU does not answer (fallen off the bus, reset required). It is healthy again
 * when it answers. To find out, the library is restarted: first after NVML_WATCH_RETRY_NS, then at doubling
 * intervals up to NVML_WATCH_RETRY_MAX_NS. Handles of a lost GPU stay dead, and a library that is never shut
 * down prevents a reset of the GPU.
 */
#pragma once

#include "nvml/nvml.h"

#define NVML_WATCH_RETRY_NS (INT64_C(5) * 1000 * 1000 * 1000)
#define NVML_WATCH_RETRY_MAX_NS (INT64_C(60) * 1000 * 1000 * 1000)

struct nvml_watch;

struct nvml_change {
	size_t gpu; /* index in the inventory's gpus[] */
	bool healthy;
	char reason[120]; /* for a person; "" when healthy */
};

/* nvml_watch_open() - watches the GPUs of an inventory, which are all considered healthy at first. Both
 * arguments must outlive the watch. While a watch is open, only the watch may call nvml_restart(). */
int nvml_watch_open(struct nvml_watch **ret_watch, struct nvml *nvml, const struct nvml_inventory *inventory,
	struct error *err);
struct nvml_watch *nvml_watch_close(struct nvml_watch *watch);

static inline void nvml_watch_close_ptr(struct nvml_watch **watch)
{
	nvml_watch_close(*watch);
}
#define _cleanup_nvml_watch_ _cleanup_(nvml_watch_close_ptr)

/* nvml_watch_poll() - the changes since the last call. Never waits for events. Fills at most max changes
 * (NVML_MAX_GPUS is always enough) and returns their number. now_ns is monotonic time. */
size_t nvml_watch_poll(struct nvml_watch *watch, int64_t now_ns, struct nvml_change *ret_changes, size_t max);

/* nvml_xid_is_critical() - whether the Xid makes a GPU unhealthy, as explained above. */
bool nvml_xid_is_critical(uint64_t xid);
