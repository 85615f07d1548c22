#include "agent/dra/dra.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/runtime.h"
#include "agent/dra/gone.h"
#include "agent/dra/health-stream.h"
#include "agent/dra/prepare.h"
#include "agent/dra/publisher.h"
#include "agent/dra/record.h"
#include "agent/dra/service.h"
#include "agent/events.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/claims.h"
#include "node/registry.h"

#define PATIENCE_NS (10 * NS_PER_S) /* a kubelet that restarts may take that long */
#define REMIND_NS (300 * NS_PER_S)

struct dra {
	struct dra_deps deps;
	struct publisher *publisher;
	struct preparer *preparer;
	struct gone *gone;
	struct health_stream *health;
	struct service *service;
	char told[512];		 /* the problem of the mode that an Event was about */
	int64_t unregistered_ns; /* since when the kubelet has not known the driver; 0: it does */
	int64_t reminded_ns;
};

/* ---- the mode ---- */

static void say_that_it_cannot(struct dra *dra, const char *why)
{
	struct node_registry *node = dra->deps.node;
	char text[sizeof(dra->told)];

	snprintf(text, sizeof(text),
		"the label " LABEL_SCHEDULE
		"=dra asks for ResourceClaims, but %s; the node stays in the mode \"%s\". On this cluster use another mode: kubectl label node %.80s " LABEL_SCHEDULE
		"=core_mem --overwrite",
		why, gpu_mode_text(node->in_force), node->name);
	snprintf(node->problems.mode, sizeof(node->problems.mode), "%s", text);
	if (strcmp(text, dra->told) != 0)
		event_on_node(dra->deps.events, "GPUModeRefused", text);
	snprintf(dra->told, sizeof(dra->told), "%s", text);
}

void dra_follow_label(struct dra *dra)
{
	struct node_registry *node = dra->deps.node;
	enum publisher_support support;
	const char *text;

	if (node->labelled == GPU_MODE_DRA || node->in_force == GPU_MODE_DRA)
		publisher_start(dra->publisher);
	node->asked.mode = node->labelled;
	if (node->labelled != GPU_MODE_DRA) {
		dra->told[0] = '\0';
		return;
	}
	support = publisher_support(dra->publisher, &text);
	if (support != PUBLISHER_CAN)
		node->asked.mode = node->in_force;
	if (support == PUBLISHER_CANNOT) {
		say_that_it_cannot(dra, text);
	} else {
		node->problems.mode[0] = '\0';
		dra->told[0] = '\0';
	}
}

/* ---- the kubelet ---- */

static void open_or_close(struct dra *dra, struct error *err)
{
	/* Claims can be prepared in no other mode: it changes when the last one is unprepared. */
	if (dra->deps.node->in_force != GPU_MODE_DRA)
		service_close(dra->service);
	else if (runtime_answered(dra->deps.runtime))
		(void)service_open(dra->service, err);
	else
		error_set(err, EHOSTDOWN, "the container runtime does not answer");
}

static void say_that_it_is_unregistered(struct dra *dra, const char *why, int64_t now)
{
	char *text = dra->deps.node->problems.unregistered;

	snprintf(text, sizeof(dra->deps.node->problems.unregistered),
		"the kubelet does not have the driver " DRA_DRIVER
		": %.300s; no new claims go there. To mend it restart the kubelet of this node (systemctl restart kubelet); if that does not help, see its log",
		why);
	if (dra->reminded_ns && now - dra->reminded_ns < REMIND_NS)
		return;
	dra->reminded_ns = now;
	event_on_node(dra->deps.events, "GPUNotRegistered", text);
}

