/* What kubelet and container runtime list, in proper gRPC, until the agent has cleaned up after pods that are
 * gone: PodResources, CRI Status, sandboxes and containers, with the node's ration.dev/held, records on disk
 * and CDI files. Input: pieces of a kind (one byte), a length (two) and so many bytes: l, t, s and c answer
 * List, Status, ListPodSandbox and ListContainers if that is asked, capitals refuse it; h is the node's
 * annotation, r a record, d a CDI file of that uid. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/container/cdi.h"
#include "agent/container/delivery.h"
#include "agent/container/leftovers.h"
#include "agent/container/orphans.h"
#include "agent/kubelet/podresources.h"
#include "agent/container/runtime.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/watch.h"
#include "net/grpc-client.h"
#include "net/loop.h"

const unsigned int fuzz_rounds = 3000;
const char *const fuzz_words[] = {"\x0a", "\x12", "\x42", "\x30\x02", "\x10\x01", "\xff\xff\xff\xff\x0f",
	"l\x01", "s\x01", "c\x01", "io.kubernetes.pod.uid", "u1", "u2", "aliyun.com/gpu-mem",
	"{\"at\":\"x\",\"pods\":[]}", "\"ended\":[]", NULL};

/* All calls that wait for an answer, of whatever client. */
struct grpc_client_call {
	struct grpc_client *client;
	const char *method;
	grpc_reply_fn fn;
	void *userdata;
};
static struct grpc_client_call calls[8];
static size_t n_clients;

static struct loop *loop;
static time_t now_s = 1000;
static bool ours; /* is the clock */
static char dir[64], cdi_dir[80], records_dir[80];
static struct {
	kube_response_fn fn;
	void *userdata;
} published;

