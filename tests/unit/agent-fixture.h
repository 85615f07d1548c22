/* agent-fixture.h - pods as the agent knows them, without JSON. */
#pragma once

#include "core/registry/ledger.h"

#define UUID_0 "GPU-00000000-0000-0000-0000-000000000000"
#define UUID_1 "GPU-11111111-1111-1111-1111-111111111111"

/* fixture_pod() - a pod in namespace "default" without containers. */
void fixture_pod(struct pod_facts *facts, const char *uid, const char *name);

/* fixture_add() - a container that asks for units (in the order of calls), placed on the GPU; NULL: not
 * placed. */
void fixture_add(struct pod_facts *facts, const char *container, enum container_kind kind, uint32_t units,
	const char *uuid);
