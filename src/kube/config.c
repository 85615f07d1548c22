#include "kube/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "kube/base64.h"

#define PIPE_TIMEOUT_MS 10000
#define CONFIG_FILE_MAX (1024 * 1024)
#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

void kube_config_init(struct kube_config *config)
{
	*config = (struct kube_config){0};
}

void kube_config_release(struct kube_config *config)
{
	free(config->server);
	free(config->ca_file);
	free(config->ca_data);
	free(config->client_cert_file);
	free(config->client_cert_data);
	free(config->client_key_file);
	free(config->client_key_data);
	free(config->token_file);
	free(config->token);
	free(config->tls_server_name);
	free(config->namespace_);
	kube_config_init(config);
}

/* ---- YAML: a document of nodes; aliases are references, so they are not expanded ---- */

static void document_release(yaml_document_t *document)
{
	yaml_document_delete(document);
}

static yaml_node_t *member(yaml_document_t *document, yaml_node_t *map, const char *key)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
		pair++) {
		yaml_node_t *name = yaml_document_get_node(document, pair->key);

		if (name->type == YAML_SCALAR_NODE && strcmp((char *)name->data.scalar.value, key) == 0)
			return yaml_document_get_node(document, pair->value);
	}
	return NULL;
}

/* A scalar that is not empty; else NULL. */
static const char *text(yaml_document_t *document, yaml_node_t *map, const char *key)
{
	yaml_node_t *value = member(document, map, key);

	if (!value || value->type != YAML_SCALAR_NODE || !*value->data.scalar.value)
		return NULL;
	if (value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
		(strcmp((char *)value->data.scalar.value, "null") == 0 ||
			strcmp((char *)value->data.scalar.value, "~") == 0))
		return NULL;
	return (const char *)value->data.scalar.value;
}

/* Finds the element of the list `lists` with the name `name`; returns its member `inner`. */
static yaml_node_t *named(yaml_document_t *document, const char *lists, const char *name, const char *inner)
{
	yaml_node_t *list = member(document, yaml_document_get_root_node(document), lists);

	if (!list || list->type != YAML_SEQUENCE_NODE || !name)
		return NULL;
	for (yaml_node_item_t *item = list->data.sequence.items.start; item < list->data.sequence.items.top;
		item++) {
		yaml_node_t *element = yaml_document_get_node(document, *item);
		const char *its_name = text(document, element, "name");

		if (its_name && strcmp(its_name, name) == 0)
			return member(document, element, inner);
	}
	return NULL;
}

