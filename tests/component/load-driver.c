/* load-driver HOW [PATH]: find the driver's library in one of the ways in which programs do, and print how
 * much memory its first card has, in MiB; "no card" where there is none, "not found" where there is no
 * library. Compiled by test_run_loading.py for glibc and musl, shared and static. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*init_function)(unsigned);
typedef int (*total_function)(size_t *, int);
typedef void *(*dlsym_function)(void *, const char *);

static int report(int init, total_function total)
{
	size_t bytes = 0;

	if (init != 0)
		return puts(init == 100 ? "no card" : "error") < 0;
	if (total(&bytes, 0) != 0)
		return puts("error") < 0;
	return printf("%zu\n", bytes >> 20) < 0;
}

static int use(void *handle, dlsym_function find)
{
	init_function init = handle ? (init_function)find(handle, "cuInit") : NULL;
	total_function total = handle ? (total_function)find(handle, "cuDeviceTotalMem_v2") : NULL;

	if (!init || !total) {
		fprintf(stderr, "%s\n", dlerror());
		return puts("not found") < 0;
	}
	return report(init(0), total);
}

#ifdef LINKED
extern int cuInit(unsigned), cuDeviceTotalMem_v2(size_t *, int);

int main(void)
{
	return report(cuInit(0), cuDeviceTotalMem_v2);
}
#elif defined(PLUGIN)
extern int cuInit(unsigned), cuDeviceTotalMem_v2(size_t *, int);

int plugin(void)
{
	return report(cuInit(0), cuDeviceTotalMem_v2);
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
