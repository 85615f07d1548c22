/* facts-archive.h - facts of nodes and pods in an archive (base/archive.h): names, uids and numbers, and the
 * labels of pods, which preemption compares with PodDisruptionBudgets. Reading needs an initialised struct,
 * which the caller releases in any case. */
#pragma once

#include "base/archive.h"
#include "model/facts.h"

void archive_placement(struct archive *archive, struct placement *placement);
void archive_request(struct archive *archive, struct request *request);
void archive_host(struct archive *archive, struct host_amount *host);
void archive_held(struct archive *archive, struct held *held);
void archive_gpu_facts(struct archive *archive, struct gpu_facts *gpu);
void archive_node_facts(struct archive *archive, struct node_facts *facts);
void archive_pod_facts(struct archive *archive, struct pod_facts *facts);
