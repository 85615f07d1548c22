#include "run/shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/elf-fit.h"
#include "base/fs.h"

#define LIBRARY_MAX ((size_t)16 << 20)

int shim_find(struct shim *ret_shim, struct error *err)
{
	static const char *const places[] = {"shim", "../shim"};
	char self[PATH_MAX], path[PATH_MAX];
	int r = fs_own_folder(self);

	*ret_shim = (struct shim){""};
	if (r < 0)
		return error_set(err, -r, "/proc/self/exe: %s", strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%.3800s/%s/libcuda.so.1", self, places[i]);
		if (access(path, R_OK) < 0)
			continue;
		*strrchr(path, '/') = '\0';
		if (realpath(path, ret_shim->folder))
			return 0;
	}
	return error_set(err, ENOENT, "ration's libcuda.so.1 is not in %s/shim: install it there", self);
}

static int fit_library(const char *folder, const char *name, const char *driver, const char *prefix,
	const char *without, char **ret_data, size_t *ret_len, struct error *err)
{
	_cleanup_elf_names_ struct elf_names names = {NULL};
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%.4000s/%s", folder, name);
	r = fs_read(path, LIBRARY_MAX, ret_data, ret_len);
	if (r < 0)
		return error_set(err, -r, "%s: %s", path, strerror(-r));
	if (elf_functions(driver, prefix, without, &names) < 0)
		return 0;
	r = elf_fit(*ret_data, *ret_len, &names);
	return r < 0 ? error_set(err, -r, "%s: this is not ration's library: install it again", path) : r;
}

int shim_fit(struct shim *shim, const struct driver *driver, struct error *err)
{
	int cuda = fit_library(
		shim->folder, "libcuda.so.1", driver->cuda, "cu", "cudbg", &shim->cuda, &shim->cuda_len, err);
	int nvml = cuda < 0 ? cuda
			    : fit_library(shim->folder, "libnvidia-ml.so.1", driver->nvml, "nvml", NULL,
				      &shim->nvml, &shim->nvml_len, err);

	if (cuda <= 0 && nvml <= 0)
		shim_release(shim);
	return nvml < 0 ? nvml : 0;
}

bool shim_is_installed_fit(const struct shim *shim)
{
	return !shim->cuda;
}

int shim_write(const struct shim *shim, const char *folder)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%.4000s/libcuda.so.1", folder);
	r = fs_write_atomic(path, 0755, shim->cuda, shim->cuda_len);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%.4000s/libnvidia-ml.so.1", folder);
	return fs_write_atomic(path, 0755, shim->nvml, shim->nvml_len);
}

void shim_release(struct shim *shim)
{
	free(shim->cuda);
	free(shim->nvml);
	shim->cuda = shim->nvml = NULL;
}
