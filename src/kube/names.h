/* names.h - every label, annotation, resource, variable and object name that users or other programs rely on.
 * Their meaning is in docs/internals/contract.md.
 */
#pragma once

/* Resources in container limits and node status. */
#define RESOURCE_GPU_MEM "aliyun.com/gpu-mem"
#define RESOURCE_GPU_CORE "aliyun.com/gpu-core.percentage"
#define RESOURCE_GPU_COUNT "aliyun.com/gpu-count"
#define RESOURCE_GPU "aliyun.com/gpu"
/* The resources of NVIDIA's device plugin: whole GPUs; and, with renameByDefault, the parts in which it
 * shares them by time or by MPS. Other plugins (HAMi) use the first one, too. */
#define RESOURCE_NVIDIA_GPU "nvidia.com/gpu"
#define RESOURCE_NVIDIA_SHARED "nvidia.com/gpu.shared"

/* Node labels: those that users set ... */
#define LABEL_SCHEDULE "ack.node.gpu.schedule"
#define LABEL_PLACEMENT "ack.node.gpu.placement"
#define LABEL_LEGACY_SHARE "gpushare" /* "true" = share, weaker than LABEL_SCHEDULE */
#define LABEL_LEGACY_CGPU "cgpu"      /* "true" = cgpu, weaker than LABEL_SCHEDULE */
/* NVIDIA's GPU operator runs its device plugin on nodes where this is "true". It sets the label if it is
 * missing, and keeps a value that a user has set (state_manager.go addGPUStateLabels()). */
#define LABEL_NVIDIA_PLUGIN "nvidia.com/gpu.deploy.device-plugin"
/* The model of a node's GPUs by NVIDIA's GPU feature discovery. */
#define LABEL_NVIDIA_PRODUCT "nvidia.com/gpu.product"
/* ... and those that the agent sets. */
#define LABEL_NVIDIA_NAME "aliyun.accelerator/nvidia_name"
#define LABEL_NVIDIA_MEM "aliyun.accelerator/nvidia_mem"
#define LABEL_NVIDIA_COUNT "aliyun.accelerator/nvidia_count"

/* Node annotations that the agent writes and the scheduler trusts. */
#define ANNOTATION_NODE_GPUS "ration.dev/gpus" /* JSON inventory */
#define ANNOTATION_NODE_UNIT "ration.dev/unit" /* MiB; on pods too */
#define ANNOTATION_NODE_MODE "ration.dev/mode" /* mode in force */
/* "false": the agent is about to end, or the kubelet does not have its devices. No new pod may be bound to
 * the node. */
#define ANNOTATION_NODE_SERVING "ration.dev/serving"
/* What the labels, and the chart's gpuMemoryUnit (MiB), ask for, while mode and unit in force stay until the
 * last pod under them has ended. The node gets no new pods until then. */
#define ANNOTATION_NODE_MODE_PENDING "ration.dev/mode-pending"
#define ANNOTATION_NODE_UNIT_PENDING "ration.dev/unit-pending"
/* Why the node offers nothing, or nothing new, as a sentence; absent while all is well */
#define ANNOTATION_NODE_PROBLEM "ration.dev/problem"
/* JSON: GPUs that MIG divides, which the node does not share:
 * [{"index":1,"uuid":"GPU-.."}]; absent without any */
#define ANNOTATION_NODE_MIG "ration.dev/mig"
/* JSON: what containers still hold whose pod is gone from the API server (force delete) */
#define ANNOTATION_NODE_HELD "ration.dev/held"
/* Set by users: the policy of computing power on this node, "0" to "5", instead of the cluster's */
#define ANNOTATION_NODE_POLICY "ration.dev/policy"

/* A node condition. It is "True" while ANNOTATION_NODE_PROBLEM has a reason, and while another device plugin
 * offers the same GPUs. */
#define NODE_CONDITION_PROBLEM "GPUSharingProblem"
#define NODE_REASON_UNKNOWN_FUNCTIONS "GPUDriverUnknownFunctions"
#define NODE_REASON_DEVICE_LOSS "GPULostAtReload"
#define NODE_REASON_ADVERTISED_TWICE "GPUAdvertisedTwice"

/* Pod labels that ask for something. */
#define LABEL_GPU_COUNT "aliyun.com/gpu-count" /* "M": gpu-mem is spread evenly over M GPUs of one node */
/* The pod's gang, and how many pods of it must be placed at least; also scheduler-plugins' label for a pod of
 * a PodGroup */
#define LABEL_GANG "pod-group.scheduling.sigs.k8s.io/name"
#define LABEL_GANG_MIN "pod-group.scheduling.sigs.k8s.io/min-available"
#define LABEL_POD_GROUP "scheduling.x-k8s.io/pod-group"
#define POD_GROUPS_PATH "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

