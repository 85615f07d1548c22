#include "agent/node/leave.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/node/state.h"
#include "agent/options.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/names.h"
#include "net/loop.h"
#include "node/registry.h"

#define TELL_TIMEOUT_MS 2000
#define SERVE_ON_NS (2 * NS_PER_S)

struct leave {
	struct loop *loop;
	bool answers;
	struct loop_timer *timer;
	struct kube_request *request;
};

static void on_timer(void *userdata)
{
	struct leave *leave = userdata;

	loop_quit(leave->loop, 0);
}

static void on_told(void *userdata, const struct kube_response *response)
{
	struct leave *leave = userdata;

	leave->request = NULL;
	if (response->result < 0 || response->status >= 300) {
		log_warning("cannot tell the scheduler that this agent goes: %s", response->text);
		loop_timer_set(leave->timer, 0); /* a wait of 2 s would change nothing */
		return;
	}
	if (!leave->answers) {
		log_info("no new pods come here");
		loop_timer_set(leave->timer, 0);
		return;
	}
	log_info("no new pods come here; serving for %d s what is on its way", (int)(SERVE_ON_NS / NS_PER_S));
	loop_timer_set(leave->timer, SERVE_ON_NS);
}

int leave_start(struct loop *loop, struct kube_client *client, struct node_registry *node, bool answers,
	struct leave **ret_leave)
{
	static const char body[] = "{\"metadata\":{\"annotations\":{\"" ANNOTATION_NODE_SERVING
				   "\":\"false\"}}}";
	struct leave *leave = calloc(1, sizeof(*leave));
	char path[300];
	int r;

	if (!leave)
		return -ENOMEM;
	leave->loop = loop;
	leave->answers = answers;
	r = loop_add_timer(loop, on_timer, leave, &leave->timer);
	if (r < 0) {
		free(leave);
		return r;
	}
	*ret_leave = leave;
	node->leaving = true;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", node->name);
	if (!node->serves || !client ||
		kube_request(client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body, TELL_TIMEOUT_MS, on_told,
			leave, &leave->request) < 0)
		loop_timer_set(leave->timer, 0);
	return 0;
}

void leave_free(struct leave *leave)
{
	if (!leave)
		return;
	kube_request_cancel(leave->request);
	loop_timer_remove(leave->timer);
	free(leave);
}

int leave_alone(const struct options *options)
{
	struct kube_client *client = NULL;
	struct node_registry node;
	struct leave *leave = NULL;
	struct error err = {""};
	struct loop *loop;
	struct state state;
	int r = loop_new(&loop);

	if (r < 0) {
		log_error("cannot create the event loop");
		return EXIT_FAILURE;
	}
	node_registry_init(&node, options->node_name);
	state_load(options->state_dir, options->unit_mib, &node.inventory, &state);
	node.in_force = state.mode;
	node_registry_decide(&node, 0);
	r = connect_new(loop, options->kubeconfig, &client, &err);
	if (r == 0)
		r = leave_start(loop, client, &node, false, &leave);
	if (r == 0)
		r = loop_run(loop);
	else
		log_error("cannot tell the scheduler that this agent goes: %s", err.text);
	leave_free(leave);
	kube_client_free(client);
	node_registry_release(&node);
	loop_free(loop);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int connect_new(struct loop *loop, const char *kubeconfig, struct kube_client **ret_client, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	int r;

	kube_config_init(&config);
	r = kube_config_load(kubeconfig, NULL, &config, err);
	if (r < 0)
		return r;
	return kube_client_new(loop, &config, "ration-agent/" RATION_VERSION, ret_client, err);
}
