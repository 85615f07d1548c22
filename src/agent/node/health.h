/* health.h - the cards as the driver shows them, now and from now on. */
#pragma once

#include <stdbool.h>

struct driver;
struct gpu_health;
struct inventory;
struct nvml;

int gpu_health_new(struct gpu_health **ret_health);
void gpu_health_free(struct gpu_health *health); /* accepts NULL */

/* gpu_health_poll() - about once a second. Opens the driver's library when there is none yet (looked for
 * every 5 s), brings the inventory up to date. Returns whether the inventory changed. */
bool gpu_health_poll(struct gpu_health *health, struct driver *driver, struct inventory *inventory);

/* gpu_health_lend() - the open library, for another thread until gpu_health_return(); NULL if there is none.
 * Meanwhile gpu_health_poll() does nothing; gpu_health_return() says whether a poll was missed. What is lent
 * when gpu_health_free() is called stays open. */
struct nvml *gpu_health_lend(struct gpu_health *health);
bool gpu_health_return(struct gpu_health *health);

/* gpu_health_follow() - if the driver's files are not those any more whose library is open: opens the new
 * one. Returns whether the inventory changed. Not while it is lent: gpu_health_is_outdated() then. */
bool gpu_health_follow(struct gpu_health *health, struct driver *driver, struct inventory *inventory);
bool gpu_health_is_outdated(const struct gpu_health *health, const struct driver *driver);
