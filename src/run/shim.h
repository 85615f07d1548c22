/* shim.h - the two substitutes for the driver's libraries, as one run uses them. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "run/driver.h"

#define RUN_SHIM_FOLDER "shim" /* in a run's folder: substitutes that were made for this run */

struct shim {
	char folder[PATH_MAX]; /* where they are installed */
	/* The contents of the substitutes with the names of functions that only this driver has; NULL: there
	 * are none. */
	char *cuda, *nvml;
	size_t cuda_len, nvml_len;
};

/* shim_find() - next to this program in an installation, next to its folder in a build folder. */
int shim_find(struct shim *ret_shim, struct error *err);

/* shim_fit() - compares them with the driver. An unreadable library of the driver counts as having no further
 * functions. */
int shim_fit(struct shim *shim, const struct driver *driver, struct error *err);

/* shim_is_installed_fit() - whether the installed files have all functions of the driver. */
bool shim_is_installed_fit(const struct shim *shim);

/* shim_write() - writes the two with the driver's names into this folder. */
int shim_write(const struct shim *shim, const char *folder);

void shim_release(struct shim *shim);
