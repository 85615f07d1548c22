#include "agent/container/runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/json.h"
#include "net/grpc-client.h"
#include "net/loop.h"

#include "agent/cri.pb-c.h"
#include "agent/introspection.pb-c.h"

/* Which runc starts containers, where it does so with the systemd cgroup driver. containerd is
 * asked, which runs `runc features` itself; containerd before 2.0 and CRI-O cannot be asked, and then the
 * version is not known. */

#define RUNC_VERSION_SIZE 40

/* What the container runtime's configuration says of the runtime that pods get by default. */
struct runc_config {
	bool systemd;	  /* runc, with the systemd cgroup driver */
	char binary[256]; /* "": containerd finds it on its PATH */
};

#define CONFIG_ANSWER_MAX ((size_t)1 << 20)
#define CONFIG_TIMEOUT_MS 5000 /* containerd starts two programs */
#define RUNC_TYPE "io.containerd.runc.v2"
#define RUNC_ANNOTATION "org.opencontainers.runc.version" /* runc's libcontainer/... features, since 1.1 */

struct runc {
	struct grpc_client *cri;
	struct grpc_client_call *call;
	void (*changed)(void *userdata);
	void *userdata;
	struct runc_config config;
	char version[RUNC_VERSION_SIZE];
};

/* From the "config" of a verbose CRI Status. Pure. */
static void runc_config_read(const char *config, size_t len, struct runc_config *ret_config)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct json_object *containerd, *runtime, *options, *systemd;
	const char *name, *type, *binary;

	*ret_config = (struct runc_config){0};
	if (json_parse(config, len, &root, NULL) < 0)
		return;
	containerd = json_member(root, "containerd");
	name = json_member_string(containerd, "defaultRuntimeName");
	runtime = json_member(json_member(containerd, "runtimes"), name ? name : "runc");
	type = json_member_string(runtime, "runtimeType");
	if (!type || strcmp(type, RUNC_TYPE) != 0)
		return;
	options = json_member(runtime, "options");
	systemd = json_member(options, "SystemdCgroup");
	ret_config->systemd = json_object_is_type(systemd, json_type_boolean) &&
			      json_object_get_boolean(systemd);
	binary = json_member_string(options, "BinaryName");
	if (binary && strlen(binary) < sizeof(ret_config->binary))
		memcpy(ret_config->binary, binary, strlen(binary) + 1);
}

/* The version in the JSON that `runc features` prints; "" if the JSON has no version. Pure. */
static void runc_features_version(const char *features, size_t len, char ret_version[RUNC_VERSION_SIZE])
{
	_cleanup_json_ struct json_object *root = NULL;
	const char *version;

	*ret_version = '\0';
	if (json_parse(features, len, &root, NULL) < 0)
		return;
	version = json_member_string(json_member(root, "annotations"), RUNC_ANNOTATION);
	if (version && strlen(version) < RUNC_VERSION_SIZE)
		memcpy(ret_version, version, strlen(version) + 1);
}

static void runc_set_version(struct runc *runc, const char *version)
{
	if (strcmp(runc->version, version) == 0)
		return;
	snprintf(runc->version, sizeof(runc->version), "%s", version);
	runc->changed(runc->userdata);
}

/* What a malformed answer says is nothing. */
static void read_answer(const uint8_t *message, size_t len, char ret_version[RUNC_VERSION_SIZE])
{
	_cleanup_arena_ struct wire_arena arena;
	const Containerd__PluginInfoResponse *response;
	const Containerd__RuntimeInfo *info = NULL;

	*ret_version = '\0';
	wire_arena_init(&arena, 4 * CONFIG_ANSWER_MAX);
	response = wire_unpack(&arena, &containerd__plugin_info_response__descriptor, message, len);
	if (response && response->extra)
		info = wire_unpack(&arena, &containerd__runtime_info__descriptor, response->extra->value.data,
			response->extra->value.len);
	if (info && info->features)
		runc_features_version(
			(const char *)info->features->value.data, info->features->value.len, ret_version);
}

static void on_config_reply(void *userdata, const struct grpc_reply *reply)
{
	struct runc *runc = userdata;
	char version[RUNC_VERSION_SIZE], text[600];

	runc->call = NULL;
	if (reply->result == 0 && reply->status == GRPC_OK) {
		read_answer(reply->message, reply->len, version);
		runc_set_version(runc, version);
		return;
	}
	/* Nothing depends on it, and a runtime that cannot be asked is no fault. */
	log_debug("the container runtime does not say which runc it starts: %s",
		grpc_reply_text(reply, text, sizeof(text)));
}

