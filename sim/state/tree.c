#include "sim/state/tree.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sim/state/file.h"

#define CONTAINER_ROOT "/run/ration-sim"

int sim_tree_at(const char *root, struct sim_tree *ret_tree)
{
	struct stat st;
	int n;

	if (strlen(root) >= sizeof(ret_tree->root))
		return -ENAMETOOLONG;
	strcpy(ret_tree->root, root);
	n = snprintf(ret_tree->devices, sizeof(ret_tree->devices), "%s/dev", root);
	if (n < 0 || (size_t)n >= sizeof(ret_tree->devices))
		return -ENAMETOOLONG;
	/* A container gets gpus.json and state, but its device nodes are in /dev. */
	if (stat(ret_tree->devices, &st) < 0 || !S_ISDIR(st.st_mode))
		strcpy(ret_tree->devices, "/dev");
	return 0;
}

static int tree_with_gpus(const char *root, struct sim_tree *ret_tree)
{
	char probe[PATH_MAX + 16];

	snprintf(probe, sizeof(probe), "%s/gpus.json", root);
	return access(probe, F_OK) < 0 ? -errno : sim_tree_at(root, ret_tree);
}

/* Finds the tree around the library itself: X/lib/NAME with X/gpus.json. */
static int tree_of_object(const char *object, struct sim_tree *ret_tree)
{
	_cleanup_free_ char *path = realpath(object, NULL);
	char *slash;

	if (!path)
		return -errno;
	slash = strrchr(path, '/');
	if (!slash || slash - path < 4 || strncmp(slash - 4, "/lib", 4) != 0)
		return -ENOENT;
	slash[-4] = '\0';
	return tree_with_gpus(path, ret_tree);
}

static int tree_of_trailer(const char *object, struct sim_tree *ret_tree)
{
	_cleanup_close_ int fd = open(object, O_RDONLY | O_CLOEXEC);
	struct sim_trailer trailer;
	off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;

	if (end < (off_t)sizeof(trailer) ||
		pread(fd, &trailer, sizeof(trailer), end - (off_t)sizeof(trailer)) != sizeof(trailer) ||
		memcmp(trailer.magic, SIM_TRAILER_MAGIC, sizeof(trailer.magic)) != 0 ||
		trailer.root[sizeof(trailer.root) - 1] != '\0')
		return -ENOENT;
	return tree_with_gpus(trailer.root, ret_tree);
}

void sim_tree_find(struct sim_tree *ret_tree)
{
	const char *root = secure_getenv("RATION_SIM_DIR");
	Dl_info info = {};

	if (root && *root && sim_tree_at(root, ret_tree) == 0)
		return;
	if (dladdr((void *)sim_tree_find, &info) && info.dli_fname &&
		(tree_of_object(info.dli_fname, ret_tree) == 0 ||
			tree_with_gpus(CONTAINER_ROOT, ret_tree) == 0 ||
			tree_of_trailer(info.dli_fname, ret_tree) == 0))
		return;
	sim_tree_at(CONTAINER_ROOT, ret_tree);
}

bool sim_tree_has_gpu(const struct sim_tree *tree, unsigned minor)
{
	char path[PATH_MAX + 32];
	int n = snprintf(path, sizeof(path), "%s/nvidia%u", tree->devices, minor);

	return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

int sim_state_map(const char *root, struct sim_state **ret_state, bool *ret_writable)
{
	const struct sim_file_head head = {SIM_STATE_MAGIC, SIM_STATE_VERSION, sizeof(struct sim_state)};
	struct sim_state *state;
	struct sim_file file;
	int r = sim_file_map(root, "cards", head, &file);

	if (r < 0)
		return r;
	close(file.fd);
	state = file.map;
	if (state->gpu_count < 1 || state->gpu_count > SIM_MAX_GPUS) {
		sim_state_unmap(state);
		return -EBADMSG;
	}
	*ret_state = state;
	*ret_writable = file.writable;
	return 0;
}

void sim_state_unmap(struct sim_state *state)
{
	if (state)
		munmap(state, sizeof(*state));
}

void sim_state_post_event(struct sim_state *state, uint32_t gpu, uint64_t type, uint64_t data)
{
	uint64_t sequence = atomic_load(&state->last_event) + 1;
	struct sim_event *event = &state->events[sequence % SIM_EVENT_RING];

	atomic_store(&event->sequence, 0);
	atomic_store(&event->type, type);
	atomic_store(&event->data, data);
	atomic_store(&event->gpu, gpu);
	atomic_store(&event->sequence, sequence);
	atomic_store(&state->last_event, sequence);
	atomic_store(&state->event_wake, (uint32_t)sequence);
	syscall(SYS_futex, &state->event_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int sim_state_read_event(const struct sim_state *state, uint64_t sequence, struct sim_event *ret_event)
{
	const struct sim_event *event = &state->events[sequence % SIM_EVENT_RING];

	if (sequence > atomic_load(&state->last_event))
		return -EAGAIN;
	ret_event->sequence = atomic_load(&event->sequence);
	ret_event->type = atomic_load(&event->type);
	ret_event->data = atomic_load(&event->data);
	ret_event->gpu = atomic_load(&event->gpu);
	if (ret_event->sequence != sequence || atomic_load(&event->sequence) != sequence)
		return -ENODATA;
	return 0;
}

void sim_state_wait_event(struct sim_state *state, uint64_t seen, int64_t timeout_ns)
{
	struct timespec timeout = {timeout_ns / NS_PER_S, timeout_ns % NS_PER_S};

	syscall(SYS_futex, &state->event_wake, FUTEX_WAIT, (uint32_t)seen, &timeout, NULL, 0);
}
