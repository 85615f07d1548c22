#include "cli/list-read.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/kubectl.h"
#include "kube/json-split.h"
#include "kube/json.h"

#define PAGE_ITEMS 500
#define PAGE_BYTES_MAX (256u << 20)
#define PAGES_MAX 10000
#define WARNINGS_TOLD_MAX 10

void list_warn(struct warnings *warnings, const char *text)
{
	if (!warnings)
		return;
	warnings->n++;
	if (!warnings->tell)
		return;
	if (warnings->n <= WARNINGS_TOLD_MAX)
		warnings->tell(warnings->userdata, text);
	if (warnings->n == WARNINGS_TOLD_MAX + 1)
		warnings->tell(warnings->userdata, "further malformed objects are not reported");
}

/* ---- one page, while it arrives ---- */

struct page {
	const struct list_reader *reader;
	struct error *err;
	bool told; /* err has a sentence */
	size_t seen;
	struct json_split split;
};

static int page_failed(struct page *page, int r)
{
	bool at_end = json_split_end(&page->split) == 0;

	page->told = true;
	if (r == -EMSGSIZE)
		return error_set(page->err, EMSGSIZE, "the API server's answer has an object over %d MiB",
			ITEM_MAX >> 20);
	if (r == -ENOMEM)
		return error_set(page->err, ENOMEM, "out of memory");
	if (at_end)
		return error_set(
			page->err, EBADMSG, "the API server's answer cannot be read: text after the end");
	return error_set(page->err, EBADMSG,
		"the API server's answer cannot be read: it is not valid JSON, or not a %s",
		page->reader->kind);
}

/* An invalid object must not hide the others. */
static int page_on_item(void *userdata, const char *text, size_t len)
{
	_cleanup_json_ struct json_object *item = NULL;
	struct page *page = userdata;
	struct error reason = {""};
	int r;

	if (!memmem(text, len, page->reader->sign, strlen(page->reader->sign)))
		return 0;
	r = json_parse(text, len, &item, &reason);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		error_prefix(&reason, "an object of the %s is left out", page->reader->kind);
		list_warn(page->reader->warnings, reason.text);
		return 0;
	}
	r = page->reader->read(page->reader->userdata, item, page->err);
	page->told |= r < 0;
	return r;
}

static int page_on_data(void *userdata, const char *data, size_t len)
{
	struct page *page = userdata;
	int r;

	page->seen += len;
	if (page->seen > PAGE_BYTES_MAX) {
		page->told = true;
		return error_set(page->err, EMSGSIZE, "the API server's answer is longer than %u MiB",
			PAGE_BYTES_MAX >> 20);
	}
	r = json_split_feed(&page->split, data, len);
	return r < 0 && !page->told ? page_failed(page, r) : r;
}

/* Reads the text around the items: *ret_continue is the token of the next page, or NULL. */
static int page_end(struct page *page, char **ret_continue)
{
	_cleanup_json_ struct json_object *list = NULL;
	const char *rest = json_split_rest(&page->split), *kind, *token;
	struct json_object *items;

	if (json_split_end(&page->split) < 0)
		return error_set(page->err, EBADMSG, "the API server's answer ends in the middle");
	if (json_parse(rest, strlen(rest), &list, page->err) < 0) {
		error_prefix(page->err, "the API server's answer cannot be read");
		return -EBADMSG;
	}
	kind = json_member_string(list, "kind");
	items = json_member(list, "items");
	if (!kind || strcmp(kind, page->reader->kind) != 0)
		return error_set(page->err, EBADMSG, "the API server's answer is not a %s but %.64s",
			page->reader->kind, kind ? kind : "something without a kind");
	if (items && !json_object_is_type(items, json_type_array))
		return error_set(page->err, EBADMSG, "the items of the API server's %s are not a list",
			page->reader->kind);
	token = json_member_string(json_member(list, "metadata"), "continue");
	*ret_continue = token && *token ? strdup(token) : NULL;
	return token && *token && !*ret_continue ? error_set(page->err, ENOMEM, "out of memory") : 0;
}

