#include "agent/dra/prepare.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/delivery.h"
#include "agent/dra.pb-c.h"
#include "agent/dra/judge.h"
#include "agent/dra/record.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "kube/claim.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "net/grpc-server.h"
#include "net/loop.h"
#include "node/answered.h"
#include "node/claims.h"
#include "node/registry.h"

#define ARENA_MAX ((size_t)1 << 20)
#define CLAIMS_MAX 256		     /* of one call: more than a pod has */
#define ANSWER_MAX ((size_t)2 << 20) /* no object in etcd is larger */
#define TIMEOUT_MS 5000		     /* the kubelet waits 45 s for the call */
#define PATH_SIZE (CLAIM_NAME_SIZE * 2 + 80)
/* A pod that was deleted by force is gone before its claim is unprepared, so the next claim may come while
 * the GPU is still occupied. If that claim is refused, the kubelet tries the pod again after a minute or so.
 * Therefore the call waits, but not as long as the kubelet does. */
#define ROOM_WITHIN_NS (30 * NS_PER_S)
#define ROOM_AGAIN_NS NS_PER_S

struct preparer {
	const struct dra_deps *deps;
	struct list calls; /* struct preparation */
	struct dra_counts counts;
};

/* One call. */
struct preparation {
	struct list item;
	struct preparer *preparer;
	struct grpc_call *call;
	struct wire_arena arena;
	const Dra__PrepareRequest *request; /* in the arena */
	size_t next;			    /* the claim that is being prepared */
	struct error *errors;		    /* for each claim; "" if it is prepared */
	bool *unprepared;		    /* for each claim: the kubelet has unprepared it since */
	struct claim claim;		    /* that claim, as the API server answered */
	struct judge judge;
	struct kube_request *get;
	struct loop_timer *again; /* the claim waits for room on its GPU */
	int64_t room_until_ns;	  /* until then a claim of this call waits */
};

/* The uid becomes a file name, and part of the name of a CDI device. */
static bool is_uid(const char *text)
{
	size_t len = strlen(text);

	return len && len < CLAIM_UID_SIZE && !text[strspn(text, "abcdefABCDEF0123456789-")] &&
	       text[0] != '-';
}

static int check_names(const Dra__Claim *claim, struct error *err)
{
	if (is_uid(claim->uid) && object_name_is_valid(claim->name) &&
		object_name_is_valid(claim->namespace_) && strlen(claim->namespace_) < CLAIM_LABEL_SIZE)
		return 0;
	return error_set(err, EINVAL, "the kubelet names a claim that cannot exist");
}

/* ---- the answer ---- */

struct answer {
	Dra__PrepareResponse response;
	Dra__PreparedEntry *entries, **entry_list;
	Dra__Prepared *claims;
	size_t n;
};

static void answer_release(struct answer *answer)
{
	for (size_t i = 0; i < answer->n; i++) {
		for (size_t k = 0; k < answer->claims[i].n_devices; k++) {
			free(answer->claims[i].devices[k]->request_names);
			free(answer->claims[i].devices[k]->cdi_device_ids);
			free(answer->claims[i].devices[k]);
		}
		free(answer->claims[i].devices);
	}
	free(answer->claims);
	free(answer->entries);
	free(answer->entry_list);
}

/* cdi: all requests of a claim have the same grant, so they have the same CDI device too. */
static int add_device(Dra__Prepared *prepared, struct claim_device *device, char *cdi)
{
	Dra__Device *added = calloc(1, sizeof(*added));

	if (!added)
		return -ENOMEM;
	dra__device__init(added);
	prepared->devices[prepared->n_devices++] = added;
	added->request_names = calloc(1, sizeof(*added->request_names));
	added->cdi_device_ids = calloc(1, sizeof(*added->cdi_device_ids));
	if (!added->request_names || !added->cdi_device_ids)
		return -ENOMEM;
	added->request_names[added->n_request_names++] = device->request;
	added->cdi_device_ids[added->n_cdi_device_ids++] = cdi;
	added->pool_name = device->pool;
	added->device_name = device->device;
	added->share_id = device->share_id;
	return 0;
}

