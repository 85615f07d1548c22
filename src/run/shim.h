/* shim.h - the two substitutes for the driver's libraries, as one run uses them. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "run/driver.h"

#define RUN_SHIM_FOLDER "shim" /* in a run's folder: substitutes that were made for it */

struct shim {
	char folder[PATH_MAX]; /* where ration was installed with them */
	/* What is in them once they have the names of functions which only this driver has; NULL: it has
	 * none. */
	char *cuda, *nvml;
	size_t cuda_len, nvml_len;
};

/* shim_find() - beside this program in an installation, beside its folder in a build folder. */
int shim_find(struct shim *ret_shim, struct error *err);

/* shim_fit() - compare them with the driver. A driver's library that cannot be read has no functions for
 * them. */
int shim_fit(struct shim *shim, const struct driver *driver, struct error *err);

/* shim_is_installed_fit() - whether the installed files have all functions of the driver. */
bool shim_is_installed_fit(const struct shim *shim);

/* shim_write() - put the two with the driver's names into this folder. */
int shim_write(const struct shim *shim, const char *folder);

void shim_release(struct shim *shim);
