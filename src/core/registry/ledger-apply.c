#include "core/registry/ledger-event.h"

#include <errno.h>

#include "core/registry/ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/resize.h"

int ledger_apply(struct ledger *ledger, const struct ledger_event *event)
{
	switch (event->verb) {
	case LEDGER_SET_NODE:
		return ledger_set_node(ledger, event->node);
	case LEDGER_REMOVE_NODE:
		ledger_remove_node(ledger, event->key, event->node_uid);
		return 0;
	case LEDGER_SET_POD:
		return ledger_set_pod(ledger, event->pod);
	case LEDGER_REMOVE_POD:
		ledger_remove_pod(ledger, event->key);
		return 0;
	case LEDGER_DELETE_POD:
		ledger_delete_pod(ledger, event->key, event->expires_ns);
		return 0;
	case LEDGER_AGENT_LOST:
		ledger_set_agent_lost(ledger, event->key, event->lost);
		return 0;
	case LEDGER_HOLD:
		return ledger_hold(ledger, event->pod, event->on, event->placement, event->expires_ns);
	case LEDGER_DROP_HOLD:
		ledger_drop_hold(ledger, event->key);
		return 0;
	case LEDGER_RESERVE:
		return ledger_reserve(ledger, event->pod, event->on, event->placement);
	case LEDGER_CONFIRM:
		ledger_confirm(ledger, event->key);
		return 0;
	case LEDGER_RELEASE:
		ledger_release_reservation(ledger, event->key);
		return 0;
	case LEDGER_NOMINATE:
		return ledger_nominate(ledger, event->pod, event->on, event->placement, event->expires_ns);
	case LEDGER_DROP_NOMINATION:
		ledger_drop_nomination(ledger, event->key);
		return 0;
	case LEDGER_RESIZE:
		return ledger_resize(ledger, event->key, event->placement, NULL);
	case LEDGER_RESIZE_CONFIRM:
		ledger_resize_confirm(ledger, event->key);
		return 0;
	case LEDGER_RESIZE_RELEASE:
		ledger_resize_release(ledger, event->key);
		return 0;
	default:
		return -EINVAL;
	}
}
