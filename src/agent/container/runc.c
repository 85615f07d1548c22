#include "agent/container/runc.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/introspection.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "kube/json.h"
#include "net/grpc-client.h"

#define ANSWER_MAX ((size_t)1 << 20)
#define TIMEOUT_MS 5000 /* containerd starts two programs */
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

/* From the JSON that `runc features` prints; "" if it has none. Pure. */
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
	wire_arena_init(&arena, 4 * ANSWER_MAX);
	response = wire_unpack(&arena, &containerd__plugin_info_response__descriptor, message, len);
	if (response && response->extra)
		info = wire_unpack(&arena, &containerd__runtime_info__descriptor, response->extra->value.data,
			response->extra->value.len);
	if (info && info->features)
		runc_features_version(
			(const char *)info->features->value.data, info->features->value.len, ret_version);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
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
			      TIMEOUT_MS, on_reply, runc, &runc->call)
		    : -ENOMEM;
	if (r < 0)
		log_debug("cannot ask the container runtime which runc it starts: %s", strerror(-r));
}

void runc_configured(struct runc *runc, const char *config, size_t len)
{
	runc_config_read(config, len, &runc->config);
	if (runc->config.systemd)
		runc_ask(runc);
	else
		runc_set_version(runc, "");
}

const char *runc_version(const struct runc *runc)
{
	return runc->config.systemd ? runc->version : "";
}

int runc_new(struct grpc_client *cri, void (*changed)(void *userdata), void *userdata, struct runc **ret_runc)
{
	struct runc *runc = calloc(1, sizeof(*runc));

	if (!runc)
		return -ENOMEM;
	*runc = (struct runc){.cri = cri, .changed = changed, .userdata = userdata};
	*ret_runc = runc;
	return 0;
}

void runc_free(struct runc *runc)
{
	if (!runc)
		return;
	grpc_client_cancel(runc->call);
	free(runc);
}