/* Seconds between two pieces, not waited for. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!ours || fuzz_in_alarm())
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){.tv_sec = now_s};
	return 0;
}

void log_write(enum log_level unit, const char *format, ...)
{
}

int grpc_client_new(struct loop *on, const char *path, size_t max_message, struct grpc_client **ret_client)
{
	*ret_client = malloc(1);
	MUST(*ret_client);
	n_clients++;
	return 0;
}

void grpc_client_free(struct grpc_client *client)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].client == client)
			calls[i].fn = NULL;
	n_clients -= client != NULL;
	free(client);
}

int grpc_client_call(struct grpc_client *client, const char *method, const void *message, size_t len,
	int timeout_ms, grpc_reply_fn fn, void *userdata, struct grpc_client_call **ret_call)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(calls) && calls[i].fn)
		i++;
	MUST(i < ARRAY_SIZE(calls));
	calls[i] = (struct grpc_client_call){client, method, fn, userdata};
	if (ret_call)
		*ret_call = &calls[i];
	return 0;
}

void grpc_client_cancel(struct grpc_client_call *call)
{
	if (call)
		call->fn = NULL;
}

const char *grpc_reply_text(const struct grpc_reply *reply, char *buf, size_t size)
{
	snprintf(buf, size, "refused");
	return buf;
}

bool kube_watch_synced(const struct kube_watch *watch)
{
	return true;
}

int kube_watch_start(struct kube_client *client, struct loop *on, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch)
{
	return -EOPNOTSUPP;
}

void kube_watch_free(struct kube_watch *watch)
{
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	struct json_object *parsed = NULL;

	fuzz_check_path(path);
	MUST(!published.fn && json_parse(body, strlen(body), &parsed, NULL) == 0);
	json_object_put(parsed);
	published.fn = fn;
	published.userdata = userdata;
	*ret_request = (struct kube_request *)&published;
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
	published.fn = NULL;
}

void event_on_pod(
	const struct events *events, const struct pod_facts *pod, const char *reason, const char *text)
{
}

void event_on_node(const struct events *events, const char *reason, const char *text)
{
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	MUST(loop_new(&loop) == 0);
	snprintf(dir, sizeof(dir), "%s/ration-fuzz-lists-%d", fuzz_folder(), (int)getpid());
	snprintf(cdi_dir, sizeof(cdi_dir), "%s/cdi", dir);
	snprintf(records_dir, sizeof(records_dir), "%s/pods", dir);
	MUST(fs_mkdir_parents(cdi_dir, 0755) == 0 && fs_mkdir_parents(records_dir, 0755) == 0);
	return 0;
}

static void remove_directories(void) __attribute__((destructor));
static void remove_directories(void)
{
	rmdir(cdi_dir);
	rmdir(records_dir);
	rmdir(dir);
}

static void answer(const char *method, bool refused, const uint8_t *data, size_t len)
{
	struct grpc_reply reply = {.status = refused ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK,
		.text = "",
		.message = refused ? NULL : data,
		.len = refused ? 0 : len};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct grpc_client_call call = calls[i];

		if (!call.fn || strcmp(strrchr(call.method, '/') + 1, method) != 0)
			continue;
		calls[i].fn = NULL;
		call.fn(call.userdata, &reply);
		return;
	}
}

static void reconcile(struct agent *agent, const char *text)
{
	struct json_object *node = json_object_new_object(), *metadata = json_object_new_object();
	struct json_object *annotations = json_object_new_object();

	MUST(json_set(node, "metadata", metadata) == 0 &&
		json_set(metadata, "annotations", annotations) == 0 &&
		json_set(annotations, "ration.dev/held", json_object_new_string(text)) == 0);
	leftovers_reconcile(agent->leftovers, node);
	json_object_put(node);
}

static void put_file(const char *folder, const char *name, const char *text, size_t len)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	if (!file)
		return;
	MUST(fwrite(text, 1, len, file) == len);
	fclose(file);
}

static void take_piece(struct agent *agent, char kind, const uint8_t *data, size_t len)
{
	static const char kinds[] = "ltsc";
	static const char *const methods[] = {"List", "Status", "ListPodSandbox", "ListContainers"};
	_cleanup_free_ char *text = fuzz_text(data, len);
	const char *found = strchr(kinds, kind | 0x20);
	char name[300];

	if (kind && found && *found)
		answer(methods[found - kinds], !(kind & 0x20), data, len);
	else if (kind == 'h')
		reconcile(agent, text);
	else if (kind == 'r')
		put_file(records_dir, "u1.json", text, len);
	else if (kind == 'd' && len < 100 && strlen(text) == len && !strchr(text, '/')) {
		if ((size_t)snprintf(name, sizeof(name), "ration-%s.json", text) < sizeof(name))
			put_file(cdi_dir, name, "{}", 2);
	}
}

static void turn(void)
{
	struct kube_response response = {.status = 200, .body = "{}", .body_len = 2, .text = ""};
	kube_response_fn fn = published.fn;

	now_s += 20;
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, 0);
	published.fn = NULL;
	if (fn)
		fn(published.userdata, &response);
}

static void runtime_changed(void *userdata)
{
}

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	*(struct podresources_call **)userdata = NULL;
	if (!listing) {
		MUST(text && *text);
		return;
	}
	for (size_t i = 0; i < listing->n_pods; i++)
		MUST(listing->pods[i].name && listing->pods[i].namespace_);
	listing_release(listing);
	free(listing);
}

static void empty(const char *folder)
{
	DIR *files = opendir(folder);
	char path[512];

	MUST(files);
	for (struct dirent *entry; (entry = readdir(files));) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(files);
}

static void grants_changed(void *userdata)
{
}

static void ended(void *userdata, const char *uid)
{
	delivery_remove(((struct agent *)userdata)->delivery, uid);
}

static void agent_begin(struct agent *agent)
{
	struct delivery_deps delivery = {.node = &agent->node,
		.events = &agent->events,
		.state_dir = dir,
		.cdi_dir = cdi_dir,
		.grants_changed = grants_changed};
	struct leftovers_deps leftovers = {.loop = loop,
		.client = (struct kube_client *)agent,
		.node = &agent->node,
		.state_dir = dir,
		.kubelet_socket = "/nowhere/kubelet.sock",
		.ended = ended,
		.changed = runtime_changed,
		.userdata = agent};
	struct orphans_deps orphans = {
		.loop = loop, .node = &agent->node, .state_dir = dir, .cdi_dir = cdi_dir};

	*agent = (struct agent){.loop = loop,
		.options = {.node_name = "n1",
			.cdi_dir = cdi_dir,
			.state_dir = dir,
			.cri_socket = "/nowhere"},
		.client = (struct kube_client *)agent,
		.pod_watch = (struct kube_watch *)agent};
	node_registry_init(&agent->node, "n1");
	agent->node.pods_listed = true;
	MUST(podresources_new(loop, "/nowhere", &agent->podresources) == 0);
	MUST(grpc_client_new(loop, "/nowhere", 1 << 20, &agent->cri) == 0 &&
		runtime_new(loop, agent->cri, "/nowhere", cdi_dir, runtime_changed, NULL, &agent->runtime) ==
			0);
	leftovers.cri = agent->cri;
	MUST(delivery_new(&delivery, &agent->delivery) == 0 &&
		leftovers_new(&leftovers, &agent->leftovers) == 0);
	orphans.delivery = agent->delivery;
	orphans.leftovers = agent->leftovers;
	orphans.podresources = agent->podresources;
	MUST(orphans_new(&orphans, &agent->orphans) == 0);
}

static void agent_end(struct agent *agent)
{
	leftovers_free(agent->leftovers);
	delivery_free(agent->delivery);
	orphans_free(agent->orphans);
	runtime_free(agent->runtime);
	grpc_client_free(agent->cri);
	podresources_free(agent->podresources);
	node_registry_release(&agent->node);
	MUST(!n_clients && !published.fn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct podresources_call *call = NULL;
	struct agent agent;
	int turns = 0;

	ours = true;
	agent_begin(&agent);
	for (size_t at = 0, len; at + 3 <= size && turns < 32; at += 3 + len, turns++) {
		len = (size_t)data[at + 1] << 8 | data[at + 2];
		if (len > size - at - 3)
			len = size - at - 3;
		if (!call)
			MUST(podresources_list(agent.podresources, on_listing, &call, &call) == 0);
		turn();
		take_piece(&agent, (char)data[at], data + at + 3, len);
	}
	turn();
	podresources_cancel(call);
	agent_end(&agent);
	empty(cdi_dir);
	empty(records_dir);
	ours = false;
	return 0;
}
