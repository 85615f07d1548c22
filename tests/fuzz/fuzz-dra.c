/* The kubelet's calls of the driver for claims, with what the API server answers meanwhile. Input: pieces of
 * a kind (one byte), a length (two) and that many bytes. p, u, n and w are messages of NodePrepareResources,
 * NodeUnprepareResources, NotifyRegistrationStatus and NodeWatchResources; c answers the question of a call
 * (about a claim, or a pod) with this body, e refuses it; x closes a call; f lets the next grants fail; s
 * lets a second pass for each byte; a starts another agent, which has only the records. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/container/delivery.h"
#include "agent/dra.pb-c.h"
#include "agent/dra/deps.h"
#include "agent/dra/health-stream.h"
#include "agent/dra/prepare.h"
#include "agent/dra/service.h"
#include "agent/wire.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/client.h"
#include "net/grpc-server.h"
#include "net/loop.h"
#include "node/claims.h"
#include "node/registry.h"

#define UUID_0 "GPU-00000000-0000-0000-0000-000000000000"
#define UUID_1 "GPU-11111111-1111-1111-1111-111111111111"
#define ARENA_MAX ((size_t)8 << 20)
#define WAITS_AT_MOST_S 60

const unsigned int fuzz_rounds = 3000;
const char *const fuzz_words[] = {"p\x20", "u\x20", "n\x04", "c\x20", "e\x01 ", "s\x05", "x\x01 ", "a",
	"\x0a\x20", "\x12\x24", "\x1a\x05slice",
	"\x0a\x07"
	"default",
	"11111111-0000-0000-0000-000000000001", "../..", "\xff\xff\xff\xff\x0f",
	"{\"metadata\":{\"name\":\"slice\",\"namespace\":\"default\",\"uid\":\"1\"}",
	"\"status\":{\"allocation\":{\"devices\":{\"results\":[",
	"\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"2\"}]",
	"\"driver\":\"gpu.ration.dev\",\"pool\":\"n1\",\"request\":\"gpu\",\"shareID\":\"a\"",
	"\"device\":\"gpu-00000000-0000-0000-0000-000000000000\"",
	"\"device\":\"gpu-11111111-1111-1111-1111-111111111111\"",
	"\"consumedCapacity\":{\"memory\":\"3Gi\",\"cores\":\"30\"}",
	"\"consumedCapacity\":{\"memory\":\"15Gi\"}", "\"securityContext\":{\"privileged\":true}",
	"\"hostPath\":{\"path\":\"/dev\"}", NULL};

struct grpc_call {
	const struct grpc_method *method;
	void *userdata;
	uint8_t *message; /* of the request */
	size_t len;
	bool open;
};
static struct grpc_call calls[48];

struct kube_request {
	kube_response_fn fn;
	void *userdata;
};
static struct kube_request requests[ARRAY_SIZE(calls)];

static struct {
	const struct grpc_method *methods;
	size_t n;
	void *userdata;
} servers[2];
static size_t n_servers;

static struct loop *loop;
static time_t now_s = 1000;
static bool ours; /* is the clock */
static char dir[64];
static struct table made; /* uids that have a grant */
static bool grants_fail;

static struct node_registry node;
static struct dra_deps deps;
static struct dra_kept dra_kept;
static struct preparer *preparer;
static struct health_stream *health;
static struct service *service;

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	if (!ours || fuzz_in_alarm())
		return (int)syscall(SYS_clock_gettime, clock, ret_time);
	*ret_time = (struct timespec){.tv_sec = now_s};
	return 0;
}

void log_write(enum log_level level, const char *format, ...)
{
}

/* ---- in place of the server ---- */

int grpc_server_new(struct loop *on, const char *path, const struct grpc_method *methods, size_t n,
	void *userdata, struct kept_socket *kept, struct grpc_server **ret_server, struct error *err)
{
	MUST(n_servers < ARRAY_SIZE(servers));
	servers[n_servers].methods = methods;
	servers[n_servers].n = n;
	servers[n_servers].userdata = userdata;
	*ret_server = (struct grpc_server *)&servers[n_servers++];
	return 0;
}

