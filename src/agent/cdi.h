/* cdi.h - one CDI file per pod: everything its containers get from us, applied by the container runtime after
 * the pod's own environment and volumes, which therefore cannot override it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct driver;
struct error;
struct inventory;
struct pod_facts;

#define CDI_KIND "ration.dev/grant"
#define CDI_NAME_SIZE 512

/* cdi_device_name() - "ration.dev/grant=<pod uid>.<container>". */
const char *cdi_device_name(const char *uid, const char *container, char *buf, size_t size);

/* cdi_path() - DIR/ration-<uid>.json. */
int cdi_path(const char *dir, const char *uid, char *buf, size_t size);
bool cdi_exists(const char *dir, const char *uid);

/* cdi_write() - the file for this pod, all its placed containers in it, unless it is there with this very
 * content. Negative errno with a sentence. */
int cdi_write(const char *dir, const struct inventory *inventory, const struct driver *driver,
	const struct pod_facts *pod, struct error *err);

/* cdi_remove() - a file that is not there is success. */
void cdi_remove(const char *dir, const char *uid);

/* cdi_uid() - the uid in a file name of ours; false for any other name. */
bool cdi_uid(const char *file, char *ret_uid, size_t size);
