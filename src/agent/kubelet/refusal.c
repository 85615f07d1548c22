#include "agent/kubelet/refusal.h"

#include <stdio.h>

#include "agent/container/allotment.h"
#include "agent/events.h"
#include "base/error.h"
#include "kube/names.h"
#include "node/registry.h"

void refusal_sentence(const struct node_registry *node, const struct node_pod *pod, char *buf, size_t size)
{
	const struct pod_facts *facts = &pod->facts;
	struct error err = {""};
	struct allotment allotment;

	if (pod->shown.is_impossible) {
		snprintf(buf, size,
			"%s; correct this in the pod (or in the template of its controller) and create it anew",
			pod->shown.problem.text);
		return;
	}
	if (!facts->has_placement && pod->shown.problem.text[0]) {
		snprintf(buf, size,
			"pod %s/%s: its GPU placement cannot be used (%s): delete the pod and set schedulerName: %s, so that it is placed anew",
			facts->namespace_, facts->name, pod->shown.problem.text, SCHEDULER_NAME);
		return;
	}
	if (!facts->has_placement) {
		snprintf(buf, size,
			"pod %s/%s was put on node %s without a GPU being chosen for it: set schedulerName: %s in its spec (or in the template of its controller), remove nodeName if it is set, and delete this pod",
			facts->namespace_, facts->name, node->name, SCHEDULER_NAME);
		return;
	}
	for (size_t i = 0; i < facts->placement.n_containers; i++)
		if (allotment_build(&node->inventory, facts, facts->placement.containers[i].name, true,
			    &allotment, &err) < 0)
			break;
	snprintf(buf, size, "%s",
		err.text[0] ? err.text : "the files of the NVIDIA driver are missing on this node");
}

void refusal_report(const struct node_registry *node, const struct events *events, const char *uid)
{
	struct node_pod *pod = node_pods_by_uid(&node->pods, uid);
	char sentence[1024];

	if (!pod || pod->reported.refusal)
		return;
	pod->reported.refusal = true;
	refusal_sentence(node, pod, sentence, sizeof(sentence));
	event_on_pod(events, &pod->facts, "GPUNotPlaced", sentence);
}
