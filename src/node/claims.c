#include "node/claims.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/pods.h"
#include "node/published.h"
#include "node/registry.h"

#define MIB (UINT64_C(1) << 20)
/* Programs of any kind: which of the driver's files they need is not known when a claim is prepared. */
#define CAPABILITIES "all"

/* ---- one claim ---- */

struct node_claim *node_claim_new(const char *uid, const char *namespace_, const char *name)
{
	struct node_claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	snprintf(claim->uid, sizeof(claim->uid), "%s", uid);
	snprintf(claim->namespace_, sizeof(claim->namespace_), "%s", namespace_);
	snprintf(claim->name, sizeof(claim->name), "%s", name);
	pod_facts_init(&claim->stand_in.facts);
	return claim;
}

void node_claim_free(struct node_claim *claim)
{
	if (!claim)
		return;
	for (size_t i = 0; i < claim->n_users; i++)
		free(claim->users[i].container);
	free(claim->users);
	free(claim->devices);
	pod_shown_release(&claim->stand_in.shown);
	pod_facts_release(&claim->stand_in.facts);
	free(claim);
}

int node_claim_add(struct node_claim *claim, const struct claim_device *device)
{
	struct claim_device *grown = reallocarray(
		claim->devices, claim->n_devices + 1, sizeof(*claim->devices));

	if (!grown)
		return -ENOMEM;
	claim->devices = grown;
	grown[claim->n_devices++] = *device;
	return 0;
}

/* What a claim has of one GPU by all its devices. */
struct amount {
	uint64_t mib;
	uint32_t core;
	size_t n_claims; /* 1, unless amounts were added */
};

static struct amount amount_on(const struct node_claim *claim, const char *uuid)
{
	struct amount amount = {0};

	for (size_t i = 0; i < claim->n_devices; i++) {
		if (strcmp(claim->devices[i].uuid, uuid) != 0)
			continue;
		amount.mib += claim->devices[i].mib;
		amount.core += claim->devices[i].core;
		amount.n_claims = 1;
	}
	return amount;
}

/* A grant names a GPU once. */
static int place(struct node_claim *claim, struct placement *placement, struct container_request *request)
{
	placement->unit_mib = 1;
	for (size_t i = 0; i < claim->n_devices; i++) {
		const char *uuid = claim->devices[i].uuid;
		const struct container_placement *placed = placement_find(placement, CLAIM_CONTAINER);
		struct amount amount = amount_on(claim, uuid);
		int r;

		if (placed && container_share(placed, uuid))
			continue;
		r = placement_add(placement, CLAIM_CONTAINER, uuid, (uint32_t)amount.mib, amount.core);
		if (r < 0)
			return r;
		request->units += (uint32_t)amount.mib;
		request->core += amount.core;
	}
	return 0;
}

static int add_weight(struct node_claim *claim)
{
	struct power_facts *power = claim->weight ? calloc(1, sizeof(*power)) : NULL;

	if (!claim->weight)
		return 0;
	claim->stand_in.shown.power = power;
	claim->stand_in.shown.n_power = power != NULL;
	if (!power)
		return -ENOMEM;
	power->weight = claim->weight;
	power->container = strdup(CLAIM_CONTAINER);
	return power->container ? 0 : -ENOMEM;
}

static int add_spec(struct node_claim *claim)
{
	struct container_spec *spec = calloc(1, sizeof(*spec));

	if (!spec)
		return -ENOMEM;
	claim->stand_in.shown.containers = spec;
	claim->stand_in.shown.n_containers = 1;
	spec->name = strdup(CLAIM_CONTAINER);
	spec->capabilities = strdup(CAPABILITIES);
	spec->capabilities_by_spec = true;
	spec->asks_for_no_limit = claim->unlimited;
	return spec->name && spec->capabilities ? 0 : -ENOMEM;
}

