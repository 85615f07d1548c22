#include "agent/alive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/cri.pb-c.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "net/grpc-client.h"

#define ARENA_MAX ((size_t)64 << 20)
#define TIMEOUT_MS 5000
#define SANDBOX_READY 0
#define CONTAINER_CREATED 0
#define CONTAINER_RUNNING 1
#define CONTAINER_EXITED 2
/* kubelet: pkg/kubelet/types/labels.go at 1.36 */
#define LABEL_POD_UID "io.kubernetes.pod.uid"
#define LABEL_CONTAINER "io.kubernetes.container.name"
/* A container that was created this long before the kubelet started counts as started before it: no running
 * container is taken to have needed more from its creation to its start. */
#define START_TAKES_NS (2 * NS_PER_S)

struct alive {
	struct grpc_client *cri;
	struct grpc_client_call *call;
	char *kubelet_socket;
	int64_t kubelet_since_ns; /* since 1970; 0: no kubelet is there */
	struct alive_answer answer;
	alive_fn fn;
	void *userdata;
};

const char *alive_key(const char *uid, const char *container, char ret_key[ALIVE_KEY_SIZE])
{
	snprintf(ret_key, ALIVE_KEY_SIZE, "%s/%s", uid, container);
	return ret_key;
}

static void answer_init(struct alive_answer *answer)
{
	table_init(&answer->uids);
	table_init(&answer->running);
}

static void answer_release(struct alive_answer *answer)
{
	table_release(&answer->uids);
	table_release(&answer->running);
}

int alive_new(struct grpc_client *cri, const char *kubelet_socket, struct alive **ret_alive)
{
	struct alive *alive = calloc(1, sizeof(*alive));

	if (!alive)
		return -ENOMEM;
	answer_init(&alive->answer);
	alive->cri = cri;
	alive->kubelet_socket = strdup(kubelet_socket);
	if (!alive->kubelet_socket) {
		alive_free(alive);
		return -ENOMEM;
	}
	*ret_alive = alive;
	return 0;
}

void alive_free(struct alive *alive)
{
	if (!alive)
		return;
	grpc_client_cancel(alive->call);
	answer_release(&alive->answer);
	free(alive->kubelet_socket);
	free(alive);
}

static void alive_end(struct alive *alive, const char *text)
{
	struct alive_answer answer = alive->answer;
	alive_fn fn = alive->fn;

	answer_init(&alive->answer);
	alive->fn = NULL;
	fn(alive->userdata, text ? NULL : &answer, text);
	answer_release(&answer);
}

static int64_t made_at_ns(const char *socket)
{
	struct stat st;

	return stat(socket, &st) == 0 ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : 0;
}

static bool may_use_a_gpu(const struct alive *alive, const Runtime__V1__Container *container)
{
	if (container->state == CONTAINER_CREATED)
		return container->created_at >= alive->kubelet_since_ns;
	return container->state != CONTAINER_EXITED;
}

static const char *label(const Runtime__V1__Container *container, const char *key)
{
	for (size_t i = 0; i < container->n_labels; i++)
		if (strcmp(container->labels[i]->key, key) == 0)
			return container->labels[i]->value;
	return NULL;
}

static bool is_not_asked_for(const struct alive *alive, const Runtime__V1__Container *container)
{
	int64_t since_ns = alive->kubelet_since_ns;

	return container->state == CONTAINER_RUNNING && since_ns &&
	       (container->created_at < since_ns - START_TAKES_NS || container->created_at > since_ns);
}

static int add_containers(struct alive *alive, struct wire_arena *arena, const struct grpc_reply *reply)
{
	const Runtime__V1__ListContainersResponse *list = wire_unpack(
		arena, &runtime__v1__list_containers_response__descriptor, reply->message, reply->len);
	char key[ALIVE_KEY_SIZE];

	for (size_t i = 0; list && i < list->n_containers; i++) {
		const Runtime__V1__Container *container = list->containers[i];
		const char *uid = label(container, LABEL_POD_UID), *name = label(container, LABEL_CONTAINER);

		if (!uid || !may_use_a_gpu(alive, container))
			continue;
		if (table_set(&alive->answer.uids, uid, alive) < 0)
			return -ENOMEM;
		if (name && is_not_asked_for(alive, container) &&
			table_set(&alive->answer.running, alive_key(uid, name, key), alive) < 0)
			return -ENOMEM;
	}
	return list ? 0 : -EPROTO;
}

static int add_sandboxes(struct alive *alive, struct wire_arena *arena, const struct grpc_reply *reply)
{
	const Runtime__V1__ListPodSandboxResponse *list = wire_unpack(
		arena, &runtime__v1__list_pod_sandbox_response__descriptor, reply->message, reply->len);

	for (size_t i = 0; list && i < list->n_items; i++)
		if (list->items[i]->state == SANDBOX_READY && list->items[i]->metadata &&
			table_set(&alive->answer.uids, list->items[i]->metadata->uid, alive) < 0)
			return -ENOMEM;
	return list ? 0 : -EPROTO;
}

typedef int (*add_fn)(struct alive *alive, struct wire_arena *arena, const struct grpc_reply *reply);

static int alive_learn(struct alive *alive, const struct grpc_reply *reply, add_fn add)
{
	_cleanup_arena_ struct wire_arena arena;
	char text[600];
	int r;

	wire_arena_init(&arena, ARENA_MAX);
	alive->call = NULL;
	if (reply->result < 0 || reply->status != GRPC_OK) {
		alive_end(alive, grpc_reply_text(reply, text, sizeof(text)));
		return -EIO;
	}
	r = add(alive, &arena, reply);
	if (r < 0)
		alive_end(alive, "its answer makes no sense");
	return r;
}

static void on_containers(void *userdata, const struct grpc_reply *reply)
{
	struct alive *alive = userdata;

	if (alive_learn(alive, reply, add_containers) == 0)
		alive_end(alive, NULL);
}

/* Sandboxes first: what is started in one that was ready is then among the containers, too. */
static void on_sandboxes(void *userdata, const struct grpc_reply *reply)
{
	struct alive *alive = userdata;

	if (alive_learn(alive, reply, add_sandboxes) < 0)
		return;
	if (grpc_client_call(alive->cri, "/runtime.v1.RuntimeService/ListContainers", NULL, 0, TIMEOUT_MS,
		    on_containers, alive, &alive->call) < 0)
		alive_end(alive, "it does not listen");
}

int alive_ask(struct alive *alive, alive_fn fn, void *userdata)
{
	int r;

	if (alive->fn)
		return -EBUSY;
	r = grpc_client_call(alive->cri, "/runtime.v1.RuntimeService/ListPodSandbox", NULL, 0, TIMEOUT_MS,
		on_sandboxes, alive, &alive->call);
	if (r < 0)
		return r;
	alive->kubelet_since_ns = made_at_ns(alive->kubelet_socket);
	alive->fn = fn;
	alive->userdata = userdata;
	return 0;
}
