#include "agent/gpu/watched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/gpu/power.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "grant/usage.h"
#include "model/facts.h"
#include "model/use.h"
#include "net/loop.h"

/* A container that opens its usage file without end gets ROUNDS_AT_ONCE samples at once, and then one each
 * ROUND_NS. A program that starts loads hundreds of modules, and where little memory is left it waits for a
 * sample after each. */
#define ROUNDS_AT_ONCE 256
#define ROUND_NS (20 * NS_PER_MS)
#define KEY_SIZE 520

/* A GPU and the containers with a grant for it. */
struct watched_gpu {
	char uuid[GPU_UUID_SIZE];
	struct list gpus;
};

struct watched_set {
	struct list all;
	struct table by_key; /* "<pod uid>/<container>" */
	struct watched_gpu gpus[NODE_GPUS_MAX];
	struct list none; /* empty */
	struct loop *loop;
	struct loop_timer *timer;
	watched_fn wanted;
	void *userdata;
	bool complained;
};

/* Neither part contains a slash: both are already names of a path (grants_folder_path()). */
static const char *watched_key(const char *uid, const char *container, char *buf)
{
	snprintf(buf, KEY_SIZE, "%.255s/%.255s", uid, container);
	return buf;
}

static void watched_free(struct watched_set *set, struct watched *watched)
{
	char key[KEY_SIZE];

	if (watched->uid && watched->container)
		table_remove(&set->by_key, watched_key(watched->uid, watched->container, key));
	loop_watch_remove(watched->asks);
	list_remove(&watched->item);
	for (unsigned i = 0; i < watched->n_gpus; i++) {
		list_remove(&watched->gpus[i].item);
		free(watched->gpus[i].look.before);
		free(watched->gpus[i].look.known);
	}
	free(watched->gpus);
	free(watched->uid);
	free(watched->namespace_);
	free(watched->pod);
	free(watched->container);
	free(watched);
}

/* ---- when it asks ---------------------------------------------------------------------------------------
 */

static void watched_want(struct watched *watched)
{
	int64_t now = monotonic_ns();

	watched->paid_ns = (watched->paid_ns > now ? watched->paid_ns : now) + ROUND_NS;
	watched->rearm_ns = watched->paid_ns - ROUNDS_AT_ONCE * ROUND_NS;
	for (unsigned i = 0; i < watched->n_gpus; i++)
		watched->set->wanted(watched->set->userdata, watched->gpus[i].uuid);
}

/* Also if events were lost, which may have been this one. */
static void on_opened(void *userdata, const struct inotify_event *event)
{
	struct watched *watched = userdata;

	loop_watch_remove(watched->asks);
	watched->asks = NULL;
	watched_want(watched);
}

/* The path in /proc/self/fd leads to this very file, even if its name now leads to another one. */
static int watched_arm(struct watched_set *set, struct watched *watched)
{
	char path[40];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", watched->usage_fd);
	r = loop_add_watch(set->loop, path, IN_OPEN | IN_ONESHOT, on_opened, watched, &watched->asks);
	if (r < 0 && !set->complained)
		log_warning(
			"cannot watch usage files: %s; contexts of new programs are counted a second late",
			strerror(-r));
	set->complained |= r < 0;
	return r;
}

/* Whether the container asked again after the last sample had begun, while its inotify watch was not armed.
 */
static bool watched_missed(const struct watched *watched)
{
	struct usage_peek peek;

	if (usage_peek(watched->usage_fd, 0, &peek) < 0)
		return false;
	for (unsigned i = 0; i < watched->n_gpus; i++)
		if (watched->gpus[i].look.wanted != peek.look_wanted)
			return true;
	return false;
}

static void on_rearm(void *userdata)
{
	struct watched_set *set = userdata;
	int64_t now = monotonic_ns(), later = 0;

	list_for_each (item, &set->all) {
		struct watched *watched = list_entry(item, struct watched, item);

		if (watched->asks)
			continue;
		if (watched->rearm_ns > now)
			later = later && later < watched->rearm_ns ? later : watched->rearm_ns;
		else if (watched_arm(set, watched) == 0 && watched_missed(watched))
			watched_want(watched);
	}
	if (later)
		loop_timer_set(set->timer, later - now);
}

void watched_listen(struct watched_set *set)
{
	on_rearm(set);
}

/* If memory is short, the next sample starts without this knowledge. */
void watched_remember(struct watched_part *gpu, const struct overhead_process *processes, size_t n)
{
	struct overhead_process *known = n ? realloc(gpu->look.known, n * sizeof(*known)) : NULL;

	if (known)
		memcpy(known, processes, n * sizeof(*known));
	else
		free(gpu->look.known);
	gpu->look.known = known;
	gpu->look.n_known = known ? n : 0;
}

