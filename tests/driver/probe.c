/* clang-format off */
/* Asks a driver's library, found as any program finds it, and prints what it answers, a line each. The driver
 * suite runs it with and without the shim and compares the lines. Names come from standard input.
 *
 *   probe calls SONAME VALUE [init]   every function with VALUE for each argument, in a child of its own:
 *                                     result or signal. init: after cuInit
 *   probe lookup VERSION...           cuGetProcAddress and cuGetProcAddress_v2 for all names x VERSION x flags
 *   probe errors | nvml-errors        the texts of all error numbers of CUDA, of NVML
 */
/* clang-format on */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_MAX 5
#define UNTOUCHED ((void *)0x5a5a5a5a)

typedef int (*any_function)(
	long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);

static void *open_library(const char *soname)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

/* The next name of standard input, NULL at its end. */
static char *next_name(void)
{
	static char line[256];

	if (!fgets(line, sizeof line, stdin))
		return NULL;
	line[strcspn(line, "\n")] = 0;
	return line;
}

static void call_in_child(any_function function, long v, int out)
{
	int null = open("/dev/null", O_RDWR);
	int result;

	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	alarm(SECONDS_MAX);
	result = function(v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v);
	if (write(out, &result, sizeof result) != sizeof result)
		_exit(1);
	_exit(0);
}

static void print_call(const char *name, any_function function, long value)
{
	int ends[2], status, result;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (child = fork()) < 0) {
		perror("probe");
		exit(1);
	}
	if (child == 0)
		call_in_child(function, value, ends[1]);
	close(ends[1]);
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s = %s\n", name, strsignal(WTERMSIG(status)));
	else if (read(ends[0], &result, sizeof result) == sizeof result)
		printf("%s = %d\n", name, result);
	else
		printf("%s = ends the process\n", name);
	close(ends[0]);
}

static int calls(const char *soname, long value, bool init)
{
	void *library = open_library(soname);
	any_function cu_init = (any_function)dlsym(library, "cuInit");

	if (init)
		printf("cuInit before = %d\n", cu_init(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));

	for (char *name; (name = next_name());) {
		any_function function = (any_function)dlsym(library, name);

		if (function)
			print_call(name, function, value);
		else
			printf("%s = absent\n", name);
	}
	return 0;
}

/* A pointer as a name: which function it is does not depend on the library that holds it. */
static const char *pointer_name(void *pointer)
{
	Dl_info info;

	if (!pointer)
		return "null";
	if (pointer == UNTOUCHED)
		return "untouched";
	return dladdr(pointer, &info) && info.dli_sname && info.dli_saddr == pointer ? info.dli_sname
										     : "unnamed";
}

static int lookup(char **versions)
{
	void *library = open_library("libcuda.so.1");
	int (*v1)(const char *, void **, int, uint64_t) = dlsym(library, "cuGetProcAddress");
	int (*v2)(const char *, void **, int, uint64_t, int *) = dlsym(library, "cuGetProcAddress_v2");

	for (char *name; (name = next_name());)
		for (char **version = versions; *version; version++)
			for (unsigned flags = 0; flags < 5; flags++) {
				void *pointer = UNTOUCHED;
				int status = -77, result;

				if (v1) {
					result = v1(name, &pointer, atoi(*version), flags);
					printf("v1 %s %s %u = %d %s\n", name, *version, flags, result,
						pointer_name(pointer));
				}
				pointer = UNTOUCHED;
				if (v2) {
					result = v2(name, &pointer, atoi(*version), flags, &status);
					printf("v2 %s %s %u = %d %d %s\n", name, *version, flags, result,
						status, pointer_name(pointer));
				}
			}
	return 0;
}

static int errors(void)
{
	void *library = open_library("libcuda.so.1");
	int (*name_of)(int, const char **) = dlsym(library, "cuGetErrorName");
	int (*text_of)(int, const char **) = dlsym(library, "cuGetErrorString");

	for (int error = -1; error <= 1100; error++) {
		const char *name = "untouched", *text = "untouched";
		int named = name_of(error, &name), described = text_of(error, &text);

		printf("%d = %d %s %d %s\n", error, named, name ? name : "null", described,
			text ? text : "null");
	}
	return 0;
}

static int nvml_errors(void)
{
	void *library = open_library("libnvidia-ml.so.1");
	const char *(*text_of)(int) = dlsym(library, "nvmlErrorString");

	for (int error = -1; error <= 1100; error++)
		printf("%d = %s\n", error, text_of(error));
	return 0;
}

int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "calls"))
		return calls(argv[2], atol(argv[3]), argc == 5 && !strcmp(argv[4], "init"));
	if (argc > 2 && !strcmp(argv[1], "lookup"))
		return lookup(argv + 2);
	if (argc == 2 && !strcmp(argv[1], "errors"))
		return errors();
	if (argc == 2 && !strcmp(argv[1], "nvml-errors"))
		return nvml_errors();
	fprintf(stderr,
		"usage: probe calls SONAME VALUE [init] | lookup VERSION... | errors | nvml-errors\n");
	return 2;
}