static int add_devices(Dra__Prepared *prepared, struct node_claim *claim, char *cdi)
{
	int r = 0;

	prepared->devices = calloc(claim->n_devices, sizeof(Dra__Device *));
	if (!prepared->devices)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < claim->n_devices; i++)
		r = add_device(prepared, &claim->devices[i], cdi);
	return r;
}

static int answer_build(const struct preparation *p, char (*cdi)[DELIVERY_DEVICE_SIZE], struct answer *answer)
{
	size_t n = p->request->n_claims;
	int r = 0;

	answer->entries = calloc(n + 1, sizeof(*answer->entries));
	answer->entry_list = calloc(n + 1, sizeof(*answer->entry_list));
	answer->claims = calloc(n + 1, sizeof(*answer->claims));
	if (!answer->entries || !answer->entry_list || !answer->claims)
		return -ENOMEM;
	dra__prepare_response__init(&answer->response);
	answer->response.claims = answer->entry_list;
	answer->response.n_claims = answer->n = n;
	for (size_t i = 0; i < n; i++) {
		char *uid = p->request->claims[i]->uid;

		dra__prepared_entry__init(&answer->entries[i]);
		dra__prepared__init(&answer->claims[i]);
		answer->entry_list[i] = &answer->entries[i];
		answer->entries[i].key = uid;
		answer->entries[i].value = &answer->claims[i];
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		char *uid = p->request->claims[i]->uid, name[ANSWERED_NAME_SIZE];
		struct node_claim *claim = node_claims_by_uid(p->preparer->deps->node, uid);

		if (p->errors[i].text[0]) {
			answer->claims[i].error = p->errors[i].text;
			continue;
		}
		delivery_device(answered_own_name(uid, CLAIM_CONTAINER, name), cdi[i], sizeof(cdi[i]));
		r = add_devices(&answer->claims[i], claim, cdi[i]);
	}
	return r;
}

static void preparation_free(struct preparation *p)
{
	list_remove(&p->item);
	kube_request_cancel(p->get);
	judge_cancel(&p->judge);
	loop_timer_remove(p->again);
	claim_release(&p->claim);
	wire_arena_release(&p->arena);
	free(p->errors);
	free(p->unprepared);
	free(p);
}

static int refuse_unprepared(const Dra__Claim *asked, struct error *err)
{
	return error_set(err, ECANCELED,
		"ResourceClaim %s/%.100s: the kubelet has unprepared it while it was prepared",
		asked->namespace_, asked->name);
}

/* A call takes time, and an answer without devices would let containers start without their GPU. */
static void note_unprepared(struct preparation *p)
{
	for (size_t i = 0; i < p->request->n_claims; i++) {
		const Dra__Claim *asked = p->request->claims[i];
		const struct node_claim *claim = node_claims_by_uid(p->preparer->deps->node, asked->uid);

		if (!p->errors[i].text[0] && (!claim || claim->released_ns))
			refuse_unprepared(asked, &p->errors[i]);
	}
}

