#include "scheduler/lease.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/micro-time.h"
#include "kube/names.h"
#include "net/loop.h"
#include "scheduler/scheduler.h"

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/" NAMESPACE_SYSTEM "/leases"

#define DURATION_S 15
#define DURATION_MAX_S 3600
#define RENEW_NS (5 * NS_PER_S)
#define VALID_NS (10 * NS_PER_S)
#define RETRY_NS NS_PER_S
/* The wait after a conflict with the other replica, which has just renewed the Lease too. */
#define CONFLICT_NS (200 * NS_PER_MS)
#define TIMEOUT_MS 3000

struct ledger_lease {
	struct scheduler *scheduler;
	struct loop_timer *timer;
	struct kube_request *request;
	char identity[LEDGER_HOLDER_SIZE];
	struct ownership ownership; /* the state that the core receives */
	char renewed[40];	    /* as last seen */
	int64_t changed_ns;	    /* when this process saw a change of the holder or its renewal */
	int64_t sent_ns;	    /* when the renewal on its way was sent */
	uint64_t failures;
};

bool ledger_lease_is_valid_identity(const char *identity)
{
	const char *slash = strchr(identity, '/');

	if (!slash || slash == identity || !slash[1] || strlen(identity) >= LEDGER_HOLDER_SIZE)
		return false;
	for (const char *p = identity; *p; p++)
		if (p != slash && !islower((unsigned char)*p) && !isdigit((unsigned char)*p) &&
			!strchr("-.", *p))
			return false;
	return true;
}

bool ledger_lease_is_known(const struct ledger_lease *lease)
{
	return lease->ownership.owner != LEDGER_OWNER_UNKNOWN || lease->ownership.trouble[0];
}

int ledger_lease_path(const struct ledger_lease *lease, char *ret_path, size_t size)
{
	const char *slash = lease ? strchr(lease->identity, '/') : NULL;

	if (!slash)
		return -ENOENT;
	snprintf(ret_path, size, "/apis/coordination.k8s.io/v1/namespaces/%.*s/leases/%s",
		(int)(slash - lease->identity), lease->identity, slash + 1);
	return 0;
}

static void tell_core(struct ledger_lease *lease)
{
	struct core *core = &lease->scheduler->core;

	if (memcmp(&core->ownership, &lease->ownership, sizeof(lease->ownership)) != 0)
		core_set_ownership(core, &lease->ownership);
}

static void lease_look_again(struct ledger_lease *lease, int64_t in_ns)
{
	tell_core(lease);
	loop_timer_set(lease->timer, in_ns);
}

static void lease_failed(struct ledger_lease *lease, const char *verb, const char *text)
{
	char line[sizeof(lease->ownership.trouble)];

	lease->failures++;
	snprintf(line, sizeof(line), "cannot %s " LEDGER_LEASE_TEXT ": %s", verb, text);
	if (strcmp(line, lease->ownership.trouble) != 0) {
		log_warning("%s", line);
		memcpy(lease->ownership.trouble, line, sizeof(line));
	}
	lease_look_again(lease, RETRY_NS);
}

static void lease_set_owner(struct ledger_lease *lease, enum ledger_owner owner)
{
	if (owner == LEDGER_OWNER_US && lease->ownership.owner != LEDGER_OWNER_US)
		log_info("%s owns the GPU ledger, as we do", lease->identity);
	if (owner == LEDGER_OWNER_OTHER && lease->ownership.owner != LEDGER_OWNER_OTHER)
		log_warning("another scheduler owns the GPU ledger: %s (we are of %s)",
			lease->ownership.holder, lease->identity);
	lease->ownership.owner = owner;
}

