#include "agent/dra/gone.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dra/prepare.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/claim.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "node/claims.h"
#include "node/registry.h"

#define AGAIN_NS (10 * NS_PER_S) /* between two questions about the same claims */
#define TIMEOUT_MS 5000
#define PATH_SIZE (CLAIM_NAME_SIZE * 2 + 80)

struct gone {
	const struct dra_deps *deps;
	char uid[CLAIM_UID_SIZE]; /* the claim that is asked about */
	struct kube_request *request;
	bool asking; /* the container runtime */
	int64_t again_ns;
};

static void later(struct gone *gone)
{
	gone->again_ns = monotonic_ns() + AGAIN_NS;
}

static void on_alive(void *userdata, const struct table *uids, const char *text)
{
	struct gone *gone = userdata;
	struct node_claim *claim = node_claims_by_uid(gone->deps->node, gone->uid);
	bool alive = !uids;

	gone->asking = false;
	if (!claim || claim->confirmed)
		return;
	for (size_t i = 0; uids && i < claim->n_users; i++)
		alive |= table_get(uids, claim->users[i].pod_uid) != NULL;
	if (alive) {
		later(gone);
		return;
	}
	log_info("ResourceClaim %s/%s (uid %s) is over: what was prepared for it is removed",
		claim->namespace_, claim->name, claim->uid);
	preparer_remove(gone->deps, gone->uid);
	gone->deps->changed(gone->deps->userdata);
}

/* Whether the claim still has what the record says. The parameters and the health of a GPU may be others by
 * now; that does not matter here. */
static bool is_allocated(const struct node_claim *known, const struct claim *claim)
{
	size_t n = 0;

	if (strcmp(claim->uid, known->uid) != 0 || !claim->allocated)
		return false;
	for (size_t i = 0; i < claim->n_results; i++) {
		const struct claim_result *result = &claim->results[i];

		if (!result->ours)
			continue;
		if (n == known->n_devices || strcmp(result->pool, known->devices[n].pool) != 0 ||
			strcmp(result->device, known->devices[n].device) != 0 ||
			strcmp(result->share_id, known->devices[n].share_id) != 0)
			return false;
		n++;
	}
	return n == known->n_devices;
}

static void on_claim(void *userdata, const struct kube_response *response)
{
	struct gone *gone = userdata;
	struct node_claim *known = node_claims_by_uid(gone->deps->node, gone->uid);
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_claim_ struct claim claim;
	bool absent = response->result == 0 && response->status == 404;

	claim_init(&claim);
	gone->request = NULL;
	if (!known || known->confirmed)
		return;
	if (!absent && (response->result < 0 || response->status >= 300 ||
			       json_parse(response->body, response->body_len, &object, NULL) < 0 ||
			       claim_from_json(object, &claim, NULL) < 0)) {
		later(gone);
		return;
	}
	if (!absent && is_allocated(known, &claim)) {
		known->confirmed = true;
		return;
	}
	gone->asking = gone->deps->ask_alive(gone->deps->userdata, on_alive, gone) == 0;
	if (!gone->asking)
		later(gone);
}

static struct node_claim *find_unconfirmed(const struct gone *gone)
{
	struct node_claim *claim;

	table_for_each (&gone->deps->node->claims, cursor, claim)
		if (!claim->confirmed && claim->n_devices)
			return claim;
	return NULL;
}

void gone_look(struct gone *gone)
{
	struct node_claim *claim;
	char path[PATH_SIZE];

	if (gone->request || gone->asking || monotonic_ns() < gone->again_ns)
		return;
	claim = find_unconfirmed(gone);
	if (!claim)
		return;
	snprintf(gone->uid, sizeof(gone->uid), "%s", claim->uid);
	snprintf(path, sizeof(path), DRA_CLAIM_PATH_FORMAT, claim->namespace_, claim->name);
	if (kube_request(gone->deps->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_claim, gone,
		    &gone->request) < 0)
		later(gone);
}

int gone_new(const struct dra_deps *deps, struct gone **ret_gone)
{
	struct gone *gone = calloc(1, sizeof(*gone));

	if (!gone)
		return -ENOMEM;
	gone->deps = deps;
	*ret_gone = gone;
	return 0;
}

void gone_free(struct gone *gone)
{
	if (!gone)
		return;
	kube_request_cancel(gone->request);
	free(gone);
}
