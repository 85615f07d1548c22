#include "scheduler/verify-unlisted.h"

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
#include "scheduler/sync.h"

#define TIMEOUT_MS 5000

struct verification {
	struct scheduler *scheduler;
	char *uid;
};

static void verification_free(struct verification *verification)
{
	free(verification->uid);
	free(verification);
}

enum state { UNCLEAR, GONE, ENDED, RUNS };

/* Gone says nothing about its containers. */
static enum state state_of(const char *uid, const struct kube_response *response, struct pod_facts *facts)
{
	struct json_object *pod = NULL;
	enum state state = UNCLEAR;

	if (response->result == 0 && response->status == 404)
		return GONE;
	if (response->result == 0 && response->status == 200)
		pod = json_tokener_parse(response->body);
	/* What it asks for may be impossible; it is the pod that it is all the same. */
	if (pod && pod_facts_from_json(pod, facts, NULL) != -ENOMEM && facts->uid && *facts->uid)
		state = strcmp(facts->uid, uid) != 0 ? GONE : facts->finished ? ENDED : RUNS;
	json_object_put(pod);
	return state;
}

/* The watch has still not shown it: if it ends in the next gap, only asking again will tell. */
static void take(struct scheduler *scheduler, const struct pod_facts *facts)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, facts->uid);
	bool listed = known && known->listed;

	if (ledger_set_pod(&scheduler->ledger, facts) < 0)
		log_error("pod %s/%s: out of memory", facts->namespace_, facts->name);
	else if (!listed)
		ledger_set_unlisted(&scheduler->ledger, facts->uid);
}

/* Only a clear answer counts; in doubt the pod stays as it is in the book. What the watch has told meanwhile
 * is newer. */
static void on_answer(void *userdata, const struct kube_response *response)
{
	struct verification *verification = userdata;
	struct scheduler *scheduler = verification->scheduler;
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, verification->uid);
	bool orphan = known && known->occupancy == OCCUPANCY_ORPHAN;
	_cleanup_pod_facts_ struct pod_facts facts;
	enum state state;

	pod_facts_init(&facts);
	state = state_of(verification->uid, response, &facts);
	if (known && state == GONE && !orphan) {
		log_info("pod %s was deleted while the watch was cut", verification->uid);
		sync_pod_is_gone(scheduler->sync, verification->uid);
	} else if (known && state == ENDED) {
		log_info("pod %s ended while the watch was cut", verification->uid);
		sync_pod_has_finished(scheduler->sync, &facts);
	} else if (state == RUNS && !orphan && !sync_has_forgotten(scheduler->sync, verification->uid)) {
		take(scheduler, &facts);
	}
	verification_free(verification);
}

static int verify_pod(struct scheduler *scheduler, const struct ledger_pod *pod)
{
	struct verification *verification = calloc(1, sizeof(*verification));
	char path[1024];
	int r;

	if (!verification)
		return -ENOMEM;
	verification->scheduler = scheduler;
	verification->uid = strdup(pod->facts.uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	r = verification->uid ? kube_request(scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS,
					on_answer, verification, NULL)
			      : -ENOMEM;
	if (r < 0)
		verification_free(verification);
	return r;
}

void verify_unlisted(struct scheduler *scheduler)
{
	const struct ledger_pod *pod;

	table_for_each (&scheduler->ledger.pods, cursor, pod) {
		/* Reserved: the answer to its Binding may come after its end. */
		if (pod->listed ||
			(pod->occupancy != OCCUPANCY_BOUND && pod->occupancy != OCCUPANCY_RESERVED))
			continue;
		if (verify_pod(scheduler, pod) < 0)
			log_warning(
				"cannot ask for pod %s/%s, ignoring", pod->facts.namespace_, pod->facts.name);
	}
}
