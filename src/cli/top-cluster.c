#include "cli/top-cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/forward.h"
#include "cli/pod.h"
#include "cli/top-claims.h"
#include "cli/top-page.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

#define LIST_MAX (256u << 20)
#define PAGE_MAX (16u << 20)
#define AGENTS_PATH                                                                                          \
	"/api/v1/namespaces/" NAMESPACE_SYSTEM "/pods?labelSelector=name%3Dgpushare-device-plugin-ds"
#define NODES_PATH "/api/v1/nodes?labelSelector=aliyun.accelerator%2Fnvidia_count"

struct agent {
	char *node, *pod, port[8];
	struct forward forward;
	bool is_open;
	enum gpu_mode mode; /* of the node */
};

struct top_cluster {
	const struct kubectl *kubectl;
	struct agent agents[TOP_AGENTS_MAX];
	size_t n;
	struct top_claims claims;
};

static int list_get(
	const struct kubectl *kubectl, const char *path, struct json_object **ret_items, struct error *err)
{
	_cleanup_json_ struct json_object *list = NULL;
	_cleanup_strbuf_ struct strbuf body;
	int r;

	strbuf_init(&body, LIST_MAX);
	r = kubectl_get_raw(kubectl, path, &body, err);
	if (r == 0)
		r = json_parse(strbuf_cstr(&body), body.len, &list, err);
	if (r < 0)
		return r;
	*ret_items = json_object_get(json_member(list, "items"));
	return 0;
}

static const char *name_of(struct json_object *object)
{
	return json_text_of(json_member(object, "metadata"), "name");
}

static enum gpu_mode mode_of(struct json_object *node)
{
	struct json_object *annotations = json_member(json_member(node, "metadata"), "annotations");
	enum gpu_mode mode;

	return gpu_mode_parse(json_text_of(annotations, ANNOTATION_NODE_MODE), &mode) == 0 ? mode
											   : GPU_MODE_NONE;
}

/* The port of the agent's page is in its arguments: --metrics=ADDRESS:PORT; "" if they name no
 * port. */
static void find_port(struct json_object *pod, char ret_port[8])
{
	static const char option[] = "--metrics=";
	struct json_object *containers = json_member(json_member(pod, "spec"), "containers");
	struct json_object *args = json_member(json_item(containers, 0), "args");

	strcpy(ret_port, "39996");
	for (size_t i = 0; i < json_count(args); i++) {
		const char *text = json_string(json_item(args, i)), *colon = text ? strrchr(text, ':') : NULL;

		if (!text || strncmp(text, option, strlen(option)) != 0)
			continue;
		ret_port[0] = '\0';
		if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1))
			snprintf(ret_port, 8, "%.7s", colon + 1);
	}
}

static struct json_object *agent_on(struct json_object *pods, const char *node)
{
	for (size_t i = 0; i < json_count(pods); i++) {
		struct json_object *pod = json_item(pods, i);

		if (strcmp(json_text_of(json_member(pod, "spec"), "nodeName"), node) == 0 &&
			!json_member(json_member(pod, "metadata"), "deletionTimestamp"))
			return pod;
	}
	return NULL;
}

static bool is_wanted(const char *node, char *const *nodes, size_t n_nodes)
{
	for (size_t i = 0; i < n_nodes; i++)
		if (strcmp(nodes[i], node) == 0)
			return true;
	return n_nodes == 0;
}