int node_claim_complete(struct node_claim *claim)
{
	struct pod_facts *facts = &claim->stand_in.facts;
	struct container_request *request = calloc(1, sizeof(*request));

	if (!request)
		return -ENOMEM;
	request->kind = CONTAINER_MAIN;
	request->name = strdup(CLAIM_CONTAINER);
	facts->request.containers = request;
	facts->request.n_containers = facts->request.instances = 1;
	facts->request.unit_mib = 1;
	facts->uid = strdup(claim->uid);
	facts->namespace_ = strdup(claim->namespace_);
	facts->name = strdup(claim->name);
	if (!request->name || !facts->uid || !facts->namespace_ || !facts->name ||
		place(claim, &facts->placement, request) < 0)
		return -ENOMEM;
	request->asked = request->units;
	facts->request.units = facts->request.asked = request->units;
	facts->request.core = request->core;
	facts->has_placement = claim->n_devices > 0;
	return add_spec(claim) < 0 ? -ENOMEM : add_weight(claim);
}

static bool is_user(const struct node_claim *claim, const char *pod_uid, const char *container)
{
	for (size_t i = 0; i < claim->n_users; i++)
		if (strcmp(claim->users[i].pod_uid, pod_uid) == 0 &&
			(!container || strcmp(claim->users[i].container, container) == 0))
			return true;
	return false;
}

