/* load-driver HOW [PATH]: find the driver's library in one of the ways in which programs do, and print how
 * much memory its first GPU has, in MiB; "no GPU" where there is none, "not found" where there is no
 * library. With LOAD_DRIVER_FILL it then allocates until not even 1 MiB more is given, prints
 * "held MiB, then ERROR", and with LOAD_DRIVER_FILL=stay holds it until it is ended. Compiled for glibc and
 * musl, shared and static, by the tests of `ration run` and by those of containers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct driver {
	int (*init)(unsigned);
	int (*total)(size_t *, int);
	int (*create)(void *, unsigned, int);
	int (*allocate)(unsigned long long *, size_t);
};

typedef void *(*dlsym_function)(void *, const char *);

static int fill(const struct driver *driver, const char *how)
{
	unsigned long long address;
	size_t held = 0;
	void *context;
	int r = driver->create(&context, 0, 0);

	/* What a context takes is charged at the keeper's next look. Here it has time for one, as it mostly
	 * has where a program loads its modules first. */
	if (strcmp(how, "stay") == 0)
		sleep(1);
	for (size_t mib = 1024; r == 0 && mib > 0; mib /= 2) {
		while ((r = driver->allocate(&address, mib << 20)) == 0)
			held += mib;
		if (r == 2 && mib > 1)
			r = 0; /* what is half as large may be there yet */
	}
	printf("held %zu, then %d\n", held, r);
	fflush(stdout);
	while (strcmp(how, "stay") == 0)
		pause();
	return 0;
}

static int report(const struct driver *driver)
{
	const char *how = getenv("LOAD_DRIVER_FILL");
	size_t bytes = 0;
	int init = driver->init(0);

	if (init != 0)
		return puts(init == 100 ? "no card" : "error") < 0;
	if (driver->total(&bytes, 0) != 0)
		return puts("error") < 0;
	if (printf("%zu\n", bytes >> 20) < 0)
		return 1;
	return how ? fill(driver, how) : 0;
}

static int use(void *handle, dlsym_function find)
{
	struct driver driver = {0};

	if (handle) {
		driver.init = find(handle, "cuInit");
		driver.total = find(handle, "cuDeviceTotalMem_v2");
		driver.create = find(handle, "cuCtxCreate_v2");
		driver.allocate = find(handle, "cuMemAlloc_v2");
	}
	if (!driver.init || !driver.total) {
		fprintf(stderr, "%s\n", dlerror());
		return puts("not found") < 0;
	}
	return report(&driver);
}

#if defined(LINKED) || defined(PLUGIN)
extern int cuInit(unsigned), cuDeviceTotalMem_v2(size_t *, int), cuCtxCreate_v2(void *, unsigned, int),
	cuMemAlloc_v2(unsigned long long *, size_t);

static int report_linked(void)
{
	const struct driver driver = {cuInit, cuDeviceTotalMem_v2, cuCtxCreate_v2, cuMemAlloc_v2};

	return report(&driver);
}
#endif

#ifdef LINKED
int main(void)
{
	return report_linked();
}
#elif defined(PLUGIN)
int plugin(void)
{
	return report_linked();
}
#else
static int run_plugin(const char *path, int flags)
{
	void *handle = dlopen(path, RTLD_NOW | flags);
	int (*plugin)(void) = handle ? (int (*)(void))dlsym(handle, "plugin") : NULL;

	if (!plugin)
		return puts("not found") < 0;
	return plugin();
}

int main(int argc, char **argv)
{
	const char *how = argv[1], *path = argc > 2 ? argv[2] : "libcuda.so.1";

	if (strcmp(how, "dlopen") == 0)
		return use(dlopen(path, RTLD_LAZY | RTLD_LOCAL), dlsym);
	if (strcmp(how, "global") == 0)
		return use(dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? dlopen(NULL, RTLD_NOW) : NULL, dlsym);
	if (strcmp(how, "again") == 0) {
		void *first = dlopen(path, RTLD_NOW);

		if (first)
			dlclose(first);
		return use(dlopen(path, RTLD_NOW), dlsym);
	}
	if (strcmp(how, "plugin") == 0)
		return run_plugin(path, RTLD_LOCAL);
#ifdef __GLIBC__
	if (strcmp(how, "deepbind") == 0)
		return use(dlopen(path, RTLD_NOW | RTLD_DEEPBIND), dlsym);
	if (strcmp(how, "deepbind-plugin") == 0)
		return run_plugin(path, RTLD_DEEPBIND);
#ifndef STATIC
	if (strcmp(how, "dlvsym") == 0)
		return use(
			dlopen(path, RTLD_NOW), (dlsym_function)dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5"));
	if (strcmp(how, "dlmopen") == 0)
		return use(dlmopen(LM_ID_NEWLM, path, RTLD_NOW), dlsym);
#endif
#endif
	return 2;
}
#endif
