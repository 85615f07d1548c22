#include "agent/dra/gone.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/alive.h"
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

#define AGAIN_NS (10 * NS_PER_S)  /* between two questions about the same claims */
#define UNUSED_NS (60 * NS_PER_S) /* likewise, of one that no pod of the API server uses */
#define SOON_NS (1 * NS_PER_S)	  /* as long as a claim was unprepared less than SOON_WITHIN_NS ago */
#define SOON_WITHIN_NS (30 * NS_PER_S)
#define TIMEOUT_MS 5000
#define PATH_SIZE (CLAIM_NAME_SIZE * 2 + 80)

struct gone {
	const struct dra_deps *deps;
	struct preparer *preparer;
	char uid[CLAIM_UID_SIZE]; /* the claim about which the API server is asked */
	struct kube_request *request;
	bool over;		/* it is over by the API server */
	bool asking, asks_over; /* the container runtime is being asked; since it is over, too */
	int64_t asked_ns;	/* when that began */
	int64_t released_asked_ns, released_again_ns; /* about the claims that were unprepared */
};

static void later(struct node_claim *claim)
{
	claim->look_ns = monotonic_ns() + AGAIN_NS;
}

/* Returns a user of the claim of whose pod something runs; NULL if nothing runs. */
static const struct claim_user *find_alive(const struct node_claim *claim, const struct table *uids)
{
	for (size_t i = 0; i < claim->n_users; i++)
		if (table_get(uids, claim->users[i].pod_uid))
			return &claim->users[i];
	return NULL;
}

static void end_doubtful_claim(struct gone *gone, const struct table *uids)
{
	struct node_claim *claim = node_claims_by_uid(gone->deps->node, gone->uid);

	gone->over = false;
	if (!claim || claim->confirmed)
		return;
	if (!uids || find_alive(claim, uids)) {
		later(claim);
		return;
	}
	log_info("ResourceClaim %s/%s (uid %s) is over: what was prepared for it is removed",
		claim->namespace_, claim->name, claim->uid);
	preparer_remove(gone->preparer, gone->uid);
}

static void say_that_it_lingers(
	const struct gone *gone, const struct node_claim *claim, const struct claim_user *user)
{
	const struct node_pod *pod = node_pods_by_uid(&gone->deps->node->pods, user->pod_uid);

	log_warning(
		"ResourceClaim %s/%s: the kubelet has unprepared it, but pod %s%s%s runs with it, and keeps its limit and its memory until it ends. If the pod's containers cannot start again, delete it; a kubelet of Kubernetes 1.37 does not do this",
		claim->namespace_, claim->name, pod ? pod->facts.namespace_ : "", pod ? "/" : "",
		pod ? pod->facts.name : user->pod_uid);
}

/* The container runtime was asked after the claim had been released. */
static bool is_judged(const struct gone *gone, const struct node_claim *claim)
{
	return claim->released_ns && claim->released_ns <= gone->asked_ns;
}

static struct node_claim *find_released(const struct gone *gone, const struct table *uids)
{
	struct node_claim *claim;

	table_for_each (&gone->deps->node->claims, cursor, claim)
		if (is_judged(gone, claim) && !find_alive(claim, uids))
			return claim;
	return NULL;
}

static void end_released_claims(struct gone *gone, const struct table *uids)
{
	struct node_claim *claim;
	size_t n = gone->deps->node->claims.count;

	while (n-- && (claim = find_released(gone, uids)))
		preparer_remove(gone->preparer, claim->uid);
	table_for_each (&gone->deps->node->claims, cursor, claim) {
		const struct claim_user *user = is_judged(gone, claim) ? find_alive(claim, uids) : NULL;

		if (user && !claim->lingers)
			say_that_it_lingers(gone, claim, user);
		claim->lingers |= user != NULL;
	}
}

static void on_alive(void *userdata, const struct alive_answer *answer, const char *text)
{
	struct gone *gone = userdata;
	const struct table *uids = answer ? &answer->uids : NULL;

	gone->asking = false;
	if (gone->asks_over)
		end_doubtful_claim(gone, uids);
	if (uids)
		end_released_claims(gone, uids);
	gone->deps->changed(gone->deps->userdata);
}