static uint8_t *pack_request(const struct runc_config *config, size_t *ret_len)
{
	Containerd__RuncOptions options = CONTAINERD__RUNC_OPTIONS__INIT;
	Containerd__RuntimeRequest runtime = CONTAINERD__RUNTIME_REQUEST__INIT;
	Containerd__PluginInfoRequest request = CONTAINERD__PLUGIN_INFO_REQUEST__INIT;
	Containerd__Any of_runc = CONTAINERD__ANY__INIT, of_runtime = CONTAINERD__ANY__INIT;
	_cleanup_free_ uint8_t *inner = NULL, *outer = NULL;

	options.binary_name = (char *)config->binary;
	of_runc.type_url = (char *)"containerd.runc.v1.Options";
	inner = wire_pack(&options.base, &of_runc.value.len);
	of_runc.value.data = inner;
	runtime.runtime_path = (char *)RUNC_TYPE;
	runtime.options = *config->binary ? &of_runc : NULL;
	of_runtime.type_url = (char *)"containerd.types.RuntimeRequest";
	outer = inner ? wire_pack(&runtime.base, &of_runtime.value.len) : NULL;
	of_runtime.value.data = outer;
	request.type = (char *)"io.containerd.runtime.v2";
	request.id = (char *)"task";
	request.options = &of_runtime;
	return outer ? wire_pack(&request.base, ret_len) : NULL;
}

static void runc_ask(struct runc *runc)
{
	_cleanup_free_ uint8_t *request = NULL;
	size_t len;
	int r;

	if (runc->call)
		return;
	request = pack_request(&runc->config, &len);
	r = request ? grpc_client_call(runc->cri,
			      "/containerd.services.introspection.v1.Introspection/PluginInfo", request, len,
			      CONFIG_TIMEOUT_MS, on_config_reply, runc, &runc->call)
		    : -ENOMEM;
	if (r < 0)
		log_debug("cannot ask the container runtime which runc it starts: %s", strerror(-r));
}

/* runc_configured() - the runtime has told its configuration, perhaps another one: asks for the version where
 * that matters. */
static void runc_configured(struct runc *runc, const char *config, size_t len)
{
	runc_config_read(config, len, &runc->config);
	if (runc->config.systemd)
		runc_ask(runc);
	else
		runc_set_version(runc, "");
}

/* runc_version() - of the runc with the systemd cgroup driver; "": another driver, or not known. */
static const char *runc_version(const struct runc *runc)
{
	return runc->config.systemd ? runc->version : "";
}

/* runc_new() - asks nothing yet; changed() is called when runc_version() changes. cri must outlive it. */
static int runc_new(
	struct grpc_client *cri, void (*changed)(void *userdata), void *userdata, struct runc **ret_runc)
{
	struct runc *runc = calloc(1, sizeof(*runc));

	if (!runc)
		return -ENOMEM;
	*runc = (struct runc){.cri = cri, .changed = changed, .userdata = userdata};
	*ret_runc = runc;
	return 0;
}

#define ANSWER_MAX ((size_t)4 << 20)
#define TIMEOUT_MS 2000
#define AGAIN_NS (2 * NS_PER_S)

struct runtime {
	const char *socket, *cdi_dir;
	struct grpc_client *cri;
	struct grpc_client_call *call;
	struct loop_timer *timer;
	struct runc *runc;
	void (*changed)(void *userdata);
	void *userdata;
	bool answered, does_cdi, complained;
};

/* /var/run is a link to /run everywhere that matters, but the agent's container may see only one of them. */
static const char *without_var(const char *dir)
{
	return strncmp(dir, "/var/run/", 9) == 0 ? dir + 4 : dir;
}

static bool same_directory(const char *a, const char *b)
{
	size_t len_a, len_b;

	a = without_var(a);
	b = without_var(b);
	for (len_a = strlen(a); len_a > 1 && a[len_a - 1] == '/'; len_a--)
		;
	for (len_b = strlen(b); len_b > 1 && b[len_b - 1] == '/'; len_b--)
		;
	return len_a == len_b && memcmp(a, b, len_a) == 0;
}

