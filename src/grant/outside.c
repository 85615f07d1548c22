#include "grant/outside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grant/owner.h"
#include "grant/reserve.h"
#include "grant/wait.h"

/* After a search no other begins for nine times its duration, within these bounds. */
#define SEARCH_AGAIN_TIMES 9
#define SEARCH_AGAIN_MIN_NS INT64_C(20000000)
#define SEARCH_AGAIN_MAX_NS INT64_C(200000000)
#define STATUS_MAX 8192 /* of /proc/PID/status, which grows with the number of processors and groups */

/* Returns the process's number in its own pid namespace: the last number of "NSpid:\t1234\t7". 0 if it cannot
 * be read. */
static uint32_t read_inner_pid(const char *proc, pid_t pid)
{
	char path[PATH_MAX], text[STATUS_MAX], *line, *end, *last;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.4000s/%d/status", proc, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	line = strstr(text, "\nNSpid:");
	if (!line) /* Linux before 4.1 */
		return n > 0 ? (uint32_t)pid : 0;
	end = strchr(line + 1, '\n');
	if (end)
		*end = '\0';
	last = strrchr(line, '\t');
	return last ? (uint32_t)strtoul(last, NULL, 10) : (uint32_t)pid;
}

static bool read_stat(const char *proc, pid_t pid, struct owner_stat *ret_stat)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4000s/%d/stat", proc, (int)pid);
	return owner_read_stat(path, ret_stat);
}

int outside_read(const char *proc, pid_t pid, uint64_t time_namespace, struct owner *ret_owner)
{
	uint32_t inner = read_inner_pid(proc, pid);
	struct owner_stat about;
	char path[PATH_MAX];

	if (!inner || !read_stat(proc, pid, &about))
		return -ESRCH;
	snprintf(path, sizeof(path), "%.4000s/%d/ns/pid", proc, (int)pid);
	*ret_owner = (struct owner){
		.word = owner_word(inner, (uint32_t)owner_read_namespace(path)),
		.start_ticks = about.start_ticks,
		.time_namespace = time_namespace,
	};
	return 0;
}

uint64_t outside_image(const char *proc, pid_t pid)
{
	struct owner_stat about;

	return read_stat(proc, pid, &about) ? about.image : 0;
}

/* ---- who is dead ----------------------------------------------------------------------------------------
 */

static bool is_unlisted(const struct grant_file *grant, const struct usage_peek_slot *slot,
	const struct overhead_process *listed, size_t n_listed)
{
	if ((slot->held_bytes == 0 && !slot->has_turn) || owner_is_noted_dead(grant, slot->slot, slot->owner))
		return false;
	for (size_t i = 0; i < n_listed; i++)
		if (usage_slot_is_of(slot, &listed[i].owner))
			return false;
	return true;
}

/* A process that cannot be read has ended. */
static void strike_living(const char *proc, pid_t pid, uint64_t time_namespace,
	const struct usage_peek_slot *slots, size_t n_slots, bool *dead)
{
	struct owner_stat about;
	struct owner owner;

	if (outside_read(proc, pid, time_namespace, &owner) < 0 || !read_stat(proc, pid, &about) ||
		owner_is_corpse(&about))
		return;
	owner.image = about.image;
	for (size_t i = 0; i < n_slots; i++)
		dead[i] = dead[i] && !usage_slot_is_of(&slots[i], &owner);
}

static bool strike_all_living(const char *proc, uint64_t time_namespace, const struct usage_peek_slot *slots,
	size_t n_slots, bool *dead)
{
	DIR *directory = opendir(proc);
	struct dirent *entry;

	if (!directory)
		return false;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			strike_living(proc, (pid_t)strtol(entry->d_name, NULL, 10), time_namespace, slots,
				n_slots, dead);
	closedir(directory);
	return true;
}

static int64_t search_again_ns(int64_t begin_ns)
{
	int64_t now = wait_now_ns(), rest = SEARCH_AGAIN_TIMES * (now - begin_ns);

	rest = rest < SEARCH_AGAIN_MIN_NS ? SEARCH_AGAIN_MIN_NS : rest;
	return now + (rest > SEARCH_AGAIN_MAX_NS ? SEARCH_AGAIN_MAX_NS : rest);
}

bool outside_note_dead(const char *proc, uint64_t time_namespace, struct grant_file *grant,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed, int64_t *again_ns)
{
	bool dead[USAGE_FILE_SLOTS] = {false}, any = false;
	int64_t begin = wait_now_ns();

	n_slots = n_slots < USAGE_FILE_SLOTS ? n_slots : USAGE_FILE_SLOTS;
	for (size_t i = 0; i < n_slots; i++)
		any |= dead[i] = is_unlisted(grant, &slots[i], listed, n_listed);
	if (!any)
		return true;
	if (begin < *again_ns || !strike_all_living(proc, time_namespace, slots, n_slots, dead))
		return false;
	for (size_t i = 0; i < n_slots; i++)
		if (dead[i])
			owner_note_dead(grant, slots[i].slot, slots[i].owner);
		else if (is_unlisted(grant, &slots[i], listed, n_listed))
			*again_ns = search_again_ns(begin);
	return true;
}