/* pod NULL: the node has no agent now. */
static int agent_set_pod(struct agent *agent, struct json_object *pod, struct error *err)
{
	free(agent->pod);
	agent->pod = NULL;
	if (!pod)
		return 0;
	if (!pod_name_is_valid(name_of(pod)))
		return error_set(err, EINVAL, "the API server's answer has a pod without a valid name");
	find_port(pod, agent->port);
	agent->pod = strdup(name_of(pod));
	return agent->pod ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int agent_add(struct top_cluster *cluster, const char *node, struct json_object *pod, bool shared,
	struct error *err)
{
	struct agent *agent = &cluster->agents[cluster->n];

	if (cluster->n == TOP_AGENTS_MAX)
		return error_set(err, E2BIG,
			"more than %d nodes with %s: name those that you want to see, as arguments",
			TOP_AGENTS_MAX, shared ? "shared GPU memory" : "isolation");
	agent->node = strdup(node);
	cluster->n++;
	return agent->node ? agent_set_pod(agent, pod, err) : error_set(err, ENOMEM, "out of memory");
}

static int find_error(bool named, bool shared, struct error *err)
{
	if (shared)
		return error_set(err, ENOENT,
			named ? "not all of these are nodes that share GPU memory (label " LABEL_SCHEDULE
				": share, cgpu, core_mem or dra)"
			      : "this cluster has no node that shares GPU memory (label " LABEL_SCHEDULE
				": share, cgpu, core_mem or dra)");
	return error_set(err, ENOENT,
		named ? "not all of these are nodes with isolation (label " LABEL_SCHEDULE
			": cgpu, core_mem or dra)"
		      : "this cluster has no node with isolation (label " LABEL_SCHEDULE
			": cgpu, core_mem or dra): `ration inspect` shows the others, `ration top --runs` this machine");
}

static int agents_find(
	struct top_cluster *cluster, char *const *nodes, size_t n_nodes, bool shared, struct error *err)
{
	_cleanup_json_ struct json_object *found = NULL, *pods = NULL;
	int r = list_get(cluster->kubectl, NODES_PATH, &found, err);

	if (r == 0)
		r = list_get(cluster->kubectl, AGENTS_PATH, &pods, err);
	for (size_t i = 0; i < json_count(found) && r == 0; i++) {
		struct json_object *node = json_item(found, i);
		const char *name = name_of(node);
		enum gpu_mode mode = mode_of(node);
		bool counts = gpu_mode_is_isolated(mode) || (shared && mode == GPU_MODE_SHARE);

		if (!counts || !is_wanted(name, nodes, n_nodes))
			continue;
		r = agent_add(cluster, name, agent_on(pods, name), shared, err);
		if (r == 0)
			cluster->agents[cluster->n - 1].mode = mode;
	}
	if (r == 0 && cluster->n < (n_nodes ? n_nodes : 1))
		return find_error(n_nodes > 0, shared, err);
	return r;
}

static int agent_read(const struct kubectl *kubectl, struct agent *agent, const char *path,
	struct strbuf *page, struct error *err)
{
	const struct forward_target target = {
		.pod = agent->pod,
		.port = agent->port,
		.program = "ration-agent",
		.role = "the agent",
		.whose = "the agent's",
		.which = "the agent's",
		.gone = "another one is there soon",
		.older = "is of an earlier version, without this page",
	};
	int r;

	if (!agent->pod)
		return error_set(err, ENOENT,
			"no agent of ration runs on node %s: look at `kubectl -n " NAMESPACE_SYSTEM
			" get pods -l name=gpushare-device-plugin-ds -o wide`",
			agent->node);
	if (!agent->port[0])
		return error_set(err, EINVAL,
			"the agents show no metrics (chart ack-ai-installer, value metrics.listen: none)");
	r = agent->is_open ? 0 : forward_open(kubectl, &target, &agent->forward, err);
	if (r < 0)
		return r;
	agent->is_open = true;
	r = forward_read(&agent->forward, path, page, err);
	if (r < 0) {
		forward_close(&agent->forward);
		agent->is_open = false;
	}
	return r;
}

int top_cluster_each(struct top_cluster *cluster, const struct top_reader *reader, struct strbuf *problems,
	struct error *err)
{
	_cleanup_strbuf_ struct strbuf page;
	size_t answered = 0;

	strbuf_init(&page, PAGE_MAX);
	for (size_t i = 0; i < cluster->n; i++) {
		struct agent *agent = &cluster->agents[i];
		struct error problem = {""};
		int r;

		if (reader->node && strcmp(reader->node, agent->node) != 0)
			continue;
		if (reader->begins)
			reader->begins(reader->userdata, agent->node, i + 1, cluster->n);
		strbuf_clear(&page);
		r = agent_read(cluster->kubectl, agent, reader->path, &page, &problem);
		if (r == 0)
			r = reader->read(reader->userdata, agent->node, agent->mode, &page, &problem);
		if (r == 0)
			answered++;
		else
			strbuf_addf(problems, "node %s: %s\n", agent->node,
				problem.text[0] ? problem.text : strerror(-r));
		if (r < 0 && !err->text[0])
			*err = problem;
	}
	return answered ? 0 : -EIO;
}

static int add_page(
	void *userdata, const char *node, enum gpu_mode mode, const struct strbuf *page, struct error *err)
{
	return top_sample_add(userdata, node, strbuf_cstr(page));
}

int top_cluster_read(struct top_cluster *cluster, const char *node, struct top_sample *sample,
	struct strbuf *problems, struct error *err)
{
	const struct top_reader reader = {
		.path = "/metrics", .node = node, .read = add_page, .userdata = sample};
	int r = top_cluster_each(cluster, &reader, problems, err);
	bool claims = false;

	for (size_t i = 0; i < cluster->n; i++)
		claims |= cluster->agents[i].mode == GPU_MODE_DRA &&
			  (!node || strcmp(node, cluster->agents[i].node) == 0);
	if (claims)
		top_claims_refresh(&cluster->claims, cluster->kubectl, problems);
	for (size_t i = 0; i < cluster->n; i++)
		if (cluster->agents[i].mode == GPU_MODE_DRA)
			top_claims_apply(&cluster->claims, sample, cluster->agents[i].node);
	return r;
}

int top_cluster_find_again(struct top_cluster *cluster, struct error *err)
{
	_cleanup_json_ struct json_object *pods = NULL;
	int r = list_get(cluster->kubectl, AGENTS_PATH, &pods, err);

	for (size_t i = 0; i < cluster->n && r == 0; i++)
		if (!cluster->agents[i].is_open)
			r = agent_set_pod(&cluster->agents[i], agent_on(pods, cluster->agents[i].node), err);
	return r;
}

int top_cluster_open(const struct kubectl *kubectl, char *const *nodes, size_t n_nodes, bool shared,
	struct top_cluster **ret_cluster, struct error *err)
{
	struct top_cluster *cluster = calloc(1, sizeof(*cluster));
	int r;

	if (!cluster)
		return error_set(err, ENOMEM, "out of memory");
	cluster->kubectl = kubectl;
	top_claims_init(&cluster->claims);
	r = agents_find(cluster, nodes, n_nodes, shared, err);
	if (r < 0)
		top_cluster_close(cluster);
	else
		*ret_cluster = cluster;
	return r;
}

void top_cluster_close(struct top_cluster *cluster)
{
	if (!cluster)
		return;
	for (size_t i = 0; i < TOP_AGENTS_MAX; i++) {
		struct agent *agent = &cluster->agents[i];

		if (agent->is_open)
			forward_close(&agent->forward);
		free(agent->node);
		free(agent->pod);
	}
	top_claims_release(&cluster->claims);
	free(cluster);
}
