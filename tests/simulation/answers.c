/* Which CDI device each container was answered, and what lies under these names: what answers.c and cdi.c of
 * the agent do around the real record of answers. */
#include <stdlib.h>
#include <string.h>

#include "node/answered.h"
#include "node/served.h"
#include "base/cleanup.h"
#include "sim.h"

/* "u3.c0" is the device of pod 3 and container 0, "u3.c0.2" the second one of that name. */
int answers_cdi(const char *name)
{
	const char *container = strchr(name, '.') + 2, *number = strchr(container, '.');

	return cdi_of(atoi(name + 1), container[0] - '0') + (number ? atoi(number + 1) - 1 : 0) * CDI_NAMES;
}

/* NULL: the container's own. */
static const char *answers_device(
	const struct sim *sim, int pod, int c, int cdi, char buf[ANSWERED_NAME_SIZE])
{
	int named = cdi % CDI_NAMES / CONTAINERS_MAX;

	if (cdi < 0 || cdi == cdi_of(pod, c))
		return NULL;
	answered_own_name(sim->pods[named].uid_text,
		(const char[]){'c', (char)('0' + cdi % CONTAINERS_MAX), '\0'}, buf);
	if (cdi >= CDI_NAMES)
		memcpy(buf + strlen(buf), (const char[]){'.', (char)('1' + cdi / CDI_NAMES), '\0'}, 3);
	return buf;
}

void answers_load(struct sim *sim, int n, struct served *served)
{
	struct node *node = &sim->nodes[n];
	char *texts[64], buf[ANSWERED_NAME_SIZE];

	served_init(served);
	for_each_bit (pod, node->kubelet.checkpoint_has)
		for (int c = 0; c < sim->pods[pod].shape.n_containers; c++) {
			const struct devices *given = &node->kubelet.checkpoint[pod][c];
			char name[3] = {'c', (char)('0' + c), '\0'};

			if (given->given &&
				(served_add(served, sim->pods[pod].uid_text, name, texts,
					 id_texts(given->ids, texts)) < 0 ||
					served_set_answer(served, sim->pods[pod].uid_text, name,
						answers_device(sim, pod, c, given->cdi, buf), NULL) < 0))
				sim->truncated = "out of memory";
		}
}

void answers_name_files(struct sim *sim, int n, int pod)
{
	char buf[ANSWERED_NAME_SIZE];

	for (int c = 0; c < sim->pods[pod].shape.n_containers; c++) {
		const char *name = answered_name(&sim->nodes[n].agent.served, sim->pods[pod].uid_text,
			(const char[]){'c', (char)('0' + c), '\0'}, buf);

		sim->nodes[n].grant[pod][c].name = (int16_t)(name ? answers_cdi(name) : -1);
	}
}

void answers_settle(struct sim *sim, int n)
{
	struct served *served = &sim->nodes[n].agent.served;

	list_for_each (item, &served->entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);
		int cdi, pod;

		if (!entry->device || entry->settled || answered_check(served, entry) != ANSWERED_ANOTHERS)
			continue;
		entry->settled = true;
		count(sim, COUNT_CORRECTED);
		cdi = answers_cdi(entry->device);
		pod = cdi % CDI_NAMES / CONTAINERS_MAX;
		say(sim, "agent n%d: %s was answered to %s %s", n, entry->device, entry->uid,
			entry->container);
		for (int c = 0; c < sim->pods[pod].shape.n_containers; c++)
			if (sim->nodes[n].grant[pod][c].name == cdi)
				sim->nodes[n].grant[pod][c].name = -1;
	}
}

bool answers_check(struct sim *sim, int n, char *const *texts, size_t n_ids)
{
	struct served *served = &sim->nodes[n].agent.served;
	_cleanup_served_ struct served checkpoint;
	enum answered answered;

	answers_load(sim, n, &checkpoint);
	if (answered_follow(served, &checkpoint,
		    sim->nodes[n].agent.synced ? &sim->nodes[n].agent.pods : NULL, texts, n_ids,
		    &answered) < 0)
		sim->truncated = "out of memory";
	answers_settle(sim, n);
	list_for_each (item, &served->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (served_has_ids(entry, texts, n_ids) && answered_check(served, entry) == ANSWERED_TWICE) {
			count(sim, COUNT_ANSWERED_TWICE);
			return false;
		}
	}
	return true;
}

int answers_owner(const struct sim *sim, int n, int cdi)
{
	const struct node *node = &sim->nodes[n];
	int owner = -1;

	for_each_bit (pod, cdi < 0 ? 0 : node->grants)
		for (int c = 0; c < sim->pods[pod].shape.n_containers; c++) {
			if (node->grant[pod][c].name != cdi)
				continue;
			if (owner >= 0)
				return -1; /* the runtime takes none of two devices of one name */
			owner = cdi_of(pod, c);
		}
	return owner;
}
