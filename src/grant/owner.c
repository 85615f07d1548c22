#include "grant/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grant/share.h"

static char *field_after(char *at, unsigned count)
{
	while (count-- > 0 && at)
		at = strchr(at + 1, ' ');
	return at;
}

/* proc(5): "pid (name) state ...", with the number of threads in field 20 and the start time in field 22. The
 * name may contain anything, so parsing starts behind the last ')'. */
static bool parse_stat(char *text, struct owner_stat *ret_stat)
{
	char *at = strrchr(text, ')'), *threads, *start, *stack;

	if (!at || at[1] != ' ')
		return false;
	threads = field_after(at + 1, 17);
	start = threads ? field_after(threads, 2) : NULL;
	stack = start ? field_after(start, 6) : NULL;
	if (!stack)
		return false;
	ret_stat->state = at[2];
	ret_stat->threads = strtoul(threads, NULL, 10);
	ret_stat->start_ticks = strtoull(start, NULL, 10);
	ret_stat->image = strtoull(stack, NULL, 10) >> 4; /* aligned to 16; leaves room for a tag */
	return ret_stat->start_ticks > 0;
}

bool owner_read_stat(const char *path, struct owner_stat *ret_stat)
{
	char text[1024];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return parse_stat(text, ret_stat);
}

static bool read_stat(uint32_t pid, struct owner_stat *ret_stat)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	return owner_read_stat(path, ret_stat);
}

uint64_t owner_read_namespace(const char *path)
{
	char text[64], *at;
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strchr(text, '[');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* A /proc of another pid namespace (unshare --pid without a new mount) shows other processes under our
 * numbers. */
static bool proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strtol(text, NULL, 10) == (long)getpid();
}

void owner_self(struct owner *ret_owner)
{
	struct owner_stat about;

	*ret_owner = (struct owner){
		.word = owner_word((uint32_t)getpid(), (uint32_t)owner_read_namespace("/proc/self/ns/pid")),
		.time_namespace = owner_read_namespace("/proc/self/ns/time"),
		.sees_proc = proc_is_ours(),
	};
	/* Its own entry is right even if /proc belongs to another pid namespace. */
	if (owner_read_stat("/proc/self/stat", &about)) {
		ret_owner->start_ticks = about.start_ticks;
		ret_owner->image = about.image;
	}
}

/* A word that a former owner of the slot wrote has another generation and is ignored. */
static uint64_t tagged(uint64_t value, uint64_t word)
{
	return value << OWNER_GENERATION_BITS | OWNER_GENERATION(word);
}

void owner_sign(struct usage_slot *slot, uint64_t word, const struct owner *owner)
{
	atomic_store(&slot->image, tagged(owner->image, word));
	atomic_store(&slot->time_namespace, tagged(owner->time_namespace, word));
	if (owner->start_ticks > 0)
		atomic_store(&slot->start_ticks, tagged(owner->start_ticks, word));
}

bool owner_is_corpse(const struct owner_stat *about)
{
	return (about->state == 'Z' || about->state == 'X') && about->threads <= 1;
}

static bool is_of(uint64_t signature, uint64_t word)
{
	return signature != 0 && (signature & ((1 << OWNER_GENERATION_BITS) - 1)) == OWNER_GENERATION(word);
}

static bool is_same_process(const struct usage_slot *slot, uint64_t word, const struct owner *self,
	const struct owner_stat *about)
{
	uint64_t start = atomic_load(&slot->start_ticks), image = atomic_load(&slot->image);

	if (is_of(start, word) && atomic_load(&slot->time_namespace) == tagged(self->time_namespace, word) &&
		start != tagged(about->start_ticks, word))
		return false;
	/* Unknown values are not compared. */
	return about->image == 0 || !is_of(image, word) || image >> OWNER_GENERATION_BITS == 0 ||
	       image == tagged(about->image, word);
}

static _Atomic uint16_t *dead_word(const struct grant_file *grant, uint32_t slot)
{
	return (_Atomic uint16_t *)&grant->live[slot / GRANT_DEAD_EACH].dead[slot % GRANT_DEAD_EACH];
}

void owner_note_dead(struct grant_file *grant, uint32_t slot, uint64_t word)
{
	if (slot < USAGE_FILE_SLOTS)
		atomic_store(dead_word(grant, slot), (uint16_t)(GRANT_DEAD | OWNER_GENERATION(word)));
}

bool owner_is_noted_dead(const struct grant_file *grant, uint32_t slot, uint64_t word)
{
	return slot < USAGE_FILE_SLOTS &&
	       atomic_load(dead_word(grant, slot)) == (GRANT_DEAD | OWNER_GENERATION(word));
}

bool owner_is_of_our_namespace(const struct owner *self, uint64_t word)
{
	return OWNER_NAMESPACE(word) != 0 && OWNER_NAMESPACE(word) == OWNER_NAMESPACE(self->word);
}

bool owner_is_gone(const struct owner *self, uint64_t word)
{
	int saved = errno;
	bool gone;

	if (OWNER_PID(word) == 0 || !owner_is_of_our_namespace(self, word))
		return false;
	gone = kill((pid_t)OWNER_PID(word), 0) < 0 && errno == ESRCH;
	errno = saved;
	return gone;
}

bool owner_has_ended(const struct owner *self, const struct usage_slot *slot, uint64_t word)
{
	uint32_t pid = OWNER_PID(word);
	struct owner_stat about;
	int saved = errno;
	bool dead = false;

	if (pid == 0 || !owner_is_of_our_namespace(self, word))
		return false;
	if (owner_is_gone(self, word))
		dead = true;
	else if (self->sees_proc && read_stat(pid, &about))
		dead = owner_is_corpse(&about) || !is_same_process(slot, word, self, &about);
	errno = saved;
	return dead;
}

bool owner_is_dead(void *context, const struct usage_slot *slot, uint64_t word)
{
	const struct owner *self = context;
	uint32_t index = self->usage ? (uint32_t)(slot - self->usage->slots) : 0;

	if (OWNER_PID(word) == 0)
		return false;
	if (self->grant && owner_is_noted_dead(self->grant, index, word))
		return true;
	return owner_has_ended(self, slot, word) && !(self->usage && share_is_used(self->usage, index));
}