static void preparation_end(struct preparation *p)
{
	_cleanup_free_ void *cdi = calloc(p->request->n_claims + 1, DELIVERY_DEVICE_SIZE);
	_cleanup_free_ uint8_t *packed = NULL;
	struct answer answer = {.n = 0};
	size_t len = 0;

	note_unprepared(p);
	for (size_t i = 0; i < p->request->n_claims; i++) {
		p->preparer->counts.refused += p->errors[i].text[0] != '\0';
		p->preparer->counts.prepared += p->errors[i].text[0] == '\0';
	}
	if (cdi && answer_build(p, cdi, &answer) == 0)
		packed = wire_pack(&answer.response.base, &len);
	if (packed)
		grpc_call_reply(p->call, packed, len);
	else
		grpc_call_fail(p->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	answer_release(&answer);
	preparation_free(p);
}

/* ---- one claim ---- */

/* The record comes first: whatever lies on the node for a claim has one. The grant comes before the CDI file,
 * which the container runtime reads: delivery_make(). */
static int make(const struct dra_deps *deps, struct node_claim *claim, struct error *err)
{
	int r = 0;

	if (*deps->node->problems.isolation)
		return error_set(err, EHOSTDOWN,
			"ResourceClaim %s/%.100s: its containers cannot be limited: %.300s",
			claim->namespace_, claim->name, deps->node->problems.isolation);
	if (!claim->saved)
		r = record_write(deps->state_dir, claim, err);
	if (r == 0)
		r = delivery_make(deps->delivery, &claim->stand_in, CLAIM_CONTAINER, true, err);
	return r;
}

static void remove_all(const struct dra_deps *deps, const char *uid)
{
	/* No call of the kubelet reaches what a pod has. */
	if (node_pods_by_uid(&deps->node->pods, uid))
		return;
	delivery_remove(deps->delivery, uid);
	record_remove(deps->state_dir, uid);
	node_claims_remove(deps->node, uid);
}

/* What runs with it keeps its files and its memory until the container runtime reports the end: gone.h. */
static void release_claim(const struct dra_deps *deps, struct node_claim *claim)
{
	struct error err;

	if (!claim->released_ns)
		claim->released_ns = monotonic_ns();
	if (record_write(deps->state_dir, claim, &err) < 0)
		log_warning("%s", err.text);
}

/* An earlier claim of this name is over, also if the kubelet does not say so. */
static void release_earlier(
	const struct dra_deps *deps, const struct node_claim *claim, const struct claim *reserved)
{
	struct node_claim *other;

	table_for_each (&deps->node->claims, cursor, other) {
		if (other == claim || !node_claim_has_name_of(other, claim))
			continue;
		node_claim_drop_users_of(other, reserved);
		release_claim(deps, other);
	}
}

/* Takes `decided` over, which `as` is on this node. A claim that is prepared already stays as it is, and only
 * what is missing is made. */
static int prepare_decided(
	const struct dra_deps *deps, const struct claim *as, struct node_claim *decided, struct error *err)
{
	struct node_claim *claim = node_claims_by_uid(deps->node, decided->uid);
	bool is_new = !claim || !node_claim_same(claim, decided);
	int r;

	if (is_new && claim && claim->n_users && !claim->released_ns)
		release_claim(deps, claim);
	if (is_new && claim && claim->released_ns) {
		node_claim_free(decided);
		return error_set(err, EAGAIN,
			"ResourceClaim %s/%.100s: containers run with what was allocated to it before: it waits until they end",
			claim->namespace_, claim->name);
	}
	if (is_new) {
		node_claims_meet(deps->node, decided);
		if (deps->allow_disable)
			node_claim_settle(deps->node, decided);
		r = node_claim_fits(deps->node, decided, err);
		if (r < 0) {
			node_claim_free(decided);
			return r;
		}
		/* It was allocated anew: nothing of the allocation before may stay. */
		if (claim)
			remove_all(deps, decided->uid);
		if (node_claims_put(deps->node, decided) < 0) {
			node_claim_free(decided);
			return error_set(err, ENOMEM, "out of memory");
		}
		claim = decided;
		release_earlier(deps, claim, as);
	} else {
		node_claim_free(decided);
	}
	claim->saved &= claim->released_ns == 0;
	claim->released_ns = 0;
	claim->lingers = false;
	claim->confirmed = true;
	claim->look_ns = 0;
	r = make(deps, claim, err);
	if (r < 0 && is_new) {
		error_prefix(err, "nothing is prepared");
		remove_all(deps, claim->uid);
	}
	return r;
}

static int read_claim(
	const Dra__Claim *asked, const struct kube_response *response, struct claim *claim, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	int r;

	if (response->result < 0 || response->status >= 300)
		return error_set(err, EIO, "ResourceClaim %s/%.100s: the API server does not give it: %.250s",
			asked->namespace_, asked->name, response->text);
	if (response->body_len > ANSWER_MAX)
		return error_set(err, EMSGSIZE,
			"ResourceClaim %s/%.100s: the answer of the API server has %zu bytes, more than %zu",
			asked->namespace_, asked->name, response->body_len, ANSWER_MAX);
	r = json_parse(response->body, response->body_len, &object, err);
	if (r < 0) {
		error_prefix(err, "ResourceClaim %s/%.100s: the answer of the API server is not JSON",
			asked->namespace_, asked->name);
		return r;
	}
	r = claim_from_json(object, claim, err);
	if (r < 0)
		return r;
	if (strcmp(claim->uid, asked->uid) != 0 || strcmp(claim->name, asked->name) != 0 ||
		strcmp(claim->namespace_, asked->namespace_) != 0)
		return error_set(err, ESTALE,
			"ResourceClaim %s/%.100s: the API server has another one of this name (uid %s instead of %s)",
			asked->namespace_, asked->name, claim->uid, asked->uid);
	return 0;
}

static void preparation_go_on(struct preparation *p);

/* r: what became of the claim whose turn it is. */
static void end_claim(struct preparation *p, int r)
{
	struct error *err = &p->errors[p->next];

	claim_release(&p->claim);
	claim_init(&p->claim);
	if (r == -EAGAIN && monotonic_ns() < p->room_until_ns) {
		log_debug("%s", err->text);
		loop_timer_set(p->again, ROOM_AGAIN_NS);
		return;
	}
	if (r < 0)
		log_warning("%s", err->text);
	else
		err->text[0] = '\0'; /* a function that succeeded may have used it */
	p->next++;
	p->preparer->deps->changed(p->preparer->deps->userdata);
	preparation_go_on(p);
}

static void on_judged(void *userdata, int r)
{
	struct preparation *p = userdata;
	const struct dra_deps *deps = p->preparer->deps;
	struct error *err = &p->errors[p->next];
	struct node_claim *decided = NULL;

	if (r == 0 && p->unprepared[p->next])
		r = refuse_unprepared(p->request->claims[p->next], err);
	if (r == 0)
		r = node_claim_decide(deps->node, &p->claim, deps->policy(deps->userdata), &decided, err);
	if (r == 0)
		r = prepare_decided(deps, &p->claim, decided, err);
	end_claim(p, r);
}

static void on_claim(void *userdata, const struct kube_response *response)
{
	struct preparation *p = userdata;
	struct error *err = &p->errors[p->next];
	int r;

	p->get = NULL;
	claim_init(&p->claim);
	r = read_claim(p->request->claims[p->next], response, &p->claim, err);
	if (r < 0)
		end_claim(p, r);
	else
		judge_start(&p->judge, &p->claim, err);
}

static int ask(struct preparation *p, const Dra__Claim *claim, struct error *err)
{
	const struct node_registry *node = p->preparer->deps->node;
	char path[PATH_SIZE];
	int r = check_names(claim, err);

	if (r < 0)
		return r;
	if (node->in_force != GPU_MODE_DRA)
		return error_set(err, EINVAL,
			"ResourceClaim %s/%.100s: this node is in the mode \"%s\" and prepares no claims: delete the pod",
			claim->namespace_, claim->name, gpu_mode_text(node->in_force));
	snprintf(path, sizeof(path), DRA_CLAIM_PATH_FORMAT, claim->namespace_, claim->name);
	r = kube_request(
		p->preparer->deps->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_claim, p, &p->get);
	return r < 0 ? error_set(err, -r, "ResourceClaim %s/%.100s: the API server cannot be asked: %s",
			       claim->namespace_, claim->name, strerror(-r))
		     : 0;
}

static void preparation_go_on(struct preparation *p)
{
	while (p->next < p->request->n_claims) {
		struct error *err = &p->errors[p->next];

		if (ask(p, p->request->claims[p->next], err) == 0)
			return; /* on_claim() goes on */
		log_warning("%s", err->text);
		p->next++;
	}
	preparation_end(p);
}

/* The claim is read again, because it may have been deleted meanwhile. */
static void on_again(void *userdata)
{
	preparation_go_on(userdata);
}

/* ---- calls ---- */

void preparer_prepare(struct preparer *preparer, struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct preparation *p = calloc(1, sizeof(*p));

	if (!p) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	p->preparer = preparer;
	p->call = call;
	p->judge = (struct judge){.deps = preparer->deps, .fn = on_judged, .userdata = p};
	wire_arena_init(&p->arena, ARENA_MAX);
	list_append(&preparer->calls, &p->item);
	p->request = wire_unpack(&p->arena, &dra__prepare_request__descriptor, message, len);
	if (p->request && p->request->n_claims <= CLAIMS_MAX) {
		p->errors = calloc(p->request->n_claims + 1, sizeof(*p->errors));
		p->unprepared = calloc(p->request->n_claims + 1, sizeof(*p->unprepared));
	}
	p->room_until_ns = monotonic_ns() + ROOM_WITHIN_NS;
	if (p->errors && p->unprepared && loop_add_timer(preparer->deps->loop, on_again, p, &p->again) == 0) {
		preparation_go_on(p);
		return;
	}
	grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a NodePrepareResourcesRequest");
	preparation_free(p);
}

void preparer_closed(struct preparer *preparer, struct grpc_call *call)
{
	list_for_each_safe (item, after, &preparer->calls) {
		struct preparation *p = list_entry(item, struct preparation, item);

		if (p->call == call)
			preparation_free(p);
	}
}

void preparer_remove(struct preparer *preparer, const char *uid)
{
	remove_all(preparer->deps, uid);
	/* Calls that wait may have room now. */
	list_for_each_safe (item, after, &preparer->calls) {
		struct preparation *p = list_entry(item, struct preparation, item);

		if (p->again && !p->get && !p->judge.get)
			loop_timer_set(p->again, 0);
	}
}

/* Kubelets before 1.37 unprepare a claim that is still in use: one pod of it is deleted, and another has just
 * been added (kubernetes/kubernetes pull requests 140212 and 140527). So the container runtime is asked first
 * whether something of the claim runs: gone.h. */
static void release(struct preparer *preparer, const char *uid)
{
	struct node_claim *claim = node_claims_by_uid(preparer->deps->node, uid);

	list_for_each (item, &preparer->calls) {
		struct preparation *p = list_entry(item, struct preparation, item);

		for (size_t i = p->next; i < p->request->n_claims; i++)
			p->unprepared[i] |= strcmp(p->request->claims[i]->uid, uid) == 0;
	}
	if (claim && claim->n_users)
		release_claim(preparer->deps, claim);
	else
		preparer_remove(preparer, uid);
}

void preparer_unprepare(struct preparer *preparer, struct grpc_call *call, const uint8_t *message, size_t len)
{
	_cleanup_free_ Dra__UnpreparedEntry *entries = NULL;
	_cleanup_free_ Dra__UnpreparedEntry **list = NULL;
	_cleanup_free_ Dra__Unprepared *claims = NULL;
	_cleanup_free_ uint8_t *packed = NULL;
	_cleanup_arena_ struct wire_arena arena;
	Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;
	const Dra__UnprepareRequest *request;
	size_t n;

	wire_arena_init(&arena, ARENA_MAX);
	request = wire_unpack(&arena, &dra__unprepare_request__descriptor, message, len);
	if (!request || request->n_claims > CLAIMS_MAX) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a NodeUnprepareResourcesRequest");
		return;
	}
	n = request->n_claims;
	entries = calloc(n + 1, sizeof(*entries));
	list = calloc(n + 1, sizeof(Dra__UnpreparedEntry *));
	claims = calloc(n + 1, sizeof(*claims));
	for (size_t i = 0; entries && list && claims && i < n; i++) {
		dra__unprepared_entry__init(&entries[i]);
		dra__unprepared__init(&claims[i]);
		list[i] = &entries[i];
		entries[i].key = request->claims[i]->uid;
		entries[i].value = &claims[i];
		if (!is_uid(request->claims[i]->uid)) {
			claims[i].error = (char *)"the kubelet names a claim that cannot exist";
			continue;
		}
		release(preparer, request->claims[i]->uid);
		preparer->counts.unprepared++;
	}
	response.claims = list;
	response.n_claims = n;
	packed = entries && list && claims ? wire_pack(&response.base, &len) : NULL;
	if (packed)
		grpc_call_reply(call, packed, len);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	preparer->deps->changed(preparer->deps->userdata);
}

const struct dra_counts *preparer_counts(const struct preparer *preparer)
{
	return &preparer->counts;
}

int preparer_new(const struct dra_deps *deps, struct preparer **ret_preparer)
{
	struct preparer *preparer = calloc(1, sizeof(*preparer));

	if (!preparer)
		return -ENOMEM;
	preparer->deps = deps;
	list_init(&preparer->calls);
	records_load(deps->state_dir, deps->node);
	*ret_preparer = preparer;
	return 0;
}

void preparer_free(struct preparer *preparer)
{
	free(preparer);
}