static void on_written(void *userdata, const struct kube_response *response)
{
	struct ledger_lease *lease = userdata;

	lease->request = NULL;
	if (response->result == 0 && response->status == 409) {
		lease_look_again(lease, CONFLICT_NS);
		return;
	}
	if (response->result < 0 || response->status / 100 != 2) {
		lease_failed(lease, "renew", response->text);
		return;
	}
	/* Valid from the time of sending, because others may have seen the renewal that early. */
	lease->ownership.valid_until_ns = lease->sent_ns + VALID_NS;
	lease->ownership.trouble[0] = '\0';
	lease_set_owner(lease, LEDGER_OWNER_US);
	lease_look_again(lease, RENEW_NS);
}

static void lease_write(
	struct ledger_lease *lease, const char *method, const char *path, struct json_object *object)
{
	const char *text = json_text(object);
	int r;

	tell_core(lease);
	lease->sent_ns = monotonic_ns();
	r = text ? kube_request(lease->scheduler->client, method, path, KUBE_CONTENT_JSON, text, TIMEOUT_MS,
			   on_written, lease, &lease->request)
		 : -ENOMEM;
	if (r < 0)
		lease_failed(lease, "renew", strerror(-r));
}

/* Writes the spec of a Lease that this process holds. What others have put into the object stays. */
static int lease_claim(const struct ledger_lease *lease, struct json_object *spec)
{
	bool ours = strcmp(lease->ownership.holder, lease->identity) == 0;
	int64_t transitions = -1;
	char now[MICRO_TIME_SIZE];

	micro_time_text(realtime_ns(), now);
	json_whole(json_member(spec, "leaseTransitions"), 0, INT32_MAX - 1, &transitions);
	if (json_set(spec, "holderIdentity", json_object_new_string(lease->identity)) < 0 ||
		json_set(spec, "leaseDurationSeconds", json_object_new_int(DURATION_S)) < 0 ||
		json_set(spec, "renewTime", json_object_new_string(now)) < 0)
		return -ENOMEM;
	if (ours)
		return 0;
	if (json_set(spec, "acquireTime", json_object_new_string(now)) < 0 ||
		json_set(spec, "leaseTransitions", json_object_new_int64(transitions + 1)) < 0)
		return -ENOMEM;
	return 0;
}

static void lease_create(struct ledger_lease *lease)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	struct json_object *metadata = json_object_new_object(), *spec = json_object_new_object();

	lease->ownership.holder[0] = '\0';
	if (json_set(object, "apiVersion", json_object_new_string("coordination.k8s.io/v1")) < 0 ||
		json_set(object, "kind", json_object_new_string("Lease")) < 0 ||
		json_set(object, "metadata", metadata) < 0 || json_set(object, "spec", spec) < 0 ||
		json_set(metadata, "name", json_object_new_string(LEASE_LEDGER)) < 0 ||
		json_set(metadata, "namespace", json_object_new_string(NAMESPACE_SYSTEM)) < 0 ||
		lease_claim(lease, spec) < 0)
		lease_failed(lease, "create", "out of memory");
	else
		lease_write(lease, "POST", COLLECTION, object);
}

static void lease_note(struct ledger_lease *lease, struct json_object *spec)
{
	const char *holder = json_member_string(spec, "holderIdentity");
	const char *renewed = json_member_string(spec, "renewTime");

	if (!holder)
		holder = "";
	if (!renewed || strlen(renewed) >= sizeof(lease->renewed))
		renewed = "";
	if (lease->changed_ns &&
		strncmp(lease->ownership.holder, holder, sizeof(lease->ownership.holder) - 1) == 0 &&
		strcmp(lease->renewed, renewed) == 0)
		return;
	snprintf(lease->ownership.holder, sizeof(lease->ownership.holder), "%s", holder);
	snprintf(lease->renewed, sizeof(lease->renewed), "%s", renewed);
	lease->changed_ns = monotonic_ns();
}

/* The holder's spec decides how long the Lease lasts. */
static bool lease_has_run_out(const struct ledger_lease *lease, struct json_object *spec)
{
	int64_t duration_s = DURATION_S;

	json_whole(json_member(spec, "leaseDurationSeconds"), 1, DURATION_MAX_S, &duration_s);
	return monotonic_ns() - lease->changed_ns > duration_s * NS_PER_S;
}

