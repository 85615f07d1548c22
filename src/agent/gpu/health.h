/* health.h - reads the GPUs and their health from the driver, and follows changes of both. */
#pragma once

#include <stdbool.h>

struct driver;
struct gpu_health;
struct inventory;
struct loop;
struct nvml;

/* driver and inventory are updated in the loop and must outlive the gpu_health. done: called after each
 * question to the driver; then the library can be borrowed again. changed: the inventory has changed. */
struct gpu_health_ops {
	struct driver *driver;
	struct inventory *inventory;
	void (*done)(void *userdata, bool changed);
	void *userdata;
};

int gpu_health_new(struct loop *loop, const struct gpu_health_ops *ops, struct gpu_health **ret_health);
void gpu_health_free(struct gpu_health *health); /* accepts NULL */

/* gpu_health_poll() - call it about once a second. It asks the driver for the health of the GPUs, or tries
 * every 5 s to open its library. A thread does both, since a call of the driver can take seconds. */
void gpu_health_poll(struct gpu_health *health);

/* gpu_health_lend() - lends the open library to another thread until gpu_health_return(). NULL: no library is
 * open, or gpu_health_poll() uses it. A gpu_health_poll() that comes meanwhile runs at the return. A library
 * that is lent when gpu_health_free() is called stays open. */
struct nvml *gpu_health_lend(struct gpu_health *health);
void gpu_health_return(struct gpu_health *health);

/* gpu_health_follow() - if the driver's files were replaced after the library was opened, opens the new
 * library. gpu_health_is_outdated() is true until that is done. */
void gpu_health_follow(struct gpu_health *health);
bool gpu_health_is_outdated(const struct gpu_health *health);
