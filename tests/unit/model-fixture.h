/* model-fixture.h - nodes and pods in one line each, for the tests of the core and of the model. */
#pragma once

#include "core/registry/ledger.h"

/* fixture_node() - a share node with n GPUs of the given units of 1 GiB, UUIDs "GPU-<name>-<index>". */
void fixture_node(struct node_facts *ret_facts, const char *name, enum gpu_policy policy, size_t n_gpus,
	const uint32_t *units);

/* fixture_pod() - a waiting pod with one container "main" that asks for this many units. */
void fixture_pod(struct pod_facts *ret_facts, const char *uid, uint32_t units, const char *owner);

/* fixture_bind() - as the API server shows it once bound: on this GPU, or unplaced if uuid is NULL. */
void fixture_bind(struct pod_facts *facts, const char *node, const char *uuid);

/* fixture_bind_to() - with an equal part on each of these GPUs. */
void fixture_bind_to(struct pod_facts *facts, const char *node, size_t n_gpus, const char *const *uuids);

/* fixture_place_on() - every container of the request on each of these GPUs, with an equal part. */
void fixture_place_on(struct placement *ret_placement, const struct request *request, size_t n_gpus,
	const char *const *uuids);

/* fixture_place() - every container of the request on this GPU. */
void fixture_place(struct placement *ret_placement, const struct request *request, const char *uuid);
