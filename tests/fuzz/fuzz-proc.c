/* What the kernel says of processes and mounts, where a process may choose its own name and the names of its
 * folders. Input: pieces that end with a NUL, whose first byte says what the rest is: s, t, c and n are
 * /proc/PID/stat, status, cgroup and comm of one process; m is /proc/PID/mountinfo, after a line with the
 * path that is asked about. */
#include "fuzz.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/state-mount.h"
#include "agent/gpu/processes.h"
#include "base/fs.h"
#include "grant/outside.h"
#include "grant/owner.h"
#include "run/registry.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {
	"s1234 (a) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 18446744073709551615 1 1 140720000000000 0",
	") Z ", ") S ", "(", ")", " ", "tName:\ta\n", "\nNSpid:\t1234\t7\n", "\t", "c0::/", "kubepods",
	"pod6f1c2f0e-3c55-4a39-9a0b-0f1d2c3b4a59", "/",
	"cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope",
	"m/run/ration\n", "36 35 98:0 / /run rw shared:1 - tmpfs t rw\n", " shared:1 ", " - ", "\\040",
	"na\n", NULL};

#define PID 4999999 /* more than any process has: there is no pidfd of it, and nothing about it is kept */
static bool inside; /* else driver.c reads the corpus */
static char proc[64];
static struct {
	char letter;
	const char *name;
	int fd;
	char *text; /* of this input */
} files[] = {{'s', "stat", -1, NULL}, {'t', "status", -1, NULL}, {'c', "cgroup", -1, NULL},
	{'n', "comm", -1, NULL}};

/* By the linker in the place of base/fs.c's (meson.build): /proc/PID/stat of `ration run`. */
int __wrap_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len);
int __real_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len);

int __wrap_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len)
{
	size_t len = files[0].text ? strlen(files[0].text) : 0;

	if (!inside)
		return __real_fs_read(path, max, ret_data, ret_len);
	MUST(strncmp(path, "/proc/", 6) == 0);
	if (!files[0].text || len > max)
		return -1;
	*ret_data = strdup(files[0].text);
	*ret_len = len;
	MUST(*ret_data);
	return 0;
}

static void put(int fd, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	MUST(ftruncate(fd, 0) == 0 && pwrite(fd, text ? text : "", len, 0) == (ssize_t)len);
}

static void mounts(const char *text)
{
	const char *line = strchr(text, '\n');
	_cleanup_free_ char *path = line ? strndup(text, (size_t)(line - text)) : NULL;

	/* Nothing passes on what is mounted where no mount says so. */
	if (path && mountinfo_is_shared(line + 1, path))
		MUST(strstr(line + 1, "shared:"));
}

static void check_stat(void)
{
	struct owner_stat about;
	uint64_t ticks = 0;
	char path[100];

	snprintf(path, sizeof(path), "%s/%d/stat", proc, PID);
	if (owner_read_stat(path, &about))
		MUST(about.start_ticks > 0);
	if (process_start_ticks(PID, &ticks) == 0)
		MUST(process_is_alive(PID, ticks) && process_is_alive(PID, 0) &&
			(ticks == UINT64_MAX || !process_is_alive(PID, ticks + 1)));
}

static void check_process(void)
{
	char name[PROCESS_NAME_SIZE];
	const struct process *process;
	static struct processes *processes;
	struct owner owner;

	if (!processes)
		MUST(processes_new(proc, &processes) == 0);
	processes_begin(processes);
	process = processes_get(processes, PID, UINT64_MAX);
	if (process) {
		MUST(process->pid == PID && OWNER_PID(process->owner.word));
		MUST(process->verdict <= 0);
		if (process->verdict == 0)
			MUST(*process->place.uid);
	}
	MUST((outside_read(proc, PID, 0, &owner) == 0) == (process != NULL));
	process_name(processes, PID, name);
	MUST(*name && strlen(name) < PROCESS_NAME_SIZE);
	for (const char *at = name; *at; at++)
		MUST(isgraph((unsigned char)*at) && !strchr("(),\"", *at));
}

static void remove_all(void) __attribute__((destructor));
static void remove_all(void)
{
	char path[100];

	for (size_t i = 0; *proc && i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%d/%s", proc, PID, files[i].name);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/%d", proc, PID);
	rmdir(path);
	rmdir(proc);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[100];

	snprintf(proc, sizeof(proc), "%s/ration-fuzz-proc-%d", fuzz_folder(), (int)getpid());
	snprintf(path, sizeof(path), "%s/%d", proc, PID);
	MUST(mkdir(proc, 0700) == 0 && mkdir(path, 0700) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%d/%s", proc, PID, files[i].name);
		files[i].fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		MUST(files[i].fd >= 0);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	bool any = false;

	inside = true;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		files[i].text = NULL;
	for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			if (text[at] == files[i].letter) {
				files[i].text = text + at + 1;
				any = true;
			}
		if (text[at] == 'm')
			mounts(text + at + 1);
	}
	for (size_t i = 0; any && i < ARRAY_SIZE(files); i++)
		put(files[i].fd, files[i].text);
	if (any) {
		check_stat();
		check_process();
	}
	inside = false;
	free(text);
	return 0;
}
