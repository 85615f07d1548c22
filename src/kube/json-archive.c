#include "kube/json-archive.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/json.h"

static void *json_member_of(void *value, const char *key)
{
	return json_member(value, key);
}

static void *json_item_of(void *value, size_t i)
{
	return json_object_is_type(value, json_type_array) ? json_object_array_get_idx(value, i) : NULL;
}

static const char *text_of_place(void *value)
{
	return json_string(value);
}

static bool json_length_of(void *value, size_t *ret_n)
{
	if (!json_object_is_type(value, json_type_array))
		return false;
	*ret_n = json_object_array_length(value);
	return true;
}

static bool json_number_of(void *value, int64_t min, int64_t max, int64_t *ret_number)
{
	return json_whole(value, min, max, ret_number) == 0;
}

static bool json_boolean_of(void *value, bool *ret_boolean)
{
	if (!json_object_is_type(value, json_type_boolean))
		return false;
	*ret_boolean = json_object_get_boolean(value);
	return true;
}

/* How many bytes the character that begins here has; 0: this is not a valid character. */
static size_t character_len(const unsigned char *p)
{
	size_t len = *p < 0x80		       ? 1
		     : *p >= 0xc2 && *p < 0xe0 ? 2
		     : (*p & 0xf0) == 0xe0     ? 3
		     : *p >= 0xf0 && *p < 0xf5 ? 4
					       : 0;

	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf0 && p[1] < 0x90) ||
		(*p == 0xf4 && p[1] >= 0x90))
		return 0;
	return len;
}

/* A sentence may have been cut in the middle of a character. Then a reader would refuse the whole text. */
static void add_valid_text(struct strbuf *out, const char *text)
{
	_cleanup_free_ char *copy = NULL;
	size_t at = 0, len;

	while (text[at] > 0 && text[at] < 0x7f) /* nearly every text is ASCII */
		at++;
	while (text[at] && (len = character_len((const unsigned char *)text + at)))
		at += len;
	if (text[at] && (copy = strdup(text)))
		for (at = 0; copy[at]; at += len)
			if ((len = character_len((const unsigned char *)copy + at)) == 0)
				copy[at] = '?', len = 1;
	json_add_string(out, copy ? copy : text);
}

const struct archive_format json_archive = {
	.add_text = add_valid_text,
	.add_number = json_add_number,
	.member = json_member_of,
	.item = json_item_of,
	.text = text_of_place,
	.length = json_length_of,
	.number = json_number_of,
	.boolean = json_boolean_of,
};
