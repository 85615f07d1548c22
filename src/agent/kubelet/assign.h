/* assign.h - ALIYUN_COM_GPU_MEM_ASSIGNED: "true" on a pod once its first container starts. A hint for older
 * readers: it never delays a start, and is tried again while the API server is away. */
#pragma once

struct kubelet;
struct node_pod;

void assign_pod(struct kubelet *kubelet, struct node_pod *pod);

/* assign_stop() - forget what is on its way. */
void assign_stop(struct kubelet *kubelet);

/* assign_retry() - all that is still to be written. */
void assign_retry(struct kubelet *kubelet);