bool runtime_config_does_cdi(const char *config, size_t len, const char *cdi_dir)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct json_object *dirs, *enabled;

	if (json_parse(config, len, &root, NULL) < 0)
		return false;
	enabled = json_member(root, "enableCDI");
	if (enabled && !(json_object_is_type(enabled, json_type_boolean) && json_object_get_boolean(enabled)))
		return false;
	dirs = json_member(root, "cdiSpecDirs");
	/* CRI-O puts its own configuration there, with the names of the Go fields (1.34.0,
	 * server/runtime_status.go). It has no switch: CDI is always on. */
	if (!dirs)
		dirs = json_member(json_member(root, "crio"), "CDISpecDirs");
	for (size_t i = 0; i < json_count(dirs); i++) {
		const char *dir = json_string(json_object_array_get_idx(dirs, i));

		if (dir && same_directory(dir, cdi_dir))
			return true;
	}
	return false;
}

static void runtime_learn(struct runtime *runtime, const uint8_t *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const Runtime__V1__StatusResponse *status;
	bool does_cdi = false, changed;

	wire_arena_init(&arena, 4 * ANSWER_MAX);
	status = wire_unpack(&arena, &runtime__v1__status_response__descriptor, message, len);
	for (size_t i = 0; status && i < status->n_info; i++)
		if (strcmp(status->info[i]->key, "config") == 0) {
			const char *config = status->info[i]->value;

			does_cdi |= runtime_config_does_cdi(config, strlen(config), runtime->cdi_dir);
			runc_configured(runtime->runc, config, strlen(config));
		}
	changed = !runtime->answered || runtime->does_cdi != does_cdi;
	runtime->answered = true;
	runtime->does_cdi = does_cdi;
	if (!changed)
		return;
	if (does_cdi)
		log_info("the container runtime applies CDI files of %s", runtime->cdi_dir);
	else
		log_warning(
			"the container runtime (%s) does not apply CDI files of %s: containers get variables and device nodes, and NVIDIA's runtime must bring the driver's files",
			runtime->socket, runtime->cdi_dir);
	runtime->changed(runtime->userdata);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct runtime *runtime = userdata;
	char text[600];

	runtime->call = NULL;
	if (reply->result == 0 && reply->status == GRPC_OK) {
		runtime_learn(runtime, reply->message, reply->len);
		return;
	}
	if (!runtime->complained)
		log_warning("cannot ask the container runtime at %s: %s; trying again", runtime->socket,
			grpc_reply_text(reply, text, sizeof(text)));
	runtime->complained = true;
	loop_timer_set(runtime->timer, AGAIN_NS);
}

void runtime_ask(struct runtime *runtime)
{
	static const uint8_t verbose[] = {0x08, 0x01}; /* StatusRequest{verbose: true} */
	int r;

	if (runtime->call)
		return;
	r = grpc_client_call(runtime->cri, "/runtime.v1.RuntimeService/Status", verbose, sizeof(verbose),
		TIMEOUT_MS, on_reply, runtime, &runtime->call);
	if (r == 0)
		return;
	if (!runtime->complained)
		log_warning("cannot ask the container runtime at %s: %s; trying again", runtime->socket,
			strerror(-r));
	runtime->complained = true;
	loop_timer_set(runtime->timer, AGAIN_NS);
}

static void on_timer(void *userdata)
{
	runtime_ask(userdata);
}

int runtime_new(struct loop *loop, struct grpc_client *cri, const char *socket, const char *cdi_dir,
	void (*changed)(void *userdata), void *userdata, struct runtime **ret_runtime)
{
	struct runtime *runtime = calloc(1, sizeof(*runtime));
	int r;

	if (!runtime)
		return -ENOMEM;
	*runtime = (struct runtime){
		.cri = cri, .socket = socket, .cdi_dir = cdi_dir, .changed = changed, .userdata = userdata};
	r = loop_add_timer(loop, on_timer, runtime, &runtime->timer);
	if (r == 0)
		r = runc_new(cri, changed, userdata, &runtime->runc);
	if (r < 0) {
		runtime_free(runtime);
		return r;
	}
	loop_timer_set(runtime->timer, 0);
	*ret_runtime = runtime;
	return 0;
}

void runtime_free(struct runtime *runtime)
{
	if (!runtime)
		return;
	grpc_client_cancel(runtime->call);
	loop_timer_remove(runtime->timer);
	if (runtime->runc)
		grpc_client_cancel(runtime->runc->call);
	free(runtime->runc);
	free(runtime);
}

void runtime_remember(struct runtime *runtime, bool does_cdi)
{
	runtime->answered = true;
	runtime->does_cdi = does_cdi;
}

const char *runtime_runc_version(const struct runtime *runtime)
{
	return runc_version(runtime->runc);
}

bool runtime_answered(const struct runtime *runtime)
{
	return runtime->answered;
}

bool runtime_does_cdi(const struct runtime *runtime)
{
	return runtime->does_cdi;
}
