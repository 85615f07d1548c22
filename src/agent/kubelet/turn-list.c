/* turn-list.c - reads the kubelet's list of pods after its start, to learn whose turn is over (node/turn.h).
 */
#include <stdlib.h>

#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/podresources.h"
#include "base/clock.h"
#include "net/loop.h"

#define SOON_NS (50 * NS_PER_MS)
#define AGAIN_NS NS_PER_S

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	struct kubelet *kubelet = userdata;

	kubelet->turn_call = NULL;
	if (!listing) {
		loop_timer_set(kubelet->turn_timer, AGAIN_NS);
		return;
	}
	listing_follow_turn(listing, &kubelet->deps.node->turn);
	listing_release(listing);
	free(listing);
}

static void on_timer(void *userdata)
{
	struct kubelet *kubelet = userdata;

	if (kubelet->turn_call ||
		podresources_list(kubelet->deps.podresources, on_listing, kubelet, &kubelet->turn_call) < 0)
		loop_timer_set(kubelet->turn_timer, AGAIN_NS);
}

int turn_list_start(struct kubelet *kubelet)
{
	int r = loop_add_timer(kubelet->deps.loop, on_timer, kubelet, &kubelet->turn_timer);

	if (r == 0)
		loop_timer_set(kubelet->turn_timer, 0);
	return r;
}

void turn_list_stop(struct kubelet *kubelet)
{
	podresources_cancel(kubelet->turn_call);
	kubelet->turn_call = NULL;
	loop_timer_remove(kubelet->turn_timer);
	kubelet->turn_timer = NULL;
}

void turn_list_begin(struct kubelet *kubelet)
{
	podresources_cancel(kubelet->turn_call); /* it may be the previous kubelet's */
	kubelet->turn_call = NULL;
	turn_begin(&kubelet->deps.node->turn);
	loop_timer_set(kubelet->turn_timer, SOON_NS);
}

void turn_list_refused(struct kubelet *kubelet)
{
	loop_timer_set(kubelet->turn_timer, SOON_NS);
}
