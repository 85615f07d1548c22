#include "scheduler/recheck.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/pod.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting.h"

#define TIMEOUT_MS 5000

struct recheck {
	struct scheduler *scheduler;
	char *uid;
};

static void recheck_free(struct recheck *recheck)
{
	free(recheck->uid);
	free(recheck);
}

/* Only a clear answer counts; in doubt the pod stays in the book. */
static void on_answer(void *userdata, const struct kube_response *response)
{
	struct recheck *recheck = userdata;
	struct ledger *ledger = &recheck->scheduler->ledger;
	_cleanup_pod_facts_ struct pod_facts facts;
	struct json_object *pod = NULL;
	bool gone = response->result == 0 && response->status == 404;

	pod_facts_init(&facts);
	if (response->result == 0 && response->status == 200)
		pod = json_tokener_parse(response->body);
	if (pod && pod_facts_from_json(pod, &facts, NULL) == 0) {
		gone = strcmp(facts.uid, recheck->uid) != 0;
		if (!gone && ledger_set_pod(ledger, &facts) < 0)
			log_error("pod %s/%s: out of memory", facts.namespace_, facts.name);
	}
	if (gone) {
		log_info("pod %s was deleted while the watch was cut", recheck->uid);
		ledger_remove_pod(ledger, recheck->uid);
		waiting_room_look(recheck->scheduler->waiting);
	}
	json_object_put(pod);
	recheck_free(recheck);
}

static int recheck_pod(struct scheduler *scheduler, const struct ledger_pod *pod)
{
	struct recheck *recheck = calloc(1, sizeof(*recheck));
	char path[1024];
	int r;

	if (!recheck)
		return -ENOMEM;
	recheck->scheduler = scheduler;
	recheck->uid = strdup(pod->facts.uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	r = recheck->uid ? kube_request(scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_answer,
				   recheck, NULL)
			 : -ENOMEM;
	if (r < 0)
		recheck_free(recheck);
	return r;
}

void recheck_unlisted(struct scheduler *scheduler)
{
	const struct ledger_pod *pod;

	table_for_each (&scheduler->ledger.pods, cursor, pod) {
		if (pod->listed || pod->occupancy != OCCUPANCY_BOUND)
			continue;
		if (recheck_pod(scheduler, pod) < 0)
			log_warning(
				"cannot ask for pod %s/%s, ignoring", pod->facts.namespace_, pod->facts.name);
	}
}