/* For the pods of an MPI job, which want whole GPUs (RESOURCE_GPU) near each other's: the job's name, and its
 * number of pods. */
#define LABEL_GPU_TOPOLOGY "gpu-topology"
#define LABEL_GPU_TOPOLOGY_REPLICA "gpu-topology-replica"

/* Placement keys: pod annotations that only ration-scheduler writes, in the Binding or with another size
 * (ALIYUN_COM_GPU_MEM_ASSIGNED also ration-agent). The policy ration-placement-keys of the chart
 * ack-co-scheduler refuses other writers. tests/lint compares the policy's list with these names, up to the
 * next empty line. */
#define ANNOTATION_PLACEMENT "ration.dev/placement" /* the one that our own programs trust */
#define ANNOTATION_UNIT "ration.dev/unit"
#define ANNOTATION_ALLOCATION "scheduler.framework.gpushare.allocation"
#define ANNOTATION_CORE_ALLOCATION "gpushare.alibabacloud.com/core-percentage"
#define ANNOTATION_MEM_IDX "ALIYUN_COM_GPU_MEM_IDX"
#define ANNOTATION_MEM_POD "ALIYUN_COM_GPU_MEM_POD"
#define ANNOTATION_MEM_DEV "ALIYUN_COM_GPU_MEM_DEV"
#define ANNOTATION_MEM_ASSIGNED "ALIYUN_COM_GPU_MEM_ASSIGNED"
#define ANNOTATION_MEM_ASSUME_TIME "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
#define ANNOTATION_GPU_GROUP "topology.kubernetes.io/gpu-group"	    /* the whole GPUs of this pod, by index */
#define ANNOTATION_GPU_VISIBLE "topology.kubernetes.io/gpu-visible" /* of all its job's pods on the node */
#define ANNOTATION_RESIZE_STATUS "ration.dev/resize-status"	    /* the answer to ANNOTATION_RESIZE */
#define ANNOTATION_GANG "ration.dev/gang"			    /* GANG_FORMING, or absent */
/* The gang of the pod when it was bound, JSON {"name":"g","min":2}; {} if it had none */
#define ANNOTATION_BOUND_GANG "ration.dev/bound-gang"

/* The pod was bound while its gang had not started yet; removed when the gang has. */
#define GANG_FORMING "forming"

/* Written to a waiting pod to requeue it in kube-scheduler (its "Extender" queueing hint takes any pod
 * update). */
#define ANNOTATION_REQUEUE "ration.dev/nudge"

/* Another size for a running pod, as a user asks for it, JSON {"container":units}. ration-scheduler removes
 * it when it answers. */
#define ANNOTATION_RESIZE "ration.dev/resize"
#define EVENT_RESIZE_UNANSWERED "ResizeUnanswered" /* reason: the API server takes no answer to it */

/* Kubernetes' own: marks the object of a static pod in the API server, which cannot be evicted. */
#define ANNOTATION_MIRROR "kubernetes.io/config.mirror"

/* ResourcePolicies. This podLabel means that the pod waits for nodes of this unit, see
 * docs/internals/contract.md. */
#define LABEL_AWAITS_SCALING "k8s.aliyun.com/resource-policy-wait-for-ecs-scaling"
/* Kubernetes' own: which pod of a ReplicaSet ends first; and the value that ration wrote, so that a user's
 * own value is recognised. */
#define ANNOTATION_DELETION_COST "controller.kubernetes.io/pod-deletion-cost"
#define ANNOTATION_POLICY_COST "ration.dev/level-cost"
/* The taint of a cloud's virtual nodes. */
#define TAINT_VIRTUAL_NODE "virtual-kubelet.io/provider"

/* Variables in containers. */
#define ENV_MEM_CONTAINER "ALIYUN_COM_GPU_MEM_CONTAINER"
#define ENV_MEM_DEV "ALIYUN_COM_GPU_MEM_DEV"
#define ENV_MEM_IDX "ALIYUN_COM_GPU_MEM_IDX"
#define ENV_MEM_POD "ALIYUN_COM_GPU_MEM_POD"
#define ENV_NVIDIA_VISIBLE "NVIDIA_VISIBLE_DEVICES"
#define ENV_ALIYUN_VISIBLE "ALIYUN_COM_GPU_VISIBLE_DEVICES"
/* Set if a container sees more whole GPUs than its own. Its own come first, so that they are its device 0 and
 * the following ones. */
#define ENV_CUDA_VISIBLE "CUDA_VISIBLE_DEVICES"
/* Read if a pod sets it: "true" or "1" asks for no isolation. It counts only if the administrator allows it.
 */
