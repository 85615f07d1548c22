#include "agent/gpu/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define UUID_LEN 36
#define HASH_LEN 32
#define ID_LEN (CGROUP_ID_SIZE - 1)
#define HEX "0123456789abcdef"

static bool is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!text[i] || !strchr(HEX, text[i]))
			return false;
	return true;
}

static bool is_uuid(const char *text, char separator)
{
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool is_separator = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_separator ? text[i] != separator : !is_hex(text + i, 1))
			return false;
	}
	return true;
}

/* Reads "pod<uid>", which must be all len bytes of text. */
static bool parse_uid(const char *text, size_t len, char separator, char *ret_uid)
{
	if (len < 3 || memcmp(text, "pod", 3) != 0)
		return false;
	text += 3;
	len -= 3;
	if (!(len == UUID_LEN && is_uuid(text, separator)) && !(len == HASH_LEN && is_hex(text, len)))
		return false;
	memcpy(ret_uid, text, len);
	ret_uid[len] = '\0';
	for (char *at = ret_uid; (at = strchr(at, '_'));)
		*at = '-';
	return true;
}

static bool cut_end(const char *text, size_t *len, const char *end)
{
	size_t n = strlen(end);

	if (*len < n || memcmp(text + *len - n, end, n) != 0)
		return false;
	*len -= n;
	return true;
}

static bool is_pod(const char *name, size_t len, char *ret_uid)
{
	const char *dash;

	if (!cut_end(name, &len, ".slice"))
		return parse_uid(name, len, '-', ret_uid);
	dash = memrchr(name, '-', len);
	return dash && parse_uid(dash + 1, len - (size_t)(dash + 1 - name), '_', ret_uid);
}

static bool is_container(const char *name, size_t len, char *ret_id)
{
	cut_end(name, &len, ".scope");
	if (len < ID_LEN || (len > ID_LEN && name[len - ID_LEN - 1] != '-') ||
		!is_hex(name + len - ID_LEN, ID_LEN))
		return false;
	memcpy(ret_id, name + len - ID_LEN, ID_LEN);
	ret_id[ID_LEN] = '\0';
	return true;
}

/* Reads the path from `at` up to `end`. */
static bool parse_path(const char *at, const char *end, struct cgroup_place *ret_place)
{
	bool found = false;

	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		size_t len = (size_t)((slash ? slash : end) - at);

		if (found) {
			is_container(at, len, ret_place->id);
			return true;
		}
		found = is_pod(at, len, ret_place->uid);
		at += len + 1;
	}
	return found;
}

int cgroup_parse(const char *text, struct cgroup_place *ret_place)
{
	struct cgroup_place found = {.uid = ""};

	while (*text) {
		const char *end = strchrnul(text, '\n');
		/* hierarchy-ID:controllers:path (cgroups(7)) */
		const char *colon = memchr(text, ':', (size_t)(end - text));
		struct cgroup_place place = {.uid = ""};

		colon = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;
		if (colon && parse_path(colon + 1, end, &place)) {
			if (found.uid[0] &&
				(strcmp(found.uid, place.uid) != 0 || strcmp(found.id, place.id) != 0))
				return -EBADMSG;
			found = place;
		}
		text = *end ? end + 1 : end;
	}
	if (!found.uid[0])
		return -ENOENT;
	*ret_place = found;
	return 0;
}
