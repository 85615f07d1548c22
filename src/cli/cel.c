#include "cli/cel.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/device-slice.h"

#define TEXT_SIZE 256

/* A value of the device, or a literal. */
struct value {
	bool is_text;
	char text[TEXT_SIZE];
	int64_t number; /* of a bool 0 or 1 */
	bool is_bool;
};

static void skip_blanks(const char **at)
{
	while (isspace((unsigned char)**at))
		(*at)++;
}

/* The word must not continue as an identifier. */
static bool take(const char **at, const char *word)
{
	size_t len = strlen(word);

	skip_blanks(at);
	if (strncmp(*at, word, len) != 0)
		return false;
	if (isalnum((unsigned char)word[len - 1]) &&
		(isalnum((unsigned char)(*at)[len]) || (*at)[len] == '_'))
		return false;
	*at += len;
	return true;
}

/* A text in either kind of quotes; one with escapes is not read. */
static bool take_text(const char **at, char ret_text[TEXT_SIZE])
{
	const char *end;
	char quote;

	skip_blanks(at);
	quote = **at;
	if (quote != '"' && quote != '\'')
		return false;
	end = strchr(*at + 1, quote);
	if (!end || end - *at > TEXT_SIZE || memchr(*at, '\\', (size_t)(end - *at)))
		return false;
	memcpy(ret_text, *at + 1, (size_t)(end - *at - 1));
	ret_text[end - *at - 1] = '\0';
	*at = end + 1;
	return true;
}

static bool take_identifier(const char **at, char ret_name[TEXT_SIZE])
{
	size_t len = 0;

	skip_blanks(at);
	while (isalnum((unsigned char)(*at)[len]) || (*at)[len] == '_')
		len++;
	if (!len || len >= TEXT_SIZE)
		return false;
	memcpy(ret_name, *at, len);
	ret_name[len] = '\0';
	*at += len;
	return true;
}

static bool take_literal(const char **at, struct value *ret_value)
{
	char *end;

	*ret_value = (struct value){0};
	if (take_text(at, ret_value->text)) {
		ret_value->is_text = true;
		return true;
	}
	if (take(at, "true") || take(at, "false")) {
		ret_value->is_bool = true;
		ret_value->number = (*at)[-2] == 'u';
		return true;
	}
	errno = 0;
	ret_value->number = strtoll(*at, &end, 10);
	if (end == *at || errno || *end == '.' || isalnum((unsigned char)*end))
		return false;
	*at = end;
	return true;
}

static enum cel_verdict value_of_attribute(const struct device_attribute *attribute, struct value *ret_value)
{
	if (!attribute)
		return CEL_FAILS;
	if (attribute->kind == ATTRIBUTE_VERSION) /* CEL has functions of its own for versions, which are not
						     evaluated here */
		return CEL_UNKNOWN;
	ret_value->is_text = attribute->kind == ATTRIBUTE_TEXT;
	ret_value->is_bool = attribute->kind == ATTRIBUTE_BOOL;
	ret_value->number = attribute->number;
	strcpy(ret_value->text, attribute->text);
	return CEL_TRUE;
}

/* CEL_TRUE: *ret_value is set. CEL_FAILS only after the whole operand was read. */
static enum cel_verdict take_operand(const char **at, const struct device_slice *slice,
	const struct slice_device *device, struct value *ret_value)
{
	char domain[TEXT_SIZE], name[TEXT_SIZE];

	*ret_value = (struct value){0};
	if (take(at, "device.driver")) {
		ret_value->is_text = true;
		strcpy(ret_value->text, slice->driver);
		return CEL_TRUE;
	}
	if (!take(at, "device.attributes") || !take(at, "[") || !take_text(at, domain) || !take(at, "]") ||
		!take(at, ".") || !take_identifier(at, name))
		return CEL_UNKNOWN;
	return value_of_attribute(device_attribute_find(slice, device, domain, name), ret_value);
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

static enum cel_verdict verdict(bool holds)
{
	return holds ? CEL_TRUE : CEL_FALSE;
}

/* .startsWith("..."), or another function of a text; at points behind the '.'. */
static enum cel_verdict take_function(const char **at, const struct value *value)
{
	char name[TEXT_SIZE], text[TEXT_SIZE];

	if (!take_identifier(at, name) || !take(at, "(") || !take_text(at, text) || !take(at, ")") ||
		!value->is_text)
		return CEL_UNKNOWN;
	if (strcmp(name, "startsWith") == 0)
		return verdict(strncmp(value->text, text, strlen(text)) == 0);
	if (strcmp(name, "endsWith") == 0)
		return verdict(ends_with(value->text, text));
	return strcmp(name, "contains") == 0 ? verdict(strstr(value->text, text)) : CEL_UNKNOWN;
}

static enum cel_verdict take_comparison(const char **at, const struct value *value)
{
	bool equal = take(at, "=="), differs = !equal && take(at, "!=");
	struct value other;

	if ((!equal && !differs) || !take_literal(at, &other))
		return CEL_UNKNOWN;
	if (value->is_text != other.is_text || value->is_bool != other.is_bool)
		return CEL_UNKNOWN;
	if (value->is_text)
		return verdict((strcmp(value->text, other.text) == 0) == equal);
	return verdict((value->number == other.number) == equal);
}

static enum cel_verdict take_term(
	const char **at, const struct device_slice *slice, const struct slice_device *device)
{
	enum cel_verdict found, compared;
	struct value value;

	if (take(at, "true"))
		return CEL_TRUE;
	if (take(at, "false"))
		return CEL_FALSE;
	found = take_operand(at, slice, device, &value);
	if (found == CEL_UNKNOWN)
		return CEL_UNKNOWN;
	/* If the attribute is missing, the rest of the term is only parsed. */
	value.is_text |= found == CEL_FAILS;
	compared = take(at, ".") ? take_function(at, &value) : take_comparison(at, &value);
	return found == CEL_FAILS ? CEL_FAILS : compared;
}

enum cel_verdict cel_evaluate(
	const char *expression, const struct device_slice *slice, const struct slice_device *device)
{
	const char *at = expression;
	enum cel_verdict all = CEL_TRUE;

	for (;;) {
		enum cel_verdict term = take_term(&at, slice, device);

		/* As in CEL, a false term decides, whatever the others are. */
		if (term == CEL_FALSE || (all == CEL_TRUE && term != CEL_TRUE))
			all = term;
		skip_blanks(&at);
		if (!*at)
			return all;
		/* The rest may begin with "||", or be the end of a term that is not evaluated here. */
		if (!take(&at, "&&"))
			return CEL_UNKNOWN;
	}
}