bool watched_pause(struct watched_part *gpu, const struct overhead *found)
{
	struct watched *watched = gpu->of;
	bool asked = !grant_was_known(watched->grant, gpu->index, gpu->look.wanted);
	int64_t now = monotonic_ns();

	if (watched->pauses_for == gpu) {
		watched->pauses_for = NULL;
		atomic_store(&watched->grant->live[0].pause, 0);
		return false;
	}
	if (watched->pauses_for || !overhead_wants_pause(found, asked, now - watched->paused_ns))
		return false;
	watched->pauses_for = gpu;
	watched->paused_ns = now;
	atomic_store(&watched->grant->live[0].pause, (uint64_t)now);
	return true;
}

/* "RAUSE001"; another layout of struct use_record gets another number. */
#define MAGIC UINT64_C(0x3130304553554152)

struct head {
	uint64_t magic;
	uint32_t count, size;
};

static struct head head_of(unsigned n)
{
	return (struct head){.magic = MAGIC, .count = n, .size = sizeof(struct use_record)};
}

/* use_file_read() - fills n records, one for each GPU of the grant in its order; false, and zeros, if the
 * file is empty, of another version, or of another number of GPUs. */
static bool use_file_read(int fd, unsigned n, struct use_record *ret_records)
{
	const struct head wanted = head_of(n);
	const ssize_t size = (ssize_t)(n * sizeof(*ret_records));
	struct head found;

	if (pread(fd, &found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
		memcmp(&found, &wanted, sizeof(found)) == 0 &&
		pread(fd, ret_records, (size_t)size, sizeof(found)) == size)
		return true;
	memset(ret_records, 0, (size_t)size);
	return false;
}

static bool use_file_write(int fd, unsigned i, const struct use_record *record)
{
	off_t at = (off_t)(sizeof(struct head) + i * sizeof(*record));

	return pwrite(fd, record, sizeof(*record), at) == (ssize_t)sizeof(*record);
}

/* The header comes last: a file that has it has all records. */
static bool use_file_begin(const struct watched *watched)
{
	const struct head head = head_of(watched->n_gpus);
	bool written = true;

	for (unsigned i = 0; written && i < watched->n_gpus; i++)
		written = use_file_write(watched->use_fd, i, &watched->gpus[i].use);
	return written && pwrite(watched->use_fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head);
}

void watched_note_use(struct watched_part *gpu, bool idle)
{
	struct watched *watched = gpu->of;
	int64_t now = monotonic_ns();
	struct use_sample sample = {.elapsed_ns = gpu->use_ns ? now - gpu->use_ns : 0,
		.used_bytes = gpu->used_bytes,
		.limit_bytes = grant_file_limit_bytes(watched->grant, gpu->index),
		.physical_bytes = gpu->physical_bytes,
		.idle = idle,
		.refused = gpu->refused.refused,
		.refused_bytes = gpu->refused.refused_bytes};

	use_note_memory(&gpu->use, &sample);
	gpu->use_ns = now;
	/* What cannot be written, a restart of the agent loses. */
	if (watched->use_begun)
		use_file_write(watched->use_fd, gpu->index, &gpu->use);
	else if (watched->use_fd >= 0)
		watched->use_begun = use_file_begin(watched);
}

static void note_kept(struct watched *watched, bool kept)
{
	if (watched->kept != kept)
		usage_file_keep(watched->usage_fd, kept);
	watched->kept = kept;
}

void watched_keep(struct watched_set *set, const char *uuid, bool kept)
{
	list_for_each (item, watched_on(set, uuid))
		note_kept(list_entry(item, struct watched_part, item)->of, kept);
}

/* ---- the set --------------------------------------------------------------------------------------------
 */

int watched_set_new(struct loop *loop, watched_fn wanted, void *userdata, struct watched_set **ret_set)
{
	struct watched_set *set = calloc(1, sizeof(*set));
	int r;

	if (!set)
		return -ENOMEM;
	list_init(&set->all);
	list_init(&set->none);
	for (size_t i = 0; i < NODE_GPUS_MAX; i++)
		list_init(&set->gpus[i].gpus);
	table_init(&set->by_key);
	set->wanted = wanted;
	set->userdata = userdata;
	set->loop = loop;
	r = loop_add_timer(loop, on_rearm, set, &set->timer);
	if (r < 0)
		watched_set_free(set);
	else
		*ret_set = set;
	return r;
}

void watched_set_free(struct watched_set *set)
{
	if (!set)
		return;
	while (!list_empty(&set->all))
		watched_free(set, list_entry(set->all.next, struct watched, item));
	table_release(&set->by_key);
	loop_timer_remove(set->timer);
	free(set);
}

struct list *watched_list(struct watched_set *set)
{
	return &set->all;
}

struct watched *watched_find(struct watched_set *set, const char *uid, const char *container)
{
	char key[KEY_SIZE];

	return table_get(&set->by_key, watched_key(uid, container, key));
}

struct watched *watched_only(struct watched_set *set, const char *uid)
{
	struct watched *found = NULL;

	list_for_each (item, &set->all) {
		struct watched *watched = list_entry(item, struct watched, item);

		if (strcmp(watched->uid, uid) != 0)
			continue;
		if (found)
			return NULL;
		found = watched;
	}
	return found;
}

static struct watched_gpu *find_gpu(struct watched_set *set, const char *uuid)
{
	for (size_t i = 0; i < NODE_GPUS_MAX; i++)
		if (!list_empty(&set->gpus[i].gpus) && strcmp(set->gpus[i].uuid, uuid) == 0)
			return &set->gpus[i];
	return NULL;
}

/* A node has at most NODE_GPUS_MAX GPUs. An entry of a GPU that is gone becomes free when its containers end.
 */
static struct watched_gpu *add_gpu(struct watched_set *set, const char *uuid)
{
	struct watched_gpu *gpu = find_gpu(set, uuid);

	for (size_t i = 0; i < NODE_GPUS_MAX && !gpu; i++)
		if (list_empty(&set->gpus[i].gpus))
			gpu = &set->gpus[i];
	if (gpu)
		snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
	return gpu;
}

const struct list *watched_on(struct watched_set *set, const char *uuid)
{
	const struct watched_gpu *gpu = find_gpu(set, uuid);

	return gpu ? &gpu->gpus : &set->none;
}

struct watched_part *watched_part(struct watched *watched, const char *uuid)
{
	for (unsigned i = 0; i < watched->n_gpus; i++)
		if (strcmp(watched->gpus[i].uuid, uuid) == 0)
			return &watched->gpus[i];
	return NULL;
}

/* Allocations that were refused before this agent started are not reported. */
static void watched_begin(struct watched_set *set, struct watched *watched)
{
	struct usage_peek peek;
	bool known = usage_peek(watched->usage_fd, watched->n_gpus, &peek) == 0;
	struct use_record used[GRANT_FILE_GPUS_MAX];

	watched->use_begun = use_file_read(watched->use_fd, watched->n_gpus, used);
	for (unsigned i = 0; i < watched->n_gpus; i++) {
		struct watched_part *part = &watched->gpus[i];
		struct watched_gpu *gpu;

		memcpy(part->uuid, watched->grant->gpus[i].uuid, sizeof(part->uuid));
		part->physical_bytes = watched->grant->gpus[i].physical_bytes;
		part->use = used[i];
		part->of = watched;
		part->index = i;
		power_resume(&part->power, watched->grant, i);
		gpu = add_gpu(set, part->uuid);
		if (gpu)
			list_append(&gpu->gpus, &part->item);
		if (!known)
			continue;
		part->refused = peek.gpus[i];
		part->refused_told = part->refused.refused;
	}
}

int watched_add(struct watched_set *set, const struct watched_grant *grant)
{
	struct watched *watched = calloc(1, sizeof(*watched));
	unsigned n = grant->grant->gpu_count;
	char key[KEY_SIZE];

	if (!watched)
		return -ENOMEM;
	list_append(&set->all, &watched->item);
	watched->set = set;
	watched->uid = strdup(grant->uid);
	watched->namespace_ = strdup(grant->namespace_);
	watched->pod = strdup(grant->pod);
	watched->container = strdup(grant->container);
	watched->grant = grant->grant;
	watched->usage_fd = grant->usage_fd;
	watched->use_fd = grant->use_fd;
	note_kept(watched, true);
	watched->gpus = calloc(n ? n : 1, sizeof(*watched->gpus));
	if (!watched->uid || !watched->namespace_ || !watched->pod || !watched->container || !watched->gpus ||
		table_set(&set->by_key, watched_key(watched->uid, watched->container, key), watched) < 0) {
		watched_free(set, watched);
		return -ENOMEM;
	}
	atomic_store(&grant->grant->live[0].pause, 0); /* ends a pause that a killed agent began */
	watched->n_gpus = n < GRANT_FILE_GPUS_MAX ? n : GRANT_FILE_GPUS_MAX;
	watched_begin(set, watched);
	on_rearm(set);
	return 0;
}

void watched_remove(struct watched_set *set, const char *uid, const char *container)
{
	struct watched *watched = watched_find(set, uid, container);

	if (watched)
		watched_free(set, watched);
}
