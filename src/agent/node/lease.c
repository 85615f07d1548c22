#include "agent/node/lease.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/micro-time.h"
#include "kube/names.h"
#include "net/loop.h"
#include "node/registry.h"

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/" NAMESPACE_SYSTEM "/leases"
#define DURATION_S 40
#define RENEW_NS (10 * NS_PER_S)
#define AGAIN_NS (2 * NS_PER_S)
#define FIRST_NS (100 * NS_PER_MS) /* the kubelet comes first */
#define TIMEOUT_MS 5000

struct lease {
	struct kube_client *client;
	const struct node_registry *node;
	struct loop_timer *timer;
	struct kube_request *request;
	bool missing; /* the API server says that the Lease does not exist: it must be created */
	bool complained;
};

static void lease_ended(struct lease *lease, const struct kube_response *response)
{
	bool ok = response->result == 0 && response->status < 300;

	if (!ok && !lease->complained)
		log_warning("cannot renew the Lease %s/" LEASE_NODE_PREFIX "%s: %s; trying again",
			NAMESPACE_SYSTEM, lease->node->name, response->text);
	lease->complained = !ok;
	loop_timer_set(lease->timer, ok ? RENEW_NS : AGAIN_NS);
}

static void on_created(void *userdata, const struct kube_response *response)
{
	struct lease *lease = userdata;

	lease->request = NULL;
	lease->missing = false; /* a conflict: another client created it meanwhile */
	lease_ended(lease, response);
}

static void on_renewed(void *userdata, const struct kube_response *response)
{
	struct lease *lease = userdata;

	lease->request = NULL;
	if (response->result == 0 && response->status == 404 && !lease->missing) {
		lease->missing = true;
		loop_timer_set(lease->timer, 0);
		return;
	}
	lease_ended(lease, response);
}

static int lease_create(struct lease *lease)
{
	const char *node = lease->node->name;
	char body[2048], at[MICRO_TIME_SIZE];

	/* The Node is its owner, so it is removed with the node. */
	snprintf(body, sizeof(body),
		"{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"
		"\"" LEASE_NODE_PREFIX "%s\",\"namespace\":\"" NAMESPACE_SYSTEM
		"\",\"labels\":{\"" LEASE_NODE_LABEL "\":\"agent\"},\"ownerReferences\":[{\"apiVersion\":"
		"\"v1\",\"kind\":\"Node\",\"name\":\"%s\",\"uid\":\"%s\"}]},\"spec\":{\"holderIdentity\":"
		"\"%s\",\"leaseDurationSeconds\":%d,\"renewTime\":\"%s\"}}",
		node, node, lease->node->uid, node, DURATION_S, micro_time_text(realtime_ns(), at));
	return kube_request(lease->client, "POST", COLLECTION, KUBE_CONTENT_JSON, body, TIMEOUT_MS,
		on_created, lease, &lease->request);
}

static int lease_renew(struct lease *lease)
{
	const char *node = lease->node->name;
	char path[400], body[512], at[MICRO_TIME_SIZE];

	snprintf(path, sizeof(path), COLLECTION "/" LEASE_NODE_PREFIX "%s", node);
	snprintf(body, sizeof(body),
		"{\"spec\":{\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":%d,\"renewTime\":\"%s\"}}",
		node, DURATION_S, micro_time_text(realtime_ns(), at));
	return kube_request(lease->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body, TIMEOUT_MS,
		on_renewed, lease, &lease->request);
}

static void on_timer(void *userdata)
{
	struct lease *lease = userdata;
	const struct node_registry *node = lease->node;
	int r;

	loop_timer_set(lease->timer, NS_PER_S);
	if (lease->request || !node->serves || (lease->missing && !node->uid[0]))
		return;
	r = lease->missing ? lease_create(lease) : lease_renew(lease);
	if (r == 0)
		loop_timer_stop(lease->timer);
}

int lease_new(struct loop *loop, struct kube_client *client, const struct node_registry *node,
	struct lease **ret_lease)
{
	struct lease *lease = calloc(1, sizeof(*lease));
	int r;

	if (!lease)
		return -ENOMEM;
	lease->client = client;
	lease->node = node;
	r = loop_add_timer(loop, on_timer, lease, &lease->timer);
	if (r < 0) {
		free(lease);
		return r;
	}
	loop_timer_set(lease->timer, FIRST_NS);
	*ret_lease = lease;
	return 0;
}

void lease_free(struct lease *lease)
{
	if (!lease)
		return;
	kube_request_cancel(lease->request);
	loop_timer_remove(lease->timer);
	free(lease);
}
