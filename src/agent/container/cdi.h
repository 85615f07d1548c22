/* cdi.h - one CDI file per pod, with everything that its containers get from the agent. The container runtime
 * applies it after the pod's own environment and volumes, which therefore cannot override it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/container/driver.h"

struct error;
struct inventory;
struct node_pod;
struct served;

#define CDI_KIND "ration.dev/grant"

/* cdi_path() - DIR/ration-<uid>.json. */
int cdi_path(const char *dir, const char *uid, char *buf, size_t size);
bool cdi_exists(const char *dir, const char *uid);

/* What the containers of an isolated node get beside their GPUs. */
struct cdi_isolation {
	const char *state_dir;	  /* with the shim and the grants, as the container runtime sees it */
	const char *shim_version; /* see shim-install.h */
	bool allow_disable;	  /* containers that ask for no limit get the whole GPU, as on a share node */
};

/* Where a container of an isolated node has the driver's own libraries. The names are the same for every
 * version of the driver, since the grant, which is not rewritten, has them too. */
const char *cdi_private_library(enum driver_part part);

/* cdi_write() - writes the file for this pod with all its placed containers. The device of this container is
 * made again. Those of the others stay as they are in the file, or are made if the file lacks them. Each has
 * the name that answered_name() returns. isolation NULL: on a share node. Negative errno with a sentence. */
int cdi_write(const char *dir, const struct inventory *inventory, const struct driver *driver,
	const struct served *served, const struct node_pod *pod, const char *container,
	const struct cdi_isolation *isolation, struct error *err);

/* cdi_remove_device() - takes the device with this name out of the file of this pod. If the file or the
 * device is not there, this is success. Negative errno with a sentence. */
int cdi_remove_device(const char *dir, const char *uid, const char *name, struct error *err);

/* cdi_remove() - a file that is not there is success. */
void cdi_remove(const char *dir, const char *uid);

/* cdi_uid() - the uid in the name of an agent's CDI file; false for any other name. */
bool cdi_uid(const char *file, char *ret_uid, size_t size);

/* cdi_is_partial() - the name is that of a CDI file that an agent was writing when it was killed. */
bool cdi_is_partial(const char *file);
