#include "kube/gpu-models.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/names.h"

/* A pod that names more models counts as one that names none. */
#define NAMES_MAX 32
#define NAME_LEN_MAX 63 /* of a label's value */
#define TEXT_MAX (NAMES_MAX * (NAME_LEN_MAX + 1))

static const char *const LABELS[] = {LABEL_NVIDIA_NAME, LABEL_NVIDIA_PRODUCT};
#define N_LABELS (sizeof(LABELS) / sizeof(LABELS[0]))

struct names {
	const char *names[NAMES_MAX]; /* sorted */
	size_t n;
};

static bool is_label_value(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len == 0 || len > NAME_LEN_MAX)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("-_.", *text))
			return false;
	return true;
}

/* Returns false if the name is no value that a label can have, or one too many. */
static bool add_name(struct names *names, const char *name)
{
	size_t at = 0;

	if (!is_label_value(name))
		return false;
	while (at < names->n && strcmp(names->names[at], name) < 0)
		at++;
	if (at < names->n && strcmp(names->names[at], name) == 0)
		return true;
	if (names->n == NAMES_MAX)
		return false;
	memmove(&names->names[at + 1], &names->names[at], (names->n - at) * sizeof(*names->names));
	names->names[at] = name;
	names->n++;
	return true;
}

static int names_take(const struct names *names, char **ret_text)
{
	struct strbuf text;

	*ret_text = NULL;
	if (!names->n)
		return 0;
	strbuf_init(&text, TEXT_MAX);
	for (size_t i = 0; i < names->n; i++)
		strbuf_addf(&text, "%s%s", i ? "," : "", names->names[i]);
	*ret_text = strbuf_take(&text);
	return *ret_text ? 0 : -ENOMEM;
}

int gpu_models_of_node(struct json_object *node, char **ret_names)
{
	struct json_object *labels = json_member(json_member(node, "metadata"), "labels");
	struct names names = {0};

	for (size_t i = 0; i < N_LABELS; i++)
		add_name(&names, json_member_string(labels, LABELS[i]));
	return names_take(&names, ret_names);
}

/* Adds what one term of the affinity allows for the label. Returns false if it allows any value. Of several
 * lists the first one counts, which says no less than all of them. */
static bool add_term(struct names *names, struct json_object *term, const char *label)
{
	struct json_object *requirements = json_member(term, "matchExpressions");

	for (size_t i = 0; i < json_count(requirements); i++) {
		struct json_object *requirement = json_item(requirements, i);
		struct json_object *values = json_member(requirement, "values");
		const char *key = json_member_string(requirement, "key");
		const char *relation = json_member_string(requirement, "operator");

		if (!key || strcmp(key, label) != 0 || !relation || strcmp(relation, "In") != 0)
			continue;
		for (size_t k = 0; k < json_count(values); k++)
			if (!add_name(names, json_string(json_item(values, k))))
				return false;
		return json_count(values) > 0;
	}
	return false;
}

/* Returns false if the pod may have any value of the label. */
static bool names_of_label(struct json_object *spec, const char *label, struct names *ret_names)
{
	struct json_object *affinity = json_member(json_member(spec, "affinity"), "nodeAffinity");
	struct json_object *terms = json_member(
		json_member(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");
	const char *selected = json_member_string(json_member(spec, "nodeSelector"), label);

	*ret_names = (struct names){0};
	if (selected)
		return add_name(ret_names, selected);
	for (size_t i = 0; i < json_count(terms); i++)
		if (!add_term(ret_names, json_item(terms, i), label))
			return false;
	return ret_names->n > 0;
}

int gpu_models_of_pod(struct json_object *pod, char **ret_names)
{
	struct json_object *spec = json_member(pod, "spec");
	struct names names;

	*ret_names = NULL;
	for (size_t i = 0; i < N_LABELS; i++)
		if (names_of_label(spec, LABELS[i], &names))
			return names_take(&names, ret_names);
	return 0;
}
