#include "model/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/units.h"

static const char *const gpu_mode_texts[GPU_MODE_MAX] = {
	[GPU_MODE_NONE] = "default",
	[GPU_MODE_SHARE] = "share",
	[GPU_MODE_CGPU] = "cgpu",
	[GPU_MODE_CORE_MEM] = "core_mem",
	[GPU_MODE_TOPOLOGY] = "topology",
	[GPU_MODE_DRA] = "dra",
};

int gpu_mode_parse(const char *text, enum gpu_mode *ret_mode)
{
	if (!*text) {
		*ret_mode = GPU_MODE_NONE;
		return 0;
	}
	for (int mode = 0; mode < GPU_MODE_MAX; mode++)
		if (strcmp(text, gpu_mode_texts[mode]) == 0) {
			*ret_mode = (enum gpu_mode)mode;
			return 0;
		}
	return -EINVAL;
}

const char *gpu_mode_text(enum gpu_mode mode)
{
	return gpu_mode_texts[mode];
}

bool gpu_mode_is_isolated(enum gpu_mode mode)
{
	return mode == GPU_MODE_CGPU || mode == GPU_MODE_CORE_MEM || mode == GPU_MODE_DRA;
}

bool gpu_mode_is_served(enum gpu_mode mode)
{
	return mode == GPU_MODE_SHARE || mode == GPU_MODE_TOPOLOGY || gpu_mode_is_isolated(mode);
}

uint32_t gpu_mode_units(enum gpu_mode mode, uint64_t mib, uint32_t unit_mib)
{
	return mode == GPU_MODE_TOPOLOGY ? 1 : units_of_gpu(mib, unit_mib);
}

uint32_t gpu_instances_max(enum gpu_mode mode, uint32_t unit_mib, uint32_t configured)
{
	if (!gpu_mode_is_isolated(mode))
		return 0;
	if (configured)
		return configured;
	return unit_mib < UNIT_MIB_DEFAULT ? INSTANCES_MAX_SMALL_UNIT : INSTANCES_MAX;
}

const char *gpu_policy_text(enum gpu_policy policy)
{
	return policy == GPU_POLICY_SPREAD ? "spread" : "binpack";
}

int gpu_policy_parse(const char *text, enum gpu_policy *ret_policy)
{
	if (strcmp(text, "binpack") == 0)
		*ret_policy = GPU_POLICY_BINPACK;
	else if (strcmp(text, "spread") == 0)
		*ret_policy = GPU_POLICY_SPREAD;
	else
		return -EINVAL;
	return 0;
}

void node_facts_init(struct node_facts *facts)
{
	*facts = (struct node_facts){.serving = true};
}

void node_facts_release(struct node_facts *facts)
{
	if (!facts)
		return;
	free(facts->name);
	free(facts->uid);
	free(facts->address);
	free(facts->models);
	held_release(&facts->held);
	facts->name = facts->uid = facts->address = facts->models = NULL;
	facts->n_gpus = 0;
}

bool node_facts_has_gpu(const struct node_facts *facts, const char *uuid)
{
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (strcmp(facts->gpus[i].uuid, uuid) == 0)
			return true;
	return false;
}

void pod_facts_init(struct pod_facts *facts)
{
	*facts = (struct pod_facts){0};
}

void pod_facts_release(struct pod_facts *facts)
{
	if (!facts)
		return;
	free(facts->uid);
	free(facts->namespace_);
	free(facts->name);
	free(facts->owner);
	free(facts->node);
	free(facts->nominated_node);
	free(facts->labels);
	free(facts->models);
	free(facts->gang);
	free(facts->resize);
	request_release(&facts->request);
	placement_release(&facts->placement);
	pod_facts_init(facts);
}

static int string_copy(const char *from, char **ret)
{
	*ret = strdup(from ? from : "");
	return *ret ? 0 : -ENOMEM;
}

static int string_copy_if_any(const char *from, char **ret)
{
	return from ? string_copy(from, ret) : 0;
}

/* Duplicates what pod facts own. */
static int pod_facts_copy_owned(const struct pod_facts *from, struct pod_facts *to)
{
	if (string_copy(from->uid, &to->uid) < 0 || string_copy(from->namespace_, &to->namespace_) < 0 ||
		string_copy(from->name, &to->name) < 0 || string_copy(from->owner, &to->owner) < 0 ||
		string_copy(from->node, &to->node) < 0 ||
		string_copy_if_any(from->nominated_node, &to->nominated_node) < 0 ||
		string_copy_if_any(from->labels, &to->labels) < 0 ||
		string_copy_if_any(from->models, &to->models) < 0 ||
		string_copy_if_any(from->gang, &to->gang) < 0 ||
		string_copy_if_any(from->resize, &to->resize) < 0)
		return -ENOMEM;
	if (request_copy(&from->request, &to->request) < 0)
		return -ENOMEM;
	return from->has_placement ? placement_copy(&from->placement, &to->placement) : 0;
}

int pod_facts_copy(const struct pod_facts *from, struct pod_facts *ret_facts)
{
	/* The struct is assigned as a whole, so that a new member cannot be forgotten. Afterwards, what *from
	 * owns is duplicated. */
	_cleanup_pod_facts_ struct pod_facts copy = *from;
	int r;

	copy.uid = copy.namespace_ = copy.name = copy.owner = copy.node = NULL;
	copy.nominated_node = copy.labels = copy.models = copy.gang = copy.resize = NULL;
	request_init(&copy.request);
	placement_init(&copy.placement);
	r = pod_facts_copy_owned(from, &copy);
	if (r < 0)
		return r;
	*ret_facts = copy;
	pod_facts_init(&copy);
	return 0;
}