static void look_at_registration(struct dra *dra)
{
	struct node_registry *node = dra->deps.node;
	struct error err = {""};
	int64_t now = monotonic_ns();

	open_or_close(dra, &err);
	if (node->in_force != GPU_MODE_DRA)
		return;
	node->watched = service_is_registered(dra->service);
	if (node->watched || !node->serves || node->leaving) {
		if (node->problems.unregistered[0])
			log_info("the kubelet has the driver " DRA_DRIVER " again");
		node->problems.unregistered[0] = '\0';
		dra->unregistered_ns = dra->reminded_ns = 0;
		return;
	}
	if (!dra->unregistered_ns)
		dra->unregistered_ns = now;
	if (now - dra->unregistered_ns < PATIENCE_NS)
		return;
	say_that_it_is_unregistered(dra,
		err.text[0]			 ? err.text
		: *service_refusal(dra->service) ? service_refusal(dra->service)
						 : "it has not asked for it",
		now);
}

/* ---- the offer ---- */

void dra_offer(struct dra *dra, bool ready)
{
	const struct node_registry *node = dra->deps.node;
	bool wanted;

	look_at_registration(dra);
	health_stream_update(dra->health);
	if (!ready || node->in_force != GPU_MODE_DRA)
		return;
	/* What the driver says of the GPUs is not saved: the slice that an agent before this one has written
	 * stays until the driver has answered. */
	if (!*node->inventory.driver_version && node->inventory.n_gpus &&
		node->inventory.gpus[0].facts.healthy)
		return;
	wanted = node->open && node->serves && !*node->problems.isolation && !*node->problems.unregistered &&
		 (node->watched || publisher_is_out(dra->publisher));
	publisher_update(dra->publisher, wanted);
}

const struct dra_counts *dra_counts(const struct dra *dra)
{
	return preparer_counts(dra->preparer);
}

bool dra_is_offered(const struct dra *dra)
{
	return dra->deps.node->in_force == GPU_MODE_DRA && publisher_is_out(dra->publisher);
}

/* ---- the claims ---- */

void dra_tick(struct dra *dra)
{
	struct node_claim *claim;
	const struct node_claim *used;
	struct error err = {""};
	struct node_pod *pod;
	char text[900];

	/* Pods that come later may use a claim too. */
	table_for_each (&dra->deps.node->claims, cursor, claim)
		if (!claim->saved && claim->n_devices && record_write(dra->deps.state_dir, claim, &err) < 0)
			log_debug("%s; trying again", err.text);
	/* No call of the kubelet can be refused: the claim was prepared before the pod began to use it, or
	 * before a debug container of it. */
	while (!dra->deps.privileged_claims && (pod = node_claims_unlimited(dra->deps.node, &used))) {
		pod->reported.rights = true;
		snprintf(text, sizeof(text),
			"the limit of ResourceClaim %s/%.100s does not hold for this pod, which uses it: %s. Delete the pod, or take these rights from it",
			used->namespace_, used->name, pod->shown.rights.text);
		event_on_pod(dra->deps.events, &pod->facts, "GPUClaimNotLimited", text);
	}
	if (dra->deps.node->pods_listed)
		gone_look(dra->gone);
}

/* ---- life ---- */

static void on_change(void *userdata)
{
	struct dra *dra = userdata;

	if (dra->gone && dra->deps.node->pods_listed)
		gone_look_at_released(dra->gone);
	dra->deps.changed(dra->deps.userdata);
}

int dra_new(const struct dra_deps *deps, struct dra **ret_dra)
{
	struct dra *dra = calloc(1, sizeof(*dra));
	int r;

	if (!dra)
		return -ENOMEM;
	dra->deps = *deps;
	r = publisher_new(deps->loop, deps->client, deps->node, on_change, dra, &dra->publisher);
	if (r == 0)
		r = preparer_new(&dra->deps, &dra->preparer);
	if (r == 0)
		r = gone_new(&dra->deps, dra->preparer, &dra->gone);
	if (r == 0)
		r = health_stream_new(deps->node, &dra->health);
	if (r == 0)
		r = service_new(&dra->deps, dra->preparer, dra->health, &dra->service);
	if (r < 0)
		dra_free(dra);
	else
		*ret_dra = dra;
	return r;
}

void dra_free(struct dra *dra)
{
	if (!dra)
		return;
	service_free(dra->service);
	health_stream_free(dra->health);
	gone_free(dra->gone);
	preparer_free(dra->preparer);
	publisher_free(dra->publisher);
	free(dra);
}