static int load_yaml(const char *data, size_t len, yaml_document_t *ret_document, struct error *err)
{
	yaml_parser_t parser;
	int ok;

	if (!yaml_parser_initialize(&parser))
		return error_set(err, ENOMEM, "out of memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)data, len);
	ok = yaml_parser_load(&parser, ret_document);
	if (!ok)
		error_set(err, EINVAL, "no valid YAML: %s in line %zu",
			parser.problem ? parser.problem : "parse error", parser.problem_mark.line + 1);
	yaml_parser_delete(&parser);
	return ok ? 0 : -EINVAL;
}

/* ---- one kubeconfig ---- */

struct source {
	yaml_document_t *document;
	const char *path;
	yaml_node_t *cluster, *user;
	const char *namespace_;
};

/* Copies a setting; an absent one stays NULL. */
static int copy_text(struct source *source, yaml_node_t *map, const char *key, char **ret_copy)
{
	const char *value = text(source->document, map, key);

	if (!value)
		return 0;
	*ret_copy = strdup(value);
	return *ret_copy ? 0 : -ENOMEM;
}

/* Paths are relative to the kubeconfig's folder, not to the current folder (clientcmd ResolveLocalPaths). */
static int copy_path(struct source *source, yaml_node_t *map, const char *key, char **ret_path)
{
	const char *value = text(source->document, map, key);
	const char *slash = strrchr(source->path, '/');
	int n;

	if (!value)
		return 0;
	if (value[0] == '/' || !slash) {
		*ret_path = strdup(value);
		return *ret_path ? 0 : -ENOMEM;
	}
	n = asprintf(ret_path, "%.*s/%s", (int)(slash - source->path), source->path, value);
	if (n < 0)
		*ret_path = NULL;
	return n < 0 ? -ENOMEM : 0;
}

static int copy_data(
	struct source *source, yaml_node_t *map, const char *key, char **ret_data, struct error *err)
{
	const char *value = text(source->document, map, key);
	int r = value ? base64_decode(value, ret_data) : 0;

	if (r == -EINVAL)
		return error_set(err, EINVAL, "%s is no base64 of a text", key);
	return r;
}

static int refuse_unsupported(struct source *source, struct error *err)
{
	static const char *const in_user[] = {
		"exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid"};

	for (size_t i = 0; i < ARRAY_SIZE(in_user); i++)
		if (member(source->document, source->user, in_user[i]))
			return error_set(err, ENOTSUP,
				"the user's \"%s\" is not supported here: use a token, a tokenFile or a client certificate (kubectl create token ...)",
				in_user[i]);
	if (text(source->document, source->cluster, "proxy-url"))
		return error_set(err, ENOTSUP,
			"the cluster's \"proxy-url\" is not supported here: reach the API server directly");
	return 0;
}

static int check_server(const char *server, struct error *err)
{
	if (!server)
		return error_set(err, EINVAL, "the cluster has no \"server\"");
	if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
		return error_set(
			err, EINVAL, "server \"%s\" begins with neither https:// nor http://", server);
	for (const char *p = server; *p; p++)
		if ((unsigned char)*p <= ' ' || strchr("?#", *p))
			return error_set(err, EINVAL, "server \"%s\" is no address", server);
	return 0;
}

static int read_cluster(struct source *source, struct kube_config *config, struct error *err)
{
	const char *insecure = text(source->document, source->cluster, "insecure-skip-tls-verify");
	size_t len;
	int r;

	r = check_server(text(source->document, source->cluster, "server"), err);
	if (r == 0)
		r = copy_text(source, source->cluster, "server", &config->server);
	if (r == 0)
		r = copy_path(source, source->cluster, "certificate-authority", &config->ca_file);
	if (r == 0)
		r = copy_data(source, source->cluster, "certificate-authority-data", &config->ca_data, err);
	if (r == 0)
		r = copy_text(source, source->cluster, "tls-server-name", &config->tls_server_name);
	if (r < 0)
		return r;
	config->insecure = insecure && strcmp(insecure, "true") == 0;
	for (len = strlen(config->server); len && config->server[len - 1] == '/'; len--)
		config->server[len - 1] = '\0';
	return 0;
}

/* If both are there, data wins over a file, and the tokenFile over the token, as in client-go. */
static int read_user(struct source *source, struct kube_config *config, struct error *err)
{
	int r = copy_path(source, source->user, "client-certificate", &config->client_cert_file);

	if (r == 0)
		r = copy_data(
			source, source->user, "client-certificate-data", &config->client_cert_data, err);
	if (r == 0)
		r = copy_path(source, source->user, "client-key", &config->client_key_file);
	if (r == 0)
		r = copy_data(source, source->user, "client-key-data", &config->client_key_data, err);
	if (r == 0)
		r = copy_path(source, source->user, "tokenFile", &config->token_file);
	if (r == 0)
		r = copy_text(source, source->user, "token", &config->token);
	return r;
}

static int find_context(struct source *source, const char *context, struct error *err)
{
	yaml_document_t *document = source->document;
	const char *cluster, *user;
	yaml_node_t *found;

	if (!context)
		context = text(document, yaml_document_get_root_node(document), "current-context");
	if (!context)
		return error_set(err, EINVAL,
			"no current-context: name one, or set it (kubectl config use-context ...)");
	found = named(document, "contexts", context, "context");
	if (!found)
		return error_set(err, ENOENT, "there is no context \"%s\"", context);
	cluster = text(document, found, "cluster");
	user = text(document, found, "user");
	source->namespace_ = text(document, found, "namespace");
	source->cluster = named(document, "clusters", cluster, "cluster");
	source->user = named(document, "users", user, "user");
	if (!source->cluster)
		return error_set(err, ENOENT, "context \"%s\": there is no cluster \"%s\"", context,
			cluster ? cluster : "");
	if (user && !source->user)
		return error_set(err, ENOENT, "context \"%s\": there is no user \"%s\"", context, user);
	return 0;
}

static int read_document(
	struct source *source, const char *context, struct kube_config *config, struct error *err)
{
	int r = find_context(source, context, err);

	if (r == 0)
		r = refuse_unsupported(source, err);
	if (r == 0)
		r = read_cluster(source, config, err);
	if (r == 0)
		r = read_user(source, config, err);
	if (r < 0)
		return r;
	config->namespace_ = strdup(source->namespace_ ? source->namespace_ : "default");
	return config->namespace_ ? 0 : -ENOMEM;
}

static int load_kubeconfig(
	const char *path, const char *context, struct kube_config *config, struct error *err)
{
	_cleanup_(document_release) yaml_document_t document = {0};
	struct source source = {.document = &document, .path = path};
	_cleanup_free_ char *data = NULL;
	size_t len;
	int r;

	r = fs_read_or_pipe(path, CONFIG_FILE_MAX, PIPE_TIMEOUT_MS, &data, &len);
	if (r < 0)
		return error_set(err, -r, "cannot read kubeconfig %s: %s", path,
			r == -EFBIG	  ? "larger than 1 MiB"
			: r == -ETIMEDOUT ? "a pipe that did not end within 10 s"
			: r == -ENOTSUP	  ? "neither a file nor a pipe"
					  : strerror(-r));
	error_set(err, 0, "out of memory");
	r = load_yaml(data, len, &document, err);
	if (r == 0)
		r = read_document(&source, context, config, err);
	if (r < 0)
		error_prefix(err, "kubeconfig %s", path);
	return r;
}

/* ---- in a pod ---- */

/* As in client-go's InClusterConfig: only the two variables tell that this is a pod. */
static bool in_cluster(const char **ret_host, const char **ret_port)
{
	*ret_host = getenv("KUBERNETES_SERVICE_HOST");
	*ret_port = getenv("KUBERNETES_SERVICE_PORT");
	return *ret_host && **ret_host && *ret_port && **ret_port;
}

static int load_in_cluster(const char *host, const char *port, struct kube_config *config, struct error *err)
{
	_cleanup_free_ char *namespace_ = NULL;
	bool v6 = strchr(host, ':') != NULL;
	size_t len;

	if (access(SERVICE_ACCOUNT_DIR "/token", R_OK) < 0)
		return error_set(err, errno,
			"in a pod without a service account token (" SERVICE_ACCOUNT_DIR
			"/token: %s): give it one (automountServiceAccountToken), or a kubeconfig",
			strerror(errno));
	if (asprintf(&config->server, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port) < 0) {
		config->server = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	if (fs_read(SERVICE_ACCOUNT_DIR "/namespace", 253, &namespace_, &len) == 0)
		config->namespace_ = strndup(namespace_, strcspn(namespace_, " \r\n"));
	else
		config->namespace_ = strdup("default");
	config->ca_file = strdup(SERVICE_ACCOUNT_DIR "/ca.crt");
	config->token_file = strdup(SERVICE_ACCOUNT_DIR "/token");
	if (!config->namespace_ || !config->ca_file || !config->token_file)
		return error_set(err, ENOMEM, "out of memory");
	return check_server(config->server, err);
}

/* ---- which kubeconfig ---- */

/* The first file in $KUBECONFIG; only kubectl merges several files. */
static int path_from_environment(char **ret_path)
{
	const char *list = getenv("KUBECONFIG");

	*ret_path = NULL;
	if (!list)
		return 0;
	list += strspn(list, ":");
	if (!*list)
		return 0;
	*ret_path = strndup(list, strcspn(list, ":"));
	return *ret_path ? 0 : -ENOMEM;
}

static int load(const char *path, const char *context, struct kube_config *config, struct error *err)
{
	_cleanup_free_ char *found = NULL;
	const char *host, *port, *home = getenv("HOME");

	if (path)
		return load_kubeconfig(path, context, config, err);
	if (path_from_environment(&found) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (found)
		return load_kubeconfig(found, context, config, err);
	if (in_cluster(&host, &port))
		return load_in_cluster(host, port, config, err);
	if (home && asprintf(&found, "%s/.kube/config", home) < 0) {
		found = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	if (found && access(found, F_OK) == 0)
		return load_kubeconfig(found, context, config, err);
	return error_set(err, ENOENT,
		"no API server known: not in a pod, no $KUBECONFIG and no %s: name a kubeconfig",
		found ? found : "~/.kube/config");
}

int kube_config_load(const char *path, const char *context, struct kube_config *ret_config, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	int r;

	kube_config_init(&config);
	r = load(path, context, &config, err);
	if (r < 0)
		return r;
	*ret_config = config;
	kube_config_init(&config);
	return 0;
}