void grpc_server_free(struct grpc_server *server)
{
}

bool kept_socket_is_at(const struct kept_socket *kept, const char *path)
{
	return false;
}

int grpc_server_listen_again(struct grpc_server *server, struct error *err)
{
	return 0;
}

static void call_end(struct grpc_call *call)
{
	MUST(call->open);
	free(call->message);
	*call = (struct grpc_call){.method = NULL};
}

int grpc_call_send(struct grpc_call *call, const void *message, size_t len)
{
	MUST(call->open && len < ARENA_MAX);
	return 0;
}

static bool is(const struct grpc_call *call, const char *method)
{
	return strcmp(strrchr(call->method->path, '/') + 1, method) == 0;
}

/* Each claim of the request has one entry, in its order: prepared, with a CDI device for each of its devices,
 * or an error. */
static void check_prepared(const struct grpc_call *call, const void *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const Dra__PrepareRequest *request;
	const Dra__PrepareResponse *response;

	wire_arena_init(&arena, ARENA_MAX);
	request = wire_unpack(&arena, &dra__prepare_request__descriptor, call->message, call->len);
	response = wire_unpack(&arena, &dra__prepare_response__descriptor, message, len);
	MUST(request && response && request->n_claims == response->n_claims);
	for (size_t i = 0; i < request->n_claims; i++) {
		const Dra__Prepared *prepared = response->claims[i]->value;
		const struct node_claim *claim = node_claims_by_uid(&node, request->claims[i]->uid);

		MUST(strcmp(response->claims[i]->key, request->claims[i]->uid) == 0 && prepared);
		MUST((prepared->n_devices > 0) != (prepared->error[0] != '\0'));
		if (!prepared->n_devices)
			continue;
		MUST(claim && claim->n_devices == prepared->n_devices && table_get(&made, claim->uid));
		for (size_t k = 0; k < prepared->n_devices; k++)
			MUST(prepared->devices[k]->n_cdi_device_ids == 1 &&
				prepared->devices[k]->n_request_names == 1);
	}
}

static void check_unprepared(const struct grpc_call *call, const void *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const Dra__UnprepareRequest *request;
	const Dra__UnprepareResponse *response;

	wire_arena_init(&arena, ARENA_MAX);
	request = wire_unpack(&arena, &dra__unprepare_request__descriptor, call->message, call->len);
	response = wire_unpack(&arena, &dra__unprepare_response__descriptor, message, len);
	MUST(request && response && request->n_claims == response->n_claims);
	for (size_t i = 0; i < request->n_claims; i++) {
		MUST(strcmp(response->claims[i]->key, request->claims[i]->uid) == 0);
		/* No pod is known here, so nothing can run. */
		MUST(!node_claims_by_uid(&node, request->claims[i]->uid));
	}
}

void grpc_call_reply(struct grpc_call *call, const void *message, size_t len)
{
	MUST(call->open);
	if (is(call, "NodePrepareResources"))
		check_prepared(call, message, len);
	else if (is(call, "NodeUnprepareResources"))
		check_unprepared(call, message, len);
	call_end(call);
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *text)
{
	MUST(status != GRPC_OK && *text);
	call_end(call);
}

/* ---- in place of the API server ---- */

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	size_t i = 0;

	fuzz_check_path(path);
	MUST(strcmp(method, "GET") == 0);
	while (i < ARRAY_SIZE(requests) && requests[i].fn)
		i++;
	MUST(i < ARRAY_SIZE(requests)); /* one for each call at most */
	requests[i] = (struct kube_request){fn, userdata};
	*ret_request = &requests[i];
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
	if (request)
		request->fn = NULL;
}

