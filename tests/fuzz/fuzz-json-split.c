/* The stream of a LIST or WATCH, cut into objects: alike, however it arrives. First byte: L list, else
 * stream. */
#include "fuzz.h"

#include <errno.h>

#include "kube/json-split.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "\\", ",", ":", "null", "\"items\":[",
	"\"items\":null", "\"managedFields\":[", "\"managedFields\":{", "\n", "[[[[[[[[[[[[",
	"{\"a\":", NULL};

struct seen {
	size_t n, bytes;
};

static int count(void *userdata, const char *text, size_t len)
{
	struct seen *seen = userdata;

	MUST(strlen(text) <= len && text[len] == '\0');
	seen->n++;
	seen->bytes += len;
	return 0;
}

static int feed(enum json_split_mode mode, const char *text, size_t len, size_t step, struct seen *ret_seen)
{
	struct json_split split;
	int r = 0;

	*ret_seen = (struct seen){0};
	json_split_init(&split, mode, 2048, count, ret_seen);
	for (size_t at = 0; at < len && r == 0; at += step)
		r = json_split_feed(&split, text + at, len - at < step ? len - at : step);
	if (r == 0)
		r = json_split_end(&split);
	if (r == 0 && mode == JSON_SPLIT_LIST)
		MUST(json_split_rest(&split));
	json_split_release(&split);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum json_split_mode mode = size && data[0] == 'L' ? JSON_SPLIT_LIST : JSON_SPLIT_STREAM;
	struct seen whole, parts;
	char *text;
	int r;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	r = feed(mode, text, size - 1, size, &whole);
	MUST(r == 0 || r == -EBADMSG || r == -EMSGSIZE);
	MUST(feed(mode, text, size - 1, size % 7 + 1, &parts) == r);
	MUST(whole.n == parts.n && whole.bytes == parts.bytes);
	free(text);
	return 0;
}
