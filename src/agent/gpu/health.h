/* health.h - the GPUs as the driver shows them, now and from now on. */
#pragma once

#include <stdbool.h>

struct driver;
struct gpu_health;
struct inventory;
struct loop;
struct nvml;

/* What is brought up to date, in the loop; both must outlive the gpu_health. done: after each question to the
 * driver, which may be asked other things again; changed: the inventory is another one. */
struct gpu_health_ops {
	struct driver *driver;
	struct inventory *inventory;
	void (*done)(void *userdata, bool changed);
	void *userdata;
};

int gpu_health_new(struct loop *loop, const struct gpu_health_ops *ops, struct gpu_health **ret_health);
void gpu_health_free(struct gpu_health *health); /* accepts NULL */

/* gpu_health_poll() - about once a second: has the driver asked how the GPUs are, or opens its library when
 * there is none yet (looked for every 5 s). In a thread, since a call of the driver's can take seconds. */
void gpu_health_poll(struct gpu_health *health);

/* gpu_health_lend() - the open library, for another thread until gpu_health_return(); NULL if there is none,
 * or it is being asked how the GPUs are. Meanwhile gpu_health_poll() does nothing, but is made up for. What
 * is lent when gpu_health_free() is called stays open. */
struct nvml *gpu_health_lend(struct gpu_health *health);
void gpu_health_return(struct gpu_health *health);

/* gpu_health_follow() - if the driver's files are not those any more whose library is open: has the new one
 * opened. Until that is done, and where it cannot be now, gpu_health_is_outdated(). */
void gpu_health_follow(struct gpu_health *health);
bool gpu_health_is_outdated(const struct gpu_health *health);
