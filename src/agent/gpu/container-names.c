#include "agent/gpu/container-names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cri.pb-c.h"
#include "agent/gpu/cgroup.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "net/grpc-client.h"

#define ARENA_MAX ((size_t)4 << 20)
#define TIMEOUT_MS 2000
#define AGAIN_NS (2 * NS_PER_S)	  /* after a failure */
#define ABSENT_NS (10 * NS_PER_S) /* an id that the runtime does not know yet, or never will */
#define NAMES_MAX 4096

/* kubelet: pkg/kubelet/types/labels.go at 1.36 */
#define LABEL_POD_UID "io.kubernetes.pod.uid"
#define LABEL_CONTAINER "io.kubernetes.container.name"

struct container_name {
	char id[CGROUP_ID_SIZE];
	char *uid, *name; /* NULL: not known */
	bool absent;	  /* the runtime has answered that it has no such container */
	int64_t ask_ns;	  /* do not ask before this time */
};

struct container_names {
	struct grpc_client *cri;
	struct grpc_client_call *call;
	char asked[CGROUP_ID_SIZE]; /* the id that the call is about */
	struct table by_id;
	bool complained;
	void (*changed)(void *userdata);
	void *userdata;
};

static void name_free(struct container_name *name)
{
	free(name->uid);
	free(name->name);
	free(name);
}

static void names_clear(struct container_names *names)
{
	struct container_name *name;

	table_for_each (&names->by_id, cursor, name)
		name_free(name);
	table_release(&names->by_id);
	table_init(&names->by_id);
}

int container_names_new(struct grpc_client *cri, void (*changed)(void *userdata), void *userdata,
	struct container_names **ret_names)
{
	struct container_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	table_init(&names->by_id);
	names->changed = changed;
	names->userdata = userdata;
	names->cri = cri;
	*ret_names = names;
	return 0;
}

void container_names_free(struct container_names *names)
{
	if (!names)
		return;
	grpc_client_cancel(names->call);
	names_clear(names);
	table_release(&names->by_id);
	free(names);
}

static const char *label(const Runtime__V1__Container *container, const char *key)
{
	for (size_t i = 0; i < container->n_labels; i++)
		if (strcmp(container->labels[i]->key, key) == 0)
			return container->labels[i]->value;
	return NULL;
}

static void names_learn(struct container_name *name, const uint8_t *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const Runtime__V1__ListContainersResponse *list;

	wire_arena_init(&arena, ARENA_MAX);
	list = wire_unpack(&arena, &runtime__v1__list_containers_response__descriptor, message, len);
	for (size_t i = 0; list && i < list->n_containers; i++) {
		const char *uid = label(list->containers[i], LABEL_POD_UID);
		const char *text = label(list->containers[i], LABEL_CONTAINER);

		if (strcmp(list->containers[i]->id, name->id) != 0 || !uid || !text || name->name)
			continue;
		name->uid = strdup(uid);
		name->name = strdup(text);
	}
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct container_names *names = userdata;
	struct container_name *name = table_get(&names->by_id, names->asked);
	bool failed = reply->result < 0 || reply->status != GRPC_OK;
	char text[600];

	names->call = NULL;
	if (failed && !names->complained)
		log_warning("cannot ask the container runtime for the name of container %s: %s; trying again",
			names->asked, grpc_reply_text(reply, text, sizeof(text)));
	names->complained = failed;
	if (name) {
		name->ask_ns = monotonic_ns() + (failed ? AGAIN_NS : ABSENT_NS);
		if (!failed)
			names_learn(name, reply->message, reply->len);
		name->absent = !failed && !name->name;
	}
	if (!failed)
		names->changed(names->userdata);
}

/* ListContainersRequest{filter: ContainerFilter{id}}: both are field 1 (k8s.io/cri-api, runtime.v1 at 1.36).
 */
static void names_ask(struct container_names *names, struct container_name *name)
{
	uint8_t message[4 + CGROUP_ID_SIZE];
	size_t len = strlen(name->id);
	int64_t now = monotonic_ns();

	if (names->call || now < name->ask_ns)
		return;
	message[0] = message[2] = 0x0a;
	message[1] = (uint8_t)(len + 2);
	message[3] = (uint8_t)len;
	memcpy(message + 4, name->id, len);
	memcpy(names->asked, name->id, sizeof(names->asked));
	if (grpc_client_call(names->cri, "/runtime.v1.RuntimeService/ListContainers", message, len + 4,
		    TIMEOUT_MS, on_reply, names, &names->call) < 0)
		name->ask_ns = now + AGAIN_NS;
}

static struct container_name *names_add(struct container_names *names, const char *id)
{
	struct container_name *name;

	name = names->by_id.count < NAMES_MAX ? calloc(1, sizeof(*name)) : NULL;
	if (!name)
		return NULL;
	snprintf(name->id, sizeof(name->id), "%s", id);
	if (table_set(&names->by_id, id, name) == 0)
		return name;
	name_free(name);
	return NULL;
}

void container_names_begin(struct container_names *names)
{
	/* A round asks for at most half as many names, so most of these belong to containers that ended. */
	if (names->by_id.count >= NAMES_MAX / 2)
		names_clear(names);
}

int container_names_find(
	struct container_names *names, const char *id, const char *pod_uid, const char **ret_name)
{
	struct container_name *name = table_get(&names->by_id, id);

	if (!name)
		name = names_add(names, id);
	if (!name)
		return -EAGAIN;
	if (name->name && name->uid) {
		if (strcmp(name->uid, pod_uid) != 0)
			return -ENOENT;
		*ret_name = name->name;
		return 0;
	}
	names_ask(names, name);
	return name->absent ? -ENOENT : -EAGAIN;
}