static bool answer(const struct kube_response *response)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct kube_request request = requests[i];

		if (!request.fn)
			continue;
		requests[i].fn = NULL;
		request.fn(request.userdata, response);
		return true;
	}
	return false;
}

/* ---- in place of grants and CDI files ---- */

int delivery_make(struct delivery *delivery, const struct node_pod *pod, const char *container, bool starting,
	struct error *err)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/claims/%s.json", dir, pod->facts.uid);
	MUST(access(path, F_OK) == 0); /* the record comes first */
	MUST(pod->facts.placement.n_containers == 1 && strcmp(container, CLAIM_CONTAINER) == 0);
	if (grants_fail)
		return error_set(err, EIO, "the grant cannot be written");
	MUST(table_set(&made, pod->facts.uid, &made) == 0);
	return 0;
}

void delivery_remove(struct delivery *delivery, const char *uid)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/claims/%s.json", dir, uid);
	MUST(!table_get(&made, uid) || access(path, F_OK) == 0); /* the record goes last */
	table_remove(&made, uid);
}

const char *delivery_device(const char *name, char *buf, size_t size)
{
	MUST((size_t)snprintf(buf, size, "ration.dev/grant=%s", name) < size);
	return buf;
}

/* ---- the agent ---- */

static enum share_policy policy(void *userdata)
{
	return SHARE_NATIVE;
}

static void changed(void *userdata)
{
}

static void agent_start(void)
{
	struct gpu gpus[2] = {{.facts = {.mib = 16160, .healthy = true}},
		{.facts = {.mib = 16160, .index = 1, .healthy = true}}};
	struct error err = {""};

	strcpy(gpus[0].facts.uuid, UUID_0);
	strcpy(gpus[1].facts.uuid, UUID_1);
	node_registry_init(&node, "n1");
	node.inventory.unit_mib = 1024;
	MUST(inventory_update(&node.inventory, gpus, ARRAY_SIZE(gpus)));
	node.in_force = GPU_MODE_DRA;
	deps = (struct dra_deps){.kept = &dra_kept,
		.loop = loop,
		.node = &node,
		.state_dir = dir,
		.kubelet_dir = dir,
		.policy = policy,
		.changed = changed};
	n_servers = 0;
	MUST(preparer_new(&deps, &preparer) == 0 && health_stream_new(&node, &health) == 0);
	MUST(service_new(&deps, preparer, health, &service) == 0 && service_open(service, &err) == 0);
}

static void call_close(struct grpc_call *call)
{
	void (*closed)(void *userdata, struct grpc_call *call) = call->method->closed;

	MUST(closed);
	closed(call->userdata, call);
	call_end(call);
}

static void agent_stop(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].open)
			call_close(&calls[i]);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		MUST(!requests[i].fn);
	service_free(service);
	health_stream_free(health);
	preparer_free(preparer);
	node_registry_release(&node);
}

static void call(const char *name, const uint8_t *data, size_t len)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(calls) && calls[i].open)
		i++;
	for (size_t k = 0; i < ARRAY_SIZE(calls) && k < n_servers; k++)
		for (size_t m = 0; m < servers[k].n; m++) {
			const struct grpc_method *method = &servers[k].methods[m];

			if (strcmp(strrchr(method->path, '/') + 1, name) != 0)
				continue;
			calls[i] = (struct grpc_call){
				method, servers[k].userdata, (uint8_t *)fuzz_text(data, len), len, true};
			method->handle(calls[i].userdata, &calls[i], calls[i].message, len);
			return;
		}
}

/* No GPU is over its total, whatever was prepared, except by records of an agent before. */
static void check_totals(bool has_records)
{
	uint64_t mib[2] = {0}, core[2] = {0};
	const struct node_claim *claim;

	table_for_each (&node.claims, cursor, claim)
		for (size_t i = 0; i < claim->n_devices; i++) {
			bool second = strcmp(claim->devices[i].uuid, UUID_1) == 0;

			mib[second] += claim->devices[i].mib;
			core[second] += claim->devices[i].core;
		}
	for (size_t i = 0; !has_records && i < 2; i++)
		MUST(mib[i] <= 16160 && core[i] <= 100);
}

