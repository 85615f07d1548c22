#include "model/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/facts.h"

void held_init(struct held *held)
{
	*held = (struct held){0};
}

static void held_pod_release(struct held_pod *pod)
{
	free(pod->uid);
	free(pod->namespace_);
	free(pod->name);
	free(pod->gpus);
}

void held_release(struct held *held)
{
	if (!held)
		return;
	for (size_t i = 0; i < held->n_pods; i++)
		held_pod_release(&held->pods[i]);
	for (size_t i = 0; i < held->n_ended; i++)
		free(held->ended[i]);
	free(held->pods);
	free(held->ended);
	held_init(held);
}

int held_add_pod(struct held *held, const char *uid, const char *namespace_, const char *name,
	struct held_pod **ret_pod)
{
	struct held_pod pod = {.instances = 1}, *grown;

	if (held->n_pods >= HELD_PODS_MAX)
		return -E2BIG;
	grown = reallocarray(held->pods, held->n_pods + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	held->pods = grown;
	pod.uid = strdup(uid);
	pod.namespace_ = strdup(namespace_);
	pod.name = strdup(name);
	if (!pod.uid || !pod.namespace_ || !pod.name) {
		held_pod_release(&pod);
		return -ENOMEM;
	}
	grown[held->n_pods] = pod;
	*ret_pod = &grown[held->n_pods++];
	return 0;
}

int held_pod_add_gpu(struct held_pod *pod, const char *uuid, uint32_t units, uint32_t core)
{
	return gpu_shares_add(&pod->gpus, &pod->n_gpus, uuid, units, core);
}

int held_add_ended(struct held *held, const char *uid)
{
	char **grown;

	if (held->n_ended >= HELD_PODS_MAX)
		return -E2BIG;
	grown = reallocarray(held->ended, held->n_ended + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	held->ended = grown;
	grown[held->n_ended] = strdup(uid);
	if (!grown[held->n_ended])
		return -ENOMEM;
	held->n_ended++;
	return 0;
}

static int held_copy_pod(const struct held_pod *from, struct held *to)
{
	struct held_pod *pod;
	int r = held_add_pod(to, from->uid, from->namespace_, from->name, &pod);

	for (size_t i = 0; r == 0 && i < from->n_gpus; i++)
		r = held_pod_add_gpu(pod, from->gpus[i].uuid, from->gpus[i].units, from->gpus[i].core);
	if (r == 0)
		pod->instances = from->instances;
	return r;
}

int held_copy(const struct held *from, struct held *ret_held)
{
	_cleanup_held_ struct held copy = {.names_ended = from->names_ended};
	int r = 0;

	memcpy(copy.at, from->at, sizeof(copy.at));
	for (size_t i = 0; r == 0 && i < from->n_pods; i++)
		r = held_copy_pod(&from->pods[i], &copy);
	for (size_t i = 0; r == 0 && i < from->n_ended; i++)
		r = held_add_ended(&copy, from->ended[i]);
	if (r < 0)
		return r;
	*ret_held = copy;
	held_init(&copy);
	return 0;
}

static bool held_pod_equal(const struct held_pod *a, const struct held_pod *b)
{
	return strcmp(a->uid, b->uid) == 0 && a->instances == b->instances &&
	       gpu_shares_equal(a->gpus, a->n_gpus, b->gpus, b->n_gpus);
}

bool held_equal(const struct held *a, const struct held *b)
{
	if (strcmp(a->at, b->at) != 0 || a->n_pods != b->n_pods || a->n_ended != b->n_ended ||
		a->names_ended != b->names_ended)
		return false;
	for (size_t i = 0; i < a->n_pods; i++)
		if (!held_pod_equal(&a->pods[i], &b->pods[i]))
			return false;
	for (size_t i = 0; i < a->n_ended; i++)
		if (strcmp(a->ended[i], b->ended[i]) != 0)
			return false;
	return true;
}

const struct held_pod *held_find(const struct held *held, const char *uid)
{
	for (size_t i = 0; i < held->n_pods; i++)
		if (strcmp(held->pods[i].uid, uid) == 0)
			return &held->pods[i];
	return NULL;
}

enum held_verdict held_says(const struct held *held, const char *uid)
{
	if (held_find(held, uid))
		return HELD_LIVES;
	for (size_t i = 0; i < held->n_ended; i++)
		if (strcmp(held->ended[i], uid) == 0)
			return HELD_ENDED;
	return HELD_UNKNOWN;
}