static void lease_decide(struct ledger_lease *lease, struct json_object *object)
{
	struct json_object *spec = json_member(object, "spec");

	if (!json_object_is_type(spec, json_type_object)) {
		spec = json_object_new_object();
		if (json_set(object, "spec", spec) < 0) {
			lease_failed(lease, "read", "out of memory");
			return;
		}
	}
	lease_note(lease, spec);
	if (lease->ownership.holder[0] && strcmp(lease->ownership.holder, lease->identity) != 0 &&
		!lease_has_run_out(lease, spec)) {
		lease->ownership.trouble[0] = '\0';
		lease_set_owner(lease, LEDGER_OWNER_OTHER);
		lease_look_again(lease, RENEW_NS);
	} else if (lease_claim(lease, spec) < 0) {
		lease_failed(lease, "renew", "out of memory");
	} else {
		lease_write(lease, "PUT", COLLECTION "/" LEASE_LEDGER, object);
	}
}

static void on_read(void *userdata, const struct kube_response *response)
{
	struct ledger_lease *lease = userdata;
	_cleanup_json_ struct json_object *object = NULL;

	lease->request = NULL;
	if (response->result == 0 && response->status == 404)
		lease_create(lease);
	else if (response->result < 0 || response->status != 200)
		lease_failed(lease, "read", response->text);
	else if (json_parse(response->body, response->body_len, &object, NULL) < 0 ||
		 !json_object_is_type(object, json_type_object))
		lease_failed(lease, "read", "the answer is not an object");
	else
		lease_decide(lease, object);
}

static void on_timer(void *userdata)
{
	struct ledger_lease *lease = userdata;
	int r = kube_request(lease->scheduler->client, "GET", COLLECTION "/" LEASE_LEDGER, NULL, NULL,
		TIMEOUT_MS, on_read, lease, &lease->request);

	if (r < 0)
		lease_failed(lease, "read", strerror(-r));
}

int ledger_lease_start(struct scheduler *scheduler, const char *identity, struct ledger_lease **ret_lease)
{
	struct ledger_lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return -ENOMEM;
	lease->scheduler = scheduler;
	lease->ownership = (struct ownership){.owner = LEDGER_OWNER_UNKNOWN};
	snprintf(lease->identity, sizeof(lease->identity), "%s", identity);
	if (loop_add_timer(scheduler->loop, on_timer, lease, &lease->timer) < 0) {
		free(lease);
		return -ENOMEM;
	}
	lease_look_again(lease, 0);
	*ret_lease = lease;
	return 0;
}

void ledger_lease_stop(struct ledger_lease *lease)
{
	if (!lease)
		return;
	kube_request_cancel(lease->request);
	loop_timer_remove(lease->timer);
	free(lease);
}

void ledger_lease_metrics(const struct ledger_lease *lease, struct metrics *page)
{
	int64_t renewed_ns, sent_ns;

	if (!lease)
		return;
	sent_ns = lease->ownership.valid_until_ns ? lease->ownership.valid_until_ns - VALID_NS : 0;
	renewed_ns = sent_ns > lease->changed_ns ? sent_ns : lease->changed_ns;
	metrics_one(page, "ration_ledger_owned", "gauge",
		"1 while this scheduler and its kube-scheduler own the ledger, so that filter answers.",
		lease->ownership.owner == LEDGER_OWNER_US);
	metrics_one(page, "ration_ledger_may_bind", "gauge",
		"1 while the last renewal is young enough for a Binding to be sent.",
		ownership_may_bind(&lease->ownership, monotonic_ns(), NULL) == 0);
	metrics_one(page, "ration_ledger_lease_failures_total", "counter",
		"Times that the Lease could not be read or renewed.", lease->failures);
	if (!renewed_ns)
		return;
	metrics_family(page, "ration_ledger_lease_age_seconds", "gauge",
		"Time since the last renewal of the ledger's Lease that this replica has made or seen.");
	metrics_seconds(page, NULL, 0, monotonic_ns() - renewed_ns);
}
