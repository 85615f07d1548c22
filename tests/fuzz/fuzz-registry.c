/* The folder in which runs of `ration run` register, where every user may put anything. Input: pieces of a
 * kind (one byte), a length (two) and so many bytes. n is the name of a run's folder, to which the following
 * pieces belong; without one it is that of a run which lives. c, p and u are its files GPUs, power and
 * usage; g is its grant: patches of a valid one (two bytes position, one length, the bytes), or with G the
 * file as it is; l makes the folder lib, with a file of that name; k makes lib a link to a folder of somebody
 * else. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "grant/grant.h"
#include "grant/usage.h"
#include "model/shares.h"
#include "run/registry.h"

const unsigned int fuzz_rounds = 1000;
const char *const fuzz_words[] = {"n\x00\x05", "1.123", "new-1.1", "2147483647.1", "-1.1", "c\x00\x02", "0\n",
	"p\x00\x1a", "core 30 weight 4 policy 3\n", "core 101", "weight 10001", "policy 9", "g\x00\x04",
	"u\x00\x08", "RAUSAGE1", "l\x00\x0c", "libcuda.so.1", "libnvidia-ml.so.1", "k\x00\x01", "..", "/",
	NULL};

static char place[64], theirs[80], kept[100], run_name[64], run_folder[400];
static struct grant_file valid;

static void put(const char *name, const void *data, size_t len)
{
	char path[800];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", run_folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	MUST(write(fd, data, len) == (ssize_t)len);
	close(fd);
}

static void put_grant(const uint8_t *data, size_t size)
{
	static struct grant_file grant;
	char path[800];
	const char *why;

	grant = valid;
	for (size_t at = 0, n; at + 3 <= size; at += 3 + n) {
		size_t where = data[at] | (size_t)data[at + 1] << 8;

		n = data[at + 2] < size - at - 3 ? data[at + 2] : size - at - 3;
		if (where + n <= sizeof(grant))
			memcpy((uint8_t *)&grant + where, data + at + 3, n);
	}
	snprintf(path, sizeof(path), "%s/grant", run_folder);
	/* Refused if it would not verify; then it is there as it was patched, with a wrong checksum. */
	if (grant_file_write(path, &grant, &why) < 0)
		put("grant", &grant, sizeof(grant));
}

static bool is_name(const char *text, size_t len)
{
	return len > 0 && len < 64 && strlen(text) == len && !strchr(text, '/') && strcmp(text, ".") != 0 &&
	       strcmp(text, "..") != 0;
}

static void begin_run(const char *name)
{
	snprintf(run_folder, sizeof(run_folder), "%s/%.64s", place, name);
	mkdir(run_folder, 0755);
}

static void put_library(const char *name)
{
	char path[800];
	int fd;

	snprintf(path, sizeof(path), "%s/lib", run_folder);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/lib/%s", run_folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}

static void take_piece(char kind, const uint8_t *data, size_t len)
{
	_cleanup_free_ char *text = fuzz_text(data, len);
	char path[800];

	if (kind == 'n' && is_name(text, len)) {
		begin_run(text);
		return;
	}
	if (!*run_folder)
		begin_run(run_name);
	if (kind == 'c')
		put("cards", data, len);
	else if (kind == 'p')
		put("power", data, len);
	else if (kind == 'u')
		put("usage", data, len);
	else if (kind == 'g')
		put_grant(data, len);
	else if (kind == 'G')
		put("grant", data, len);
	else if (kind == 'l' && is_name(text, len))
		put_library(text);
	else if (kind == 'k') {
		snprintf(path, sizeof(path), "%s/lib", run_folder);
		if (symlink(theirs, path) < 0)
			return;
	}
}

static int seen(void *context, const struct run_seen *run)
{
	MUST(run->pid > 0 && strncmp(run->folder, place, strlen(place)) == 0);
	MUST(strncmp(strrchr(run->folder, '/'), "/new-", 5) != 0);
	MUST(!grant_file_verify(run->grant, sizeof(*run->grant)));
	MUST(run->power.policy >= -1 && run->power.policy < SHARE_POLICY_MAX);
	MUST(run->power.percent <= 100 && run->power.weight <= SHARE_WEIGHT_MAX);
	MUST(registry_is_alive(run->folder));
	for (unsigned i = 0; i < run->grant->gpu_count; i++)
		MUST(run->labels[i][0] && !strchr(run->labels[i], '\n') &&
			memchr(run->labels[i], 0, sizeof(run->labels[i])));
	(*(size_t *)context)++;
	return 0;
}

/* Everything below, without following links. */
static void empty(const char *folder)
{
	DIR *dir = opendir(folder);
	char path[800];

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (unlink(path) < 0) {
			empty(path);
			rmdir(path);
		}
	}
	if (dir)
		closedir(dir);
}

static void remove_all(void) __attribute__((destructor));
static void remove_all(void)
{
	if (!*place)
		return;
	empty(theirs);
	rmdir(theirs);
	empty(place);
	rmdir(place);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	uint64_t ticks;
	int fd;

	snprintf(place, sizeof(place), "%s/ration-fuzz-registry-%d", fuzz_folder(), (int)getpid());
	snprintf(theirs, sizeof(theirs), "%s.theirs", place);
	snprintf(kept, sizeof(kept), "%s/libcuda.so.1", theirs);
	MUST(mkdir(place, 0700) == 0 && mkdir(theirs, 0700) == 0 && setenv(REGISTRY_VARIABLE, place, 1) == 0);
	fd = open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	MUST(fd >= 0);
	close(fd);
	MUST(process_start_ticks(getpid(), &ticks) == 0);
	snprintf(run_name, sizeof(run_name), "%d.%llu", (int)getpid(), (unsigned long long)ticks);
	valid.gpu_count = 2;
	strcpy(valid.container, "program");
	strcpy(valid.cuda_library, "/usr/lib/libcuda.so.1");
	for (unsigned i = 0; i < 2; i++) {
		snprintf(valid.gpus[i].uuid, sizeof(valid.gpus[i].uuid), "GPU-%u", i);
		valid.gpus[i].limit_bytes = UINT64_C(1) << 30;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_registry_ struct registry registry;
	struct error err = {""};
	size_t n = 0, again = 0;

	run_folder[0] = '\0';
	for (size_t at = 0, len, turns = 0; at + 3 <= size && turns < 24; at += 3 + len, turns++) {
		len = (size_t)data[at + 1] << 8 | data[at + 2];
		len = len < size - at - 3 ? len : size - at - 3;
		take_piece((char)data[at], data + at + 3, len);
	}
	MUST(registry_open(&registry, false, &err) == 0);
	MUST(registry_each(&registry, seen, &n) == 0);
	/* The dead are gone, the living are still there. */
	MUST(registry_each(&registry, seen, &again) == 0 && again == n);
	/* No link was followed. */
	MUST(access(kept, F_OK) == 0);
	empty(place);
	return 0;
}
