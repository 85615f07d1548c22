/* assign.c - marks a pod as assigned, by a PATCH, after the kubelet has been given its devices. */
#include "agent/kubelet/kubelet-internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/client.h"
#include "kube/names.h"

#define TIMEOUT_MS 10000

/* The pod may be gone when the answer comes: its uid is looked up again. */
struct assignment {
	struct list item;
	struct kubelet *kubelet;
	char *uid;
	struct kube_request *request;
};

static void assignment_free(struct assignment *assignment)
{
	list_remove(&assignment->item);
	free(assignment->uid);
	free(assignment);
}

static void on_patched(void *userdata, const struct kube_response *response)
{
	struct assignment *assignment = userdata;
	struct node_pod *pod = node_pods_by_uid(&assignment->kubelet->deps.node->pods, assignment->uid);
	bool over = response->result == 0 && response->status < 500 && response->status != 429;

	if (response->result < 0 || response->status >= 300)
		log_info("cannot mark the pod with uid %s as assigned: %s%s", assignment->uid, response->text,
			over ? "" : "; trying again");
	if (pod) {
		pod->assign.busy = false;
		/* 404, 409: another pod has the name by now; 403: a right is missing, so repeating is
		 * useless. */
		if (over)
			pod->assign.wanted = false;
	}
	assignment_free(assignment);
}

static void assign_send(struct kubelet *kubelet, struct node_pod *pod)
{
	struct assignment *assignment;
	char path[700], body[512];

	if (!kubelet->deps.client || pod->assign.busy)
		return;
	assignment = calloc(1, sizeof(*assignment));
	if (!assignment)
		return;
	assignment->kubelet = kubelet;
	assignment->uid = strdup(pod->facts.uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	/* The uid in a patch is a precondition: another pod of that name is a conflict. */
	snprintf(body, sizeof(body), "{\"metadata\":{\"uid\":\"%s\",\"annotations\":{\"%s\":\"true\"}}}",
		pod->facts.uid, ANNOTATION_MEM_ASSIGNED);
	if (!assignment->uid || kube_request(kubelet->deps.client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH,
					body, TIMEOUT_MS, on_patched, assignment, &assignment->request) < 0) {
		assignment_free(assignment);
		return;
	}
	list_append(&kubelet->assignments, &assignment->item);
	pod->assign.busy = true;
}

void assign_pod(struct kubelet *kubelet, struct node_pod *pod)
{
	if (pod->facts.assigned || pod->assign.wanted)
		return;
	pod->assign.wanted = true;
	assign_send(kubelet, pod);
}

void assign_stop(struct kubelet *kubelet)
{
	while (!list_empty(&kubelet->assignments)) {
		struct assignment *assignment = list_entry(
			kubelet->assignments.next, struct assignment, item);

		kube_request_cancel(assignment->request);
		assignment_free(assignment);
	}
}

void kubelet_retry(struct kubelet *kubelet)
{
	void *value;

	table_for_each (&kubelet->deps.node->pods.by_uid, cursor, value) {
		struct node_pod *pod = value;

		if (pod->facts.assigned)
			pod->assign.wanted = false;
		if (pod->assign.wanted)
			assign_send(kubelet, pod);
	}
}
