/* kube/ - Kubernetes as the daemons see it: every key and name (here), kubeconfig, the API client, LIST +
 * WATCH, and the translation between API objects and model/. May use base/, model/ and net/, plus libcurl,
 * json-c and libyaml.
 *
 * names.h: every label, annotation, resource, variable and object name that users or other programs rely on.
 * Their meaning is in docs/internals/contract.md.
 */
#pragma once

/* Resources in container limits and node status. */
#define RESOURCE_GPU_MEM "aliyun.com/gpu-mem"
#define RESOURCE_GPU_CORE "aliyun.com/gpu-core.percentage"
#define RESOURCE_GPU_COUNT "aliyun.com/gpu-count"
#define RESOURCE_GPU "aliyun.com/gpu"

/* Node labels: what people set ... */
#define LABEL_SCHEDULE "ack.node.gpu.schedule"
#define LABEL_PLACEMENT "ack.node.gpu.placement"
#define LABEL_LEGACY_SHARE "gpushare" /* "true" = share, weaker than LABEL_SCHEDULE */
#define LABEL_LEGACY_CGPU "cgpu"      /* "true" = cgpu, weaker than LABEL_SCHEDULE */
/* ... and what the agent sets. */
#define LABEL_NVIDIA_NAME "aliyun.accelerator/nvidia_name"
#define LABEL_NVIDIA_MEM "aliyun.accelerator/nvidia_mem"
#define LABEL_NVIDIA_COUNT "aliyun.accelerator/nvidia_count"

/* Node annotations, written by the agent, believed by the scheduler. */
#define ANNOTATION_NODE_GPUS "ration.dev/gpus" /* JSON inventory */
#define ANNOTATION_NODE_UNIT "ration.dev/unit" /* MiB; on pods too */
#define ANNOTATION_NODE_MODE "ration.dev/mode" /* mode in force */
/* "false": the agent is about to go, nothing new may be bound to the node */
#define ANNOTATION_NODE_SERVING "ration.dev/serving"
/* The mode that stays in force until the last pod under it has ended: the labels ask for another */
#define ANNOTATION_NODE_MODE_PENDING "ration.dev/mode-pending"
/* Why the node offers nothing, or nothing new, in words; absent while all is well */
#define ANNOTATION_NODE_PROBLEM "ration.dev/problem"
/* JSON: what containers still hold whose pod is gone from the API server (force delete) */
#define ANNOTATION_NODE_HELD "ration.dev/held"
/* Set by people: the policy of computing power on this node, "0" to "5", instead of the cluster's */
#define ANNOTATION_NODE_POLICY "ration.dev/policy"

/* Pod labels that ask for something. */
#define LABEL_GPU_COUNT "aliyun.com/gpu-count" /* "M": gpu-mem is spread evenly over M cards of one node */

/* Placement keys: pod annotations, written by ration-scheduler in the Binding or with another size
 * (ALIYUN_COM_GPU_MEM_ASSIGNED also by ration-agent) and by nobody else: the policy ration-placement-keys of
 * the chart ack-co-scheduler. tests/lint holds its list to these, up to the next empty line. */
#define ANNOTATION_PLACEMENT "ration.dev/placement" /* the truth for our own programs */
#define ANNOTATION_UNIT "ration.dev/unit"
#define ANNOTATION_ALLOCATION "scheduler.framework.gpushare.allocation"
#define ANNOTATION_CORE_ALLOCATION "gpushare.alibabacloud.com/core-percentage"
#define ANNOTATION_MEM_IDX "ALIYUN_COM_GPU_MEM_IDX"
#define ANNOTATION_MEM_POD "ALIYUN_COM_GPU_MEM_POD"
#define ANNOTATION_MEM_DEV "ALIYUN_COM_GPU_MEM_DEV"
#define ANNOTATION_MEM_ASSIGNED "ALIYUN_COM_GPU_MEM_ASSIGNED"
#define ANNOTATION_MEM_ASSUME_TIME "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
#define ANNOTATION_RESIZE_STATUS "ration.dev/resize-status" /* the answer to ANNOTATION_RESIZE */

/* Written on a waiting pod to wake kube-scheduler (its "Extender" queueing hint takes any pod update). */
#define ANNOTATION_NUDGE "ration.dev/nudge"

/* Another size for a pod that runs: what somebody asks for, JSON {"container":units}. ration-scheduler takes
 * it away with its answer. */
#define ANNOTATION_RESIZE "ration.dev/resize"

/* Kubernetes' own: a static pod's image in the API server, nobody can evict it. */
#define ANNOTATION_MIRROR "kubernetes.io/config.mirror"

/* Variables in containers. */
#define ENV_MEM_CONTAINER "ALIYUN_COM_GPU_MEM_CONTAINER"
#define ENV_MEM_DEV "ALIYUN_COM_GPU_MEM_DEV"
#define ENV_MEM_IDX "ALIYUN_COM_GPU_MEM_IDX"
#define ENV_MEM_POD "ALIYUN_COM_GPU_MEM_POD"
#define ENV_NVIDIA_VISIBLE "NVIDIA_VISIBLE_DEVICES"
#define ENV_ALIYUN_VISIBLE "ALIYUN_COM_GPU_VISIBLE_DEVICES"
/* Read, when a pod sets it: "true" or "1" asks for no isolation; honoured only where the administrator allows
 * it. */
#define ENV_CGPU_DISABLE "CGPU_DISABLE"
/* Read, when a pod sets it: its weight under the policies 2 and 4. */
#define ENV_SCHD_WEIGHT "ALIYUN_COM_GPU_SCHD_WEIGHT"

/* Objects. */
#define NAMESPACE_SYSTEM "kube-system"
#define SCHEDULER_NAME "ack-co-scheduler"
#define SCHEDULER_PORT "39999"		    /* ration-scheduler, on its pod's loopback */
#define LEASE_LEDGER "ration-ledger"	    /* whose kube-scheduler owns the only ledger */
#define LEASE_NODE_PREFIX "ration-agent-"   /* and the node's name: the agent of the node lives */
#define LEASE_NODE_LABEL "ration.dev/lease" /* "agent": what ration-scheduler watches */
/* Which policy the cluster's agents follow; the chart writes it, in NAMESPACE_SYSTEM. */
#define CONFIG_MAP_POLICY "ration-policy"
#define CONFIG_MAP_POLICY_KEY "policy"
#define CONFIG_MAP_MAX_PODS_KEY "maxPodsPerGPU" /* of policy 0; "0": as the scheduler's default */
#define SERVICE_ACCOUNT_SCHEDULER "ration-scheduler"
#define SERVICE_ACCOUNT_AGENT "ration-agent"