/* Unreserved characters of RFC 3986 stay; all others become %XX. */
void url_add_escaped(struct strbuf *url, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			strbuf_add(url, text, 1);
		else
			strbuf_addf(url, "%%%02X", (unsigned char)*text);
}

static int read_page(const struct kubectl *kubectl, const char *url, const struct list_reader *reader,
	char **ret_continue, struct error *err)
{
	struct page page = {.reader = reader, .err = err};
	int r;

	json_split_init(&page.split, JSON_SPLIT_LIST, ITEM_MAX, page_on_item, &page);
	if (reader->unwanted)
		json_split_leave_out(&page.split, reader->unwanted, reader->unwanted_depth_max);
	r = kubectl_stream_raw(kubectl, url, page_on_data, &page, err);
	if (r == 0)
		r = page_end(&page, ret_continue);
	json_split_release(&page.split);
	return r;
}

int list_read(const struct kubectl *kubectl, const char *path, const char *selector,
	const struct list_reader *reader, struct error *err)
{
	_cleanup_free_ char *token = NULL;

	for (int page = 0; page < PAGES_MAX; page++) {
		_cleanup_strbuf_ struct strbuf next;
		_cleanup_free_ char *following = NULL;
		int r;

		strbuf_init(&next, 65536);
		strbuf_addf(&next, "%s?limit=%d", path, PAGE_ITEMS);
		if (selector) {
			strbuf_adds(&next, "&fieldSelector=");
			url_add_escaped(&next, selector);
		}
		if (token) {
			strbuf_adds(&next, "&continue=");
			url_add_escaped(&next, token);
		}
		if (next.failed)
			return error_set(err, -next.failed, "the API server's page token is too long");
		r = read_page(kubectl, strbuf_cstr(&next), reader, &following, err);
		if (r < 0 || !following)
			return r;
		if (token && strcmp(token, following) == 0)
			return error_set(
				err, EBADMSG, "the API server answers with the same page repeatedly");
		free(token);
		token = TAKE_PTR(following);
	}
	return error_set(err, EBADMSG, "the API server's list has more than %d pages", PAGES_MAX);
}

/* ---- one object ---- */

/* The first line of kubectl's error, which is the API server's message. */
static const char *first_line(struct strbuf *complaints)
{
	if (!complaints->len)
		return "kubectl failed, and its message is above";
	complaints->data[strcspn(complaints->data, "\n")] = '\0';
	return complaints->data;
}

int object_get(const struct kubectl *kubectl, const char *path, size_t max, struct json_object **ret_object,
	struct strbuf *complaints, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out;
	_cleanup_free_ char *raw = NULL;
	int r;

	strbuf_init(&out, max);
	if (asprintf(&raw, "--raw=%s", path) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = kubectl_run(kubectl, (const char *const[]){"get", raw, NULL}, &out, complaints, err);
	if (r != 0)
		return r < 0 ? r : 1;
	r = json_parse(strbuf_cstr(&out), out.len, ret_object, err);
	if (r < 0)
		error_prefix(err, "%.*s", (int)strcspn(path, "?"), path);
	return r;
}

int object_read(
	const struct kubectl *kubectl, const char *path, struct json_object **ret_object, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	int r;

	strbuf_init(&complaints, 64u << 10);
	r = object_get(kubectl, path, PAGE_BYTES_MAX, ret_object, &complaints, err);
	if (r <= 0)
		return r;
	r = strstr(strbuf_cstr(&complaints), "(NotFound)")	? ENOENT
	    : strcasestr(strbuf_cstr(&complaints), "forbidden") ? EACCES
								: EIO;
	return error_set(err, r, "%.*s: %.380s", (int)strcspn(path, "?"), path, first_line(&complaints));
}