static void ask_alive(struct gone *gone)
{
	if (gone->asking)
		return;
	gone->asks_over = gone->over;
	gone->asked_ns = monotonic_ns();
	gone->asking = gone->deps->ask_alive(gone->deps->userdata, on_alive, gone) == 0;
}

/* 1: the API server has the claim with what was prepared; 0: it is over. -EAGAIN: neither is certain. */
static int read_answer(const struct node_claim *known, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_claim_ struct claim claim;
	const char *uid;

	claim_init(&claim);
	if (response->result == 0 && response->status == 404)
		return 0;
	if (response->result < 0 || response->status >= 300 ||
		json_parse(response->body, response->body_len, &object, NULL) < 0)
		return -EAGAIN;
	uid = json_member_string(json_member(object, "metadata"), "uid");
	if (uid && strcmp(uid, known->uid) != 0) /* also if the rest of it cannot be read */
		return 0;
	return claim_from_json(object, &claim, NULL) < 0 ? -EAGAIN : node_claim_holds(known, &claim);
}

static void on_claim(void *userdata, const struct kube_response *response)
{
	struct gone *gone = userdata;
	struct node_claim *known = node_claims_by_uid(gone->deps->node, gone->uid);
	int r;

	gone->request = NULL;
	if (!known || known->confirmed)
		return;
	r = read_answer(known, response);
	if (r < 0) {
		later(known);
	} else if (r > 0) {
		known->confirmed = true;
		known->look_ns = monotonic_ns() + UNUSED_NS;
	} else {
		gone->over = true;
		ask_alive(gone);
	}
}

/* Returns when the last one was released; 0 if all are prepared. */
static int64_t last_released_ns(const struct gone *gone)
{
	const struct node_claim *claim;
	int64_t last = 0;

	table_for_each (&gone->deps->node->claims, cursor, claim)
		if (claim->released_ns > last)
			last = claim->released_ns;
	return last;
}

void gone_look_at_released(struct gone *gone)
{
	int64_t now = monotonic_ns(), last = last_released_ns(gone);

	/* One that was just released does not wait for the others' turn. */
	if (!last || gone->asking || (now < gone->released_again_ns && last <= gone->released_asked_ns))
		return;
	ask_alive(gone);
	gone->released_asked_ns = now;
	gone->released_again_ns = now + (now - last < SOON_WITHIN_NS ? SOON_NS : AGAIN_NS);
}

static bool has_known_user(const struct node_registry *node, const struct node_claim *claim)
{
	for (size_t i = 0; i < claim->n_users; i++)
		if (node_pods_by_uid(&node->pods, claim->users[i].pod_uid))
			return true;
	return false;
}

/* A claim of an earlier agent, or one that no pod has used for a while: a kubelet that has lost its record of
 * claims does not unprepare it. */
static struct node_claim *find_doubtful(const struct gone *gone)
{
	int64_t now = monotonic_ns();
	struct node_claim *claim;

	table_for_each (&gone->deps->node->claims, cursor, claim) {
		if (claim->released_ns || !claim->n_devices)
			continue;
		if (claim->confirmed && has_known_user(gone->deps->node, claim))
			claim->look_ns = 0;
		else if (claim->confirmed && !claim->look_ns)
			claim->look_ns = now + UNUSED_NS;
		else if (now >= claim->look_ns)
			return claim;
	}
	return NULL;
}

void gone_look(struct gone *gone)
{
	struct node_claim *claim;
	char path[PATH_SIZE];

	gone_look_at_released(gone);
	if (gone->over)
		ask_alive(gone);
	if (gone->request || gone->over)
		return;
	claim = find_doubtful(gone);
	if (!claim)
		return;
	claim->confirmed = false;
	snprintf(gone->uid, sizeof(gone->uid), "%s", claim->uid);
	snprintf(path, sizeof(path), DRA_CLAIM_PATH_FORMAT, claim->namespace_, claim->name);
	if (kube_request(gone->deps->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_claim, gone,
		    &gone->request) < 0)
		later(claim);
}

int gone_new(const struct dra_deps *deps, struct preparer *preparer, struct gone **ret_gone)
{
	struct gone *gone = calloc(1, sizeof(*gone));

	if (!gone)
		return -ENOMEM;
	gone->deps = deps;
	gone->preparer = preparer;
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
