#include "sim/libnvidia-ml/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static pthread_rwlock_t session_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct session session;

nvmlReturn_t call_begin(struct call *call)
{
	pthread_rwlock_rdlock(&session_lock);
	call->session = &session;
	return session.users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

int device_index(const struct session *s, nvmlDevice_t device)
{
	uintptr_t offset = (uintptr_t)device - (uintptr_t)s->devices;

	if ((uintptr_t)device < (uintptr_t)s->devices || offset % sizeof(s->devices[0]) != 0 ||
		offset / sizeof(s->devices[0]) >= s->device_count)
		return -1;
	return (int)(offset / sizeof(s->devices[0]));
}

nvmlReturn_t device_state(const struct session *s, const struct sim_device *device)
{
	if (atomic_load(&s->state->retired) || atomic_load(&s->state->gpus[device->gpu].health) == SIM_LOST)
		return NVML_ERROR_GPU_IS_LOST;
	return NVML_SUCCESS;
}

nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device)
{
	nvmlReturn_t r = call_begin(call);
	int index;

	if (r != NVML_SUCCESS)
		return r;
	index = device_index(call->session, device);
	if (index < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	call->index = (unsigned)index;
	call->gpu = &call->session->state->gpus[device->gpu];
	return device_state(call->session, device);
}

void call_end(struct call *call)
{
	if (call->session)
		pthread_rwlock_unlock(&session_lock);
}

nvmlReturn_t not_simulated(void)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;
}

nvmlReturn_t copy_text(const char *source, size_t source_max, char *buffer, unsigned length)
{
	size_t n = strnlen(source, source_max);

	if (!buffer)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (n >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(buffer, source, n);
	buffer[n] = '\0';
	return NVML_SUCCESS;
}

const struct sim_processes *session_processes(const struct session *s)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct sim_processes processes;
	static char opened_root[sizeof(s->tree.root)];
	static struct stat opened;
	char path[sizeof(s->tree.root) + 24];
	const struct sim_processes *found = NULL;
	struct sim_processes fresh;
	struct stat st;

	snprintf(path, sizeof(path), "%s/state/processes", s->tree.root);
	if (stat(path, &st) < 0)
		return NULL;
	pthread_mutex_lock(&lock);
	if (processes.table && st.st_ino == opened.st_ino && st.st_dev == opened.st_dev &&
		strcmp(opened_root, s->tree.root) == 0) {
		found = &processes;
	} else if (sim_processes_open(s->tree.root, &fresh) == 0) {
		/* The table of a replaced tree stays mapped and its descriptor open: see processes.h. */
		processes = fresh;
		opened = st;
		strcpy(opened_root, s->tree.root);
		found = &processes;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static nvmlReturn_t session_open(void)
{
	int r;

	sim_tree_find(&session.tree);
	r = sim_state_map(session.tree.root, &session.state, &session.writable);
	if (r == -EBADMSG)
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	if (r == -EACCES)
		return NVML_ERROR_NO_PERMISSION;
	if (r < 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	session.gpu_count = session.state->gpu_count;
	if (session.gpu_count > SIM_MAX_GPUS)
		session.gpu_count = SIM_MAX_GPUS;
	session.device_count = 0;
	for (unsigned i = 0; i < session.gpu_count; i++)
		if (sim_tree_has_gpu(&session.tree, session.state->gpus[i].minor))
			session.devices[session.device_count++].gpu = i;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	nvmlReturn_t r = NVML_SUCCESS;

	if (flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	pthread_rwlock_wrlock(&session_lock);
	if (session.users == 0)
		r = session_open();
	if (r == NVML_SUCCESS)
		session.users++;
	pthread_rwlock_unlock(&session_lock);
	return r;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

/* Also succeeds without nvmlInit, as 470.256.02, 535.309.01 and 550.163.01 do, although nvml.h says
 * otherwise. */
nvmlReturn_t nvmlShutdown(void)
{
	pthread_rwlock_wrlock(&session_lock);
	if (session.users > 0) {
		session.users--;
		if (session.users == 0) {
			event_sets_release();
			sim_state_unmap(session.state);
			session.state = NULL;
			session.device_count = 0;
		}
	}
	pthread_rwlock_unlock(&session_lock);
	return NVML_SUCCESS;
}
