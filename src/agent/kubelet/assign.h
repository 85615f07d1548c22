/* assign.h - ALIYUN_COM_GPU_MEM_ASSIGNED: "true" on a pod once its first container starts. A hint for older
 * readers: it never delays a start, and is tried again while the API server is away. */
#pragma once

struct agent;
struct node_pod;

void assign_pod(struct agent *agent, struct node_pod *pod);

/* assign_stop() - forget what is on its way; after the client is gone. */
void assign_stop(struct agent *agent);

/* assign_retry() - all that is still to be written. */
void assign_retry(struct agent *agent);