#define ENV_CGPU_DISABLE "CGPU_DISABLE"
/* Which of the driver's libraries a container needs, as NVIDIA's container toolkit reads it. */
#define ENV_DRIVER_CAPABILITIES "NVIDIA_DRIVER_CAPABILITIES"
/* Read if a pod sets it: its weight under the policies 2 and 4. */
#define ENV_SCHD_WEIGHT "ALIYUN_COM_GPU_SCHD_WEIGHT"

/* Dynamic Resource Allocation: its API, the driver, its DeviceClasses, the capacities of its devices, and the
 * kind of its parameters. */
#define DRA_API "resource.k8s.io/v1"
#define DRA_API_PATH "/apis/" DRA_API
#define DRA_SLICES_PATH DRA_API_PATH "/resourceslices"
#define DRA_CLASSES_PATH DRA_API_PATH "/deviceclasses"
#define DRA_CLAIMS_PATH DRA_API_PATH "/resourceclaims"
#define DRA_CLAIM_PATH_FORMAT DRA_API_PATH "/namespaces/%s/resourceclaims/%s" /* namespace, name */
#define DRA_DRIVER "gpu.ration.dev"
#define DRA_CLASS_SLICE "gpu.ration.dev"
#define DRA_CLASS_WHOLE "whole.gpu.ration.dev"
#define DRA_CAPACITY_MEMORY "memory" /* bytes */
#define DRA_CAPACITY_CORES "cores"   /* percent of the GPU's computing power */
#define DRA_CORES_STEP 5
#define DRA_CONFIG_VERSION "ration.dev/v1"
#define DRA_CONFIG_KIND "GpuConfig"
#define DRA_TAINT_UNHEALTHY DRA_DRIVER "/unhealthy" /* effect NoSchedule */

/* Objects. */
#define NAMESPACE_SYSTEM "kube-system"
#define SCHEDULER_NAME "ack-co-scheduler"
/* The cluster's own kube-scheduler: its name for pods that name no scheduler, and the Lease of its election.
 */
#define DEFAULT_SCHEDULER_NAME "default-scheduler"
#define LEASE_KUBE_SCHEDULER "kube-scheduler"
#define SCHEDULER_PORT "39999"		    /* of ration-scheduler, on its pod's loopback */
#define LEASE_LEDGER "ration-ledger"	    /* names the kube-scheduler that owns the only ledger */
#define LEASE_NODE_PREFIX "ration-agent-"   /* and the node's name: the node's agent is alive */
#define LEASE_NODE_LABEL "ration.dev/lease" /* "agent": ration-scheduler watches these */
/* The settings for the cluster's agents; the chart writes it, in NAMESPACE_SYSTEM. */
#define CONFIG_MAP_POLICY "ration-policy"
#define CONFIG_MAP_POLICY_KEY "policy"
#define CONFIG_MAP_UNIT_KEY "gpuMemoryUnit"	/* the unit of gpu-mem: "1GiB" */
#define CONFIG_MAP_MAX_PODS_KEY "maxPodsPerGPU" /* for policy 0; "0": as the scheduler's default */
#define CONFIG_MAP_UNINSTALL_KEY "uninstall"	/* "true": the agents that end now are the last ones */
/* A topology node's links, which its agent writes in NAMESPACE_SYSTEM for programs that know ACK's (Arena).
 */
#define CONFIG_MAP_TOPOLOGY_PREFIX "gpu-topology-" /* and the node's name */
#define CONFIG_MAP_TOPOLOGY_NODE_LABEL "nodename"
#define CONFIG_MAP_TOPOLOGY_LABEL "ration.dev/topology" /* "agent": ration removes it at its uninstall */
/* GPUs that a user or program has declared faulty: <node>-device-status and unhealthy-gpu-<node>, in
 * NAMESPACE_SYSTEM. */
#define CONFIG_MAP_DEVICE_STATUS_SUFFIX "-device-status"
#define CONFIG_MAP_DEVICE_STATUS_KEY "devices"
#define CONFIG_MAP_UNHEALTHY_PREFIX "unhealthy-gpu-"
#define CONFIG_MAP_UNHEALTHY_KEY "gpus"
/* On the latter, written by `ration cordon`: UUID and reason of its GPUs, JSON */
#define ANNOTATION_CORDONED "ration.dev/cordoned"
/* The charts' MutatingWebhookConfigurations, for API servers without MutatingAdmissionPolicy. The policies
 * have the same names. */
#define WEBHOOK_SCHEDULER_NAME "ration-scheduler-name"
#define WEBHOOK_UNIT_STAMP "ration-unit-stamp"
#define SERVICE_ACCOUNT_SCHEDULER "ration-scheduler"
#define SERVICE_ACCOUNT_AGENT "ration-agent"
