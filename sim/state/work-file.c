#include <sys/mman.h>
#include <unistd.h>

#include "sim/state/file.h"
#include "sim/state/work.h"

int sim_work_map(const char *root, struct sim_work **ret_work, bool *ret_writable)
{
	const struct sim_file_head head = {SIM_WORK_MAGIC, SIM_WORK_VERSION, sizeof(struct sim_work)};
	struct sim_file file;
	int r = sim_file_map(root, "work", head, &file);

	if (r < 0)
		return r;
	close(file.fd);
	*ret_work = file.map;
	*ret_writable = file.writable;
	return 0;
}

void sim_work_unmap(struct sim_work *work)
{
	if (work)
		munmap(work, sizeof(*work));
}

void sim_work_prepare(struct sim_work *work)
{
	work->magic = SIM_WORK_MAGIC;
	work->version = SIM_WORK_VERSION;
	work->size = sizeof(*work);
	work->pace = (struct sim_pace)SIM_PACE_DEFAULT;
	for (size_t i = 0; i < SIM_MAX_GPUS; i++)
		sim_relay_prepare(&work->gpus[i].lock);
}