int node_claim_use(struct node_claim *claim, const char *pod_uid, const char *container)
{
	struct claim_user *grown, user = {.container = NULL};

	if (is_user(claim, pod_uid, container))
		return 0;
	if (claim->n_users >= CLAIM_USERS_MAX)
		return -E2BIG;
	grown = reallocarray(claim->users, claim->n_users + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	claim->users = grown;
	snprintf(user.pod_uid, sizeof(user.pod_uid), "%s", pod_uid);
	user.container = strdup(container);
	if (!user.container)
		return -ENOMEM;
	grown[claim->n_users++] = user;
	claim->saved = false;
	return 0;
}

static bool device_equal(const struct claim_device *a, const struct claim_device *b)
{
	return strcmp(a->request, b->request) == 0 && strcmp(a->pool, b->pool) == 0 &&
	       strcmp(a->device, b->device) == 0 && strcmp(a->share_id, b->share_id) == 0 &&
	       strcmp(a->uuid, b->uuid) == 0 && a->mib == b->mib && a->core == b->core;
}

bool node_claim_same(const struct node_claim *a, const struct node_claim *b)
{
	if (a->n_devices != b->n_devices || a->weight != b->weight)
		return false;
	for (size_t i = 0; i < a->n_devices; i++)
		if (!device_equal(&a->devices[i], &b->devices[i]))
			return false;
	return true;
}

bool node_claim_holds(const struct node_claim *known, const struct claim *claim)
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

/* ---- the decision ---- */

static const struct gpu *find_gpu(const struct inventory *inventory, const char *device)
{
	char name[PUBLISHED_NAME_SIZE];

	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (published_name(inventory->gpus[i].facts.uuid, name) == 0 && strcmp(name, device) == 0)
			return &inventory->gpus[i];
	return NULL;
}

static int check_amount(const struct gpu *gpu, const struct claim_result *result, struct error *err)
{
	if (result->memory % MIB)
		return error_set(err, EINVAL, "request %s: %" PRIu64 " bytes of memory are not whole MiB",
			result->request, result->memory);
	if (!result->memory || result->memory / MIB > gpu->facts.mib)
		return error_set(err, EINVAL,
			"request %s: %" PRIu64 " MiB of memory are allocated on GPU %d, which has %" PRIu64,
			result->request, result->memory / MIB, gpu->facts.index, gpu->facts.mib);
	if (result->cores > CORE_PER_GPU)
		return error_set(err, EINVAL,
			"request %s: %u percent of the computing power of GPU %d are allocated",
			result->request, result->cores, gpu->facts.index);
	return 0;
}

static int check_parameters(const struct gpu_config *config, const struct claim_result *result,
	enum share_policy policy, struct error *err)
{
	if (config->has_policy && config->policy != policy)
		return error_set(err, EINVAL,
			"request %s: the parameters ask for the policy %d (%s), and this node follows %d (%s)",
			result->request, (int)config->policy, share_policy_name(config->policy), (int)policy,
			share_policy_name(policy));
	return 0;
}

static int decide_result(const struct node_registry *node, const struct claim *claim,
	const struct claim_result *result, enum share_policy policy, struct node_claim *decided,
	struct error *err)
{
	const struct gpu *gpu = find_gpu(&node->inventory, result->device);
	struct gpu_config config = claim_config_of(claim, result);
	struct claim_device device = {.core = result->cores};
	/* A claim that is prepared keeps what it has, as everything that runs on an unhealthy GPU does. */
	bool is_new = !node_claims_by_uid(node, claim->uid);
	int r;

	if (result->admin_access)
		return error_set(
			err, EINVAL, "request %s: ration gives no admin access to GPUs", result->request);
	if (strcmp(result->pool, node->name) != 0)
		return error_set(err, EINVAL, "request %s: device %s is in the pool %.100s, not on this node",
			result->request, result->device, result->pool);
	if (!gpu)
		return error_set(err, EINVAL,
			"request %s: GPU %s is not on this node (any more): delete the pod, so that another one is allocated",
			result->request, result->device);
	if (is_new && !gpu->facts.healthy)
		return error_set(err, EINVAL, "request %s: GPU %d (%s) is not healthy: %s", result->request,
			gpu->facts.index, gpu->facts.uuid, gpu->details.reason);
	r = check_amount(gpu, result, err);
	if (r == 0 && is_new)
		r = check_parameters(&config, result, policy, err);
	if (r < 0)
		return r;
	device.mib = (uint32_t)(result->memory / MIB);
	snprintf(device.request, sizeof(device.request), "%.*s", (int)strcspn(result->request, "/"),
		result->request);
	memcpy(device.pool, result->pool, sizeof(device.pool));
	memcpy(device.device, result->device, sizeof(device.device));
	memcpy(device.share_id, result->share_id, sizeof(device.share_id));
	memcpy(device.uuid, gpu->facts.uuid, sizeof(device.uuid));
	if (config.weight)
		decided->weight = config.weight;
	/* One limit is for all devices of the claim: a class that allows nothing counts. */
	decided->may_disable = config.allow_disable && (decided->may_disable || !decided->n_devices);
	return node_claim_add(decided, &device) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int decide_all(const struct node_registry *node, const struct claim *claim, enum share_policy policy,
	struct node_claim *decided, struct error *err)
{
	if (!claim->allocated)
		return error_set(err, EINVAL, "it is not allocated");
	for (size_t i = 0; i < claim->n_results; i++) {
		int r = claim->results[i].ours
				? decide_result(node, claim, &claim->results[i], policy, decided, err)
				: 0;

		if (r < 0)
			return r;
	}
	if (!decided->n_devices)
		return error_set(err, EINVAL, "none of its devices is of this driver%s%s",
			claim->n_results ? ", but of " : "",
			claim->n_results ? claim->results[0].driver : "");
	return node_claim_complete(decided) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

int node_claim_decide(const struct node_registry *node, const struct claim *claim, enum share_policy policy,
	struct node_claim **ret_claim, struct error *err)
{
	struct node_claim *decided = node_claim_new(claim->uid, claim->namespace_, claim->name);
	int r = decided ? decide_all(node, claim, policy, decided, err)
			: error_set(err, ENOMEM, "out of memory");

	if (r == 0) {
		*ret_claim = decided;
		return 0;
	}
	error_prefix(err, "ResourceClaim %s/%.100s", claim->namespace_, claim->name);
	node_claim_free(decided);
	return r;
}

void node_claim_settle(const struct node_registry *node, struct node_claim *claim)
{
	bool all = claim->n_users > 0;

	for (size_t i = 0; i < claim->n_users; i++) {
		const struct node_pod *pod = node_pods_by_uid(&node->pods, claim->users[i].pod_uid);

		all &= pod && node_pod_asks_for_no_limit(pod, claim->users[i].container);
	}
	claim->unlimited = claim->may_disable && all;
	claim->stand_in.shown.containers[0].asks_for_no_limit = claim->unlimited;
}

static struct amount amount_of_others(
	const struct node_registry *node, const struct node_claim *claim, const char *uuid)
{
	struct amount sum = amount_on(claim, uuid);
	const struct node_claim *other;

	table_for_each (&node->claims, cursor, other) {
		struct amount amount = amount_on(other, uuid);

		if (strcmp(other->uid, claim->uid) == 0)
			continue;
		sum.mib += amount.mib;
		sum.core += amount.core;
		sum.n_claims += amount.n_claims;
	}
	return sum;
}

int node_claim_check_pod(const struct claim *claim, const char *pod, const char *rights, struct error *err)
{
	if (!*rights)
		return 0;
	return error_set(err, EPERM, "ResourceClaim %s/%.100s: nothing is prepared: pod %.100s: %s",
		claim->namespace_, claim->name, pod, rights);
}

static int check_container(const struct node_registry *node, const struct node_claim *claim,
	const struct claim_user *user, struct error *err)
{
	const struct node_claim *other;

	table_for_each (&node->claims, cursor, other)
		if (strcmp(other->uid, claim->uid) != 0 && !node_claim_has_name_of(other, claim) &&
			is_user(other, user->pod_uid, user->container))
			return error_set(err, EBUSY,
				"ResourceClaim %s/%.100s: container %.100s uses the claim %.100s too, and a container can have one claim of "
				"gpu.ration.dev only: make them requests of one claim",
				claim->namespace_, claim->name, user->container, other->name);
	return 0;
}

static int check_number(const struct node_registry *node, const struct node_claim *claim, struct error *err)
{
	bool is_new = !node_claims_by_uid(node, claim->uid);

	if (node->claims.count + is_new > CLAIMS_PER_NODE_MAX)
		return error_set(err, EAGAIN,
			"ResourceClaim %s/%.100s: the node has %zu prepared claims, and takes no more than %d: it waits until others are unprepared",
			claim->namespace_, claim->name, node->claims.count, CLAIMS_PER_NODE_MAX);
	for (size_t i = 0; i < claim->n_devices; i++) {
		struct amount sum = amount_of_others(node, claim, claim->devices[i].uuid);

		if (sum.n_claims > CLAIMS_PER_GPU_MAX)
			return error_set(err, EAGAIN,
				"ResourceClaim %s/%.100s: GPU %s has %zu prepared claims, and takes no more than %d: it waits until others are unprepared",
				claim->namespace_, claim->name, claim->devices[i].uuid, sum.n_claims - 1,
				CLAIMS_PER_GPU_MAX);
	}
	return 0;
}

int node_claim_fits(const struct node_registry *node, const struct node_claim *claim, struct error *err)
{
	int r = check_number(node, claim, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < claim->n_devices; i++) {
		const struct gpu *gpu = inventory_find(&node->inventory, claim->devices[i].uuid);
		struct amount sum = amount_of_others(node, claim, claim->devices[i].uuid);

		if (gpu && sum.mib <= gpu->facts.mib && sum.core <= CORE_PER_GPU)
			continue;
		return error_set(err, EAGAIN,
			"ResourceClaim %s/%.100s: GPU %d would be over its total, with %" PRIu64
			" of %" PRIu64
			" MiB and %u of 100 percent for claims: it waits until others are unprepared",
			claim->namespace_, claim->name, gpu ? gpu->facts.index : -1, sum.mib,
			gpu ? gpu->facts.mib : 0, sum.core);
	}
	for (size_t i = 0; r == 0 && i < claim->n_users; i++)
		r = check_container(node, claim, &claim->users[i], err);
	return r;
}

/* ---- the claims of the node ---- */

struct node_claim *node_claims_by_uid(const struct node_registry *node, const char *uid)
{
	return table_get(&node->claims, uid);
}

uint64_t node_claims_mib(const struct node_registry *node, const char *uuid)
{
	const struct node_claim *claim;
	uint64_t mib = 0;

	table_for_each (&node->claims, cursor, claim)
		mib += amount_on(claim, uuid).mib;
	return mib;
}

int node_claims_put(struct node_registry *node, struct node_claim *claim)
{
	struct node_claim *before = node_claims_by_uid(node, claim->uid);
	int r = table_set(&node->claims, claim->uid, claim);

	if (r == 0 && before != claim)
		node_claim_free(before);
	return r;
}

void node_claims_remove(struct node_registry *node, const char *uid)
{
	node_claim_free(table_remove(&node->claims, uid));
}

static void drop_user(struct node_claim *claim, size_t i)
{
	free(claim->users[i].container);
	claim->users[i] = claim->users[--claim->n_users];
}

static void forget_gone_users(const struct node_registry *node, struct node_claim *claim)
{
	for (size_t i = claim->n_users; i-- > 0;)
		if (!node_pods_by_uid(&node->pods, claim->users[i].pod_uid))
			drop_user(claim, i);
}

/* The claim was deleted while containers ran with it, and another one of its name was made. */
static bool has_a_successor(const struct node_registry *node, const struct node_claim *claim)
{
	const struct node_claim *other;

	table_for_each (&node->claims, cursor, other)
		if (claim->released_ns && !other->released_ns && node_claim_has_name_of(other, claim))
			return true;
	return false;
}

void node_claim_drop_users_of(struct node_claim *claim, const struct claim *reserved)
{
	for (size_t i = claim->n_users; i-- > 0;)
		if (claim_is_reserved_for(reserved, claim->users[i].pod_uid))
			drop_user(claim, i);
}

static void follow(const struct node_registry *node, struct node_claim *claim, const struct node_pod *pod)
{
	if (strcmp(claim->namespace_, pod->facts.namespace_) != 0)
		return;
	if (claim->n_users + pod->shown.n_claims > CLAIM_USERS_MAX)
		forget_gone_users(node, claim);
	/* If memory runs out, a later event of the pod repeats it. */
	for (size_t i = 0; i < pod->shown.n_claims; i++)
		if (strcmp(pod->shown.claims[i].claim, claim->name) == 0 && !has_a_successor(node, claim))
			(void)node_claim_use(claim, pod->facts.uid, pod->shown.claims[i].container);
}

void node_claims_follow(struct node_registry *node, const struct node_pod *pod)
{
	struct node_claim *claim;

	if (pod->shown.n_claims && !pod->facts.finished)
		table_for_each (&node->claims, cursor, claim)
			follow(node, claim, pod);
}

void node_claims_meet(const struct node_registry *node, struct node_claim *claim)
{
	const struct node_pod *pod;

	table_for_each (&node->pods.by_uid, cursor, pod)
		if (!pod->facts.finished)
			follow(node, claim, pod);
}

struct node_claim *node_claims_of(
	const struct node_registry *node, const char *pod_uid, const char *container)
{
	struct node_claim *claim, *found = NULL;

	table_for_each (&node->claims, cursor, claim) {
		if (!is_user(claim, pod_uid, container))
			continue;
		if (found && !container)
			return NULL;
		found = claim;
	}
	return found;
}

struct node_pod *node_claims_served(const struct node_registry *node, const char *uid)
{
	struct node_pod *pod = node_pods_by_uid(&node->pods, uid);
	struct node_claim *claim = pod ? NULL : node_claims_by_uid(node, uid);

	return claim ? &claim->stand_in : pod;
}

const struct node_pod *node_claims_reader(const struct node_registry *node, const char *uid)
{
	const struct node_claim *claim = node_claims_by_uid(node, uid);
	const struct node_pod *pod = node_pods_by_uid(&node->pods, uid);

	for (size_t i = 0; claim && !pod && i < claim->n_users; i++)
		pod = node_pods_by_uid(&node->pods, claim->users[i].pod_uid);
	return pod;
}

void node_claims_describe(const struct node_registry *node, const char *uid, const char *container,
	char buf[static NODE_CLAIM_TEXT_SIZE])
{
	const struct node_claim *claim = node_claims_by_uid(node, uid);

	snprintf(buf, NODE_CLAIM_TEXT_SIZE, "%s %.100s", claim ? "ResourceClaim" : "container",
		claim ? claim->name : container);
}

struct node_pod *node_claims_unlimited(const struct node_registry *node, const struct node_claim **ret_claim)
{
	const struct node_claim *claim;

	table_for_each (&node->claims, cursor, claim) {
		for (size_t i = 0; i < claim->n_users; i++) {
			struct node_pod *pod = node_pods_by_uid(&node->pods, claim->users[i].pod_uid);

			if (!pod || pod->facts.finished || !pod->shown.rights.text[0] || pod->reported.rights)
				continue;
			*ret_claim = claim;
			return pod;
		}
	}
	return NULL;
}

size_t node_claims_pending(const struct node_registry *node)
{
	const struct node_pod *pod;
	size_t n = 0;

	table_for_each (&node->pods.by_uid, cursor, pod)
		n += pod->shown.n_claims && !pod->facts.finished && !pod->facts.running;
	return n;
}
