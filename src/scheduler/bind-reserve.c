/* The first half of a bind: the GPU is reserved, and the Binding that says so is written. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/placement/decide.h"
#include "core/registry/node-ledger.h"
#include "kube/annotations.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "scheduler/bind-internal.h"
#include "scheduler/binding.h"
#include "scheduler/gangs.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

/* What goes into the Binding; NULL: out of memory. */
static struct json_object *annotations_of(struct scheduler *scheduler, const struct bind *bind,
	const struct pod_facts *facts, struct placement *placement)
{
	const struct node_ledger *node = ledger_node(&scheduler->ledger, bind->what.node);
	struct json_object *annotations;

	/* Without it its containers see their own GPUs only. */
	if (facts->request.group)
		node_ledger_see_group(node, &facts->request, placement);
	annotations = placement_annotations(placement, &facts->request, node, realtime_ns());
	if (annotations && (gang_record(annotations, facts) < 0 ||
				   (gang_controller_is_forming(scheduler->gangs, bind->what.uid) &&
					   json_set(annotations, ANNOTATION_GANG,
						   json_object_new_string(GANG_FORMING)) < 0))) {
		json_object_put(annotations);
		return NULL;
	}
	return annotations;
}

/* The annotations of the pod as the watch has shown them last. Where it has a key already that the Binding
 * sets, both count. */
static int check_annotations(
	const struct pod_facts *facts, struct json_object *annotations, struct error *err)
{
	if (facts->annotations_size + annotations_size(annotations) <= ANNOTATIONS_MAX)
		return 0;
	return error_set(err, EINVAL,
		"the annotations of pod %s/%s have %zu bytes: with its GPU placement they would exceed the %zu that the API server allows; remove one: kubectl annotate pod %s -n %s KEY-",
		facts->namespace_, facts->name, facts->annotations_size, ANNOTATIONS_MAX, facts->name,
		facts->namespace_);
}

char *bind_reserve(
	struct scheduler *scheduler, struct bind *bind, const struct pod_facts *facts, struct error *err)
{
	_cleanup_placement_ struct placement placement;
	struct json_object *annotations;
	char reason[64], *text = NULL;
	int r;

	placement_init(&placement);
	if (policies_confirm(
		    scheduler->policies, bind->what.namespace_, bind->what.uid, bind->what.node, err) < 0)
		return NULL;
	r = decide_reserve(&scheduler->ledger, facts, bind->what.node, &placement);
	if (r > 0) {
		bind->refusal = BIND_NO_GPU;
		reject_reason_text((enum reject_reason)r, &facts->request, reason, sizeof(reason));
		error_set(err, ENOSPC, "%s on node %s (any more)", reason, bind->what.node);
		return NULL;
	}
	if (r < 0) {
		error_set(err, -r, "cannot reserve a GPU on node %s: %s", bind->what.node, strerror(-r));
		return NULL;
	}
	annotations = annotations_of(scheduler, bind, facts, &placement);
	error_set(err, ENOMEM, "out of memory");
	if (annotations && check_annotations(facts, annotations, err) == 0)
		text = binding_text(&bind->what, annotations);
	json_object_put(annotations);
	if (!text) {
		ledger_release_reservation(&scheduler->ledger, bind->what.uid);
	} else {
		record_bind(scheduler, facts, bind->what.node, &placement);
	}
	return text;
}
