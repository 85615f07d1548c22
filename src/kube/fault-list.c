#include "kube/fault-list.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "kube/gpu-name.h"
#include "kube/json.h"

void fault_reason_copy(char ret_reason[GPU_REASON_SIZE], const char *text)
{
	size_t n = 0;

	for (; *text && n + 1 < GPU_REASON_SIZE; text++)
		ret_reason[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
	/* Does not cut in the middle of a character, because annotations must be UTF-8. */
	if (((unsigned char)*text & 0xc0) == 0x80) {
		while (n && ((unsigned char)ret_reason[n - 1] & 0xc0) == 0x80)
			n--;
		n -= n > 0;
	}
	ret_reason[n] = '\0';
}

bool fault_is_about(const struct fault *fault, int index, const char *uuid)
{
	return *fault->uuid ? strcmp(fault->uuid, uuid) == 0 : fault->index == index;
}

int fault_parse_gpu(const char *text, struct fault *fault)
{
	uint32_t index;

	/* Digits are an index, even if no GPU has it. */
	if (*text && strspn(text, "0123456789") == strlen(text)) {
		if ((text[0] == '0' && text[1]) || parse_u32(text, FAULT_INDEX_MAX, &index) < 0)
			return -EINVAL;
		fault->index = (int)index;
		fault->uuid[0] = '\0';
		return 0;
	}
	/* "-1" is not a name, but a mistake. */
	if (!isalpha((unsigned char)text[0]) || !gpu_name_is_valid(text))
		return -EINVAL;
	fault->index = -1;
	snprintf(fault->uuid, sizeof(fault->uuid), "%s", text);
	return 0;
}

/* ---- unhealthy-gpu-<node> ---- */

static int add_token(struct fault_list *list, const char *token, size_t len, struct error *err)
{
	struct fault fault = {.index = -1};
	char text[GPU_UUID_SIZE];

	if (len == 0)
		return error_set(err, EINVAL, "there is nothing between two commas");
	if (len >= sizeof(text))
		return error_set(err, EINVAL, "an entry of %zu characters", len);
	memcpy(text, token, len);
	text[len] = '\0';
	if (fault_parse_gpu(text, &fault) < 0)
		return error_set(err, EINVAL, "\"%s\" is neither the index nor the UUID of a GPU", text);
	for (size_t i = 0; i < list->n; i++)
		if (list->faults[i].index == fault.index && strcmp(list->faults[i].uuid, fault.uuid) == 0)
			return error_set(err, EINVAL, "GPU %s is there twice", text);
	if (list->n == FAULT_LIST_MAX)
		return error_set(err, EINVAL, "it names more than %d GPUs", FAULT_LIST_MAX);
	list->faults[list->n++] = fault;
	return 0;
}

static void key_of(const struct fault *fault, char ret_key[GPU_UUID_SIZE])
{
	if (fault->index >= 0)
		snprintf(ret_key, GPU_UUID_SIZE, "%d", fault->index);
	else
		memcpy(ret_key, fault->uuid, GPU_UUID_SIZE);
}

/* Notes only add to what the list says itself, so invalid notes are ignored. */
static void take_notes(struct fault_list *list, const char *text, const char *notes)
{
	_cleanup_json_ struct json_object *object = NULL;
	const char *written_for;

	if (strlen(notes) > FAULT_LIST_TEXT_MAX || json_parse(notes, strlen(notes), &object, NULL) < 0)
		return;
	written_for = json_member_string(object, "gpus");
	if (!written_for || strcmp(written_for, text) != 0)
		return;
	for (size_t i = 0; i < list->n; i++) {
		struct fault *fault = &list->faults[i];
		char key[GPU_UUID_SIZE];
		struct json_object *gpu;
		const char *uuid, *reason;

		key_of(fault, key);
		gpu = json_member(json_member(object, "cards"), key);
		uuid = json_member_string(gpu, "uuid");
		reason = json_member_string(gpu, "reason");
		if (uuid && gpu_name_is_valid(uuid))
			snprintf(fault->uuid, sizeof(fault->uuid), "%s", uuid);
		fault_reason_copy(fault->reason, reason ? reason : "");
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int fault_list_from_gpus(const char *text, const char *notes, struct fault_list *ret_list, struct error *err)
{
	_cleanup_free_ struct fault_list *list = calloc(1, sizeof(*list));
	const char *p = text;

	if (!list)
		return error_set(err, ENOMEM, "out of memory");
	if (strlen(text) > FAULT_LIST_TEXT_MAX)
		return error_set(err, EINVAL, "it is longer than %d bytes", FAULT_LIST_TEXT_MAX);
	while (is_blank(*p))
		p++;
	while (*p || list->n) {
		const char *end, *comma = strchrnul(p, ',');
		int r;

		while (is_blank(*p))
			p++;
		for (end = comma; end > p && is_blank(end[-1]);)
			end--;
		r = add_token(list, p, (size_t)(end > p ? end - p : 0), err);
		if (r < 0)
			return r;
		if (!*comma)
			break;
		p = comma + 1;
	}
	if (notes)
		take_notes(list, text, notes);
	*ret_list = *list;
	return 0;
}

char *fault_list_gpus(const struct fault_list *list)
{
	_cleanup_strbuf_ struct strbuf text;
	char key[GPU_UUID_SIZE];

	strbuf_init(&text, FAULT_LIST_TEXT_MAX);
	for (size_t i = 0; i < list->n; i++) {
		key_of(&list->faults[i], key);
		strbuf_addf(&text, "%s%s", i ? "," : "", key);
	}
	return text.failed ? NULL : strdup(strbuf_cstr(&text));
}

static int note_add(struct json_object *gpus, const struct fault *fault)
{
	struct json_object *gpu = json_object_new_object();
	char key[GPU_UUID_SIZE];

	key_of(fault, key);
	if (json_set(gpus, key, gpu) < 0)
		return -ENOMEM;
	if (*fault->uuid && json_set(gpu, "uuid", json_object_new_string(fault->uuid)) < 0)
		return -ENOMEM;
	return *fault->reason ? json_set(gpu, "reason", json_object_new_string(fault->reason)) : 0;
}

char *fault_list_notes(const struct fault_list *list)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	struct json_object *gpus = json_object_new_object();
	_cleanup_free_ char *indices = fault_list_gpus(list);
	const char *text;

	if (json_set(object, "cards", gpus) < 0 || !indices ||
		json_set(object, "gpus", json_object_new_string(indices)) < 0)
		return NULL;
	for (size_t i = 0; i < list->n; i++)
		if (note_add(gpus, &list->faults[i]) < 0)
			return NULL;
	text = json_text(object);
	return text ? strdup(text) : NULL;
}