static void pass(size_t seconds)
{
	while (seconds--) {
		now_s++;
		loop_run_once(loop, 0);
	}
}

static bool is_waiting(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].open && !is(&calls[i], "NodeWatchResources"))
			return true;
	return false;
}

/* All calls of the kubelet end within the time that it waits, if the API server answers at once. */
static void finish(void)
{
	const struct kube_response gone = {.status = 404, .body = "{}", .body_len = 2, .text = "gone"};

	for (int i = 0; i < WAITS_AT_MOST_S && is_waiting(); i++) {
		while (answer(&gone))
			;
		pass(1);
	}
	MUST(!is_waiting());
}

/* What the kubelet unprepares leaves nothing. */
static void check_empty(void)
{
	char path[80];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/claims", dir);
	folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		char uid[sizeof(entry->d_name)];
		size_t len = strlen(entry->d_name);

		if (entry->d_name[0] == '.')
			continue;
		MUST(len > 5);
		snprintf(uid, sizeof(uid), "%.*s", (int)len - 5, entry->d_name);
		MUST(node_claims_by_uid(&node, uid));
		preparer_remove(preparer, uid);
	}
	if (folder)
		closedir(folder);
	MUST(node.claims.count == 0 && made.count == 0);
	MUST(!folder || rmdir(path) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	MUST(loop_new(&loop) == 0);
	snprintf(dir, sizeof(dir), "%s/ration-fuzz-dra-%d", fuzz_folder(), (int)getpid());
	MUST(fs_mkdir_parents(dir, 0755) == 0);
	return 0;
}

static void remove_directories(void) __attribute__((destructor));
static void remove_directories(void)
{
	char path[120];

	for (const char *const *at = (const char *const[]){"/plugins/gpu.ration.dev", "/plugins",
		     "/plugins_registry", "", NULL};
		*at; at++) {
		snprintf(path, sizeof(path), "%s%s", dir, *at);
		rmdir(path);
	}
}

static void piece(char kind, const uint8_t *data, size_t len)
{
	_cleanup_free_ char *text = fuzz_text(data, len);
	const struct kube_response body = {.status = 200, .body = text, .body_len = len, .text = ""};
	const struct kube_response refused = {.status = len ? 400 + data[0] : 0,
		.result = len ? 0 : -ETIMEDOUT,
		.body = "",
		.text = "refused"};

	if (kind == 'p')
		call("NodePrepareResources", data, len);
	else if (kind == 'u')
		call("NodeUnprepareResources", data, len);
	else if (kind == 'n')
		call("NotifyRegistrationStatus", data, len);
	else if (kind == 'w')
		call("NodeWatchResources", data, len);
	else if (kind == 'c')
		answer(&body);
	else if (kind == 'e')
		answer(&refused);
	else if (kind == 'f')
		grants_fail = !grants_fail;
	else if (kind == 's')
		pass(len < 50 ? len : 50);
	else if (kind == 'x' && len && calls[data[0] % ARRAY_SIZE(calls)].open)
		call_close(&calls[data[0] % ARRAY_SIZE(calls)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool has_records = false;

	ours = true;
	grants_fail = false;
	table_init(&made);
	agent_start();
	while (size >= 3) {
		size_t len = (size_t)data[1] | (size_t)data[2] << 8;

		len = len < size - 3 ? len : size - 3;
		if (data[0] == 'a') {
			agent_stop();
			agent_start();
			has_records = true;
		} else {
			piece((char)data[0], data + 3, len);
		}
		health_stream_update(health);
		check_totals(has_records);
		data += 3 + len;
		size -= 3 + len;
	}
	finish();
	check_empty();
	agent_stop();
	table_release(&made);
	ours = false;
	return 0;
}
