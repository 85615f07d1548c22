#include "state-fixture.h"

#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core/events.h"
#include "core/log/state.h"
#include "kube/json-archive.h"
#include "kube/json.h"

#define TEXT_MAX (1 << 22)

static int add_line(void *userdata, const struct strbuf *line)
{
	struct strbuf *text = userdata;

	strbuf_adds(text, strbuf_cstr(line));
	strbuf_add(text, "\n", 1);
	return 0;
}

char *state_text(struct core *core)
{
	struct strbuf text;

	strbuf_init(&text, TEXT_MAX);
	assert_int_equal(core_write_state(core, &json_archive, add_line, &text), 0);
	assert_int_equal(text.failed, 0);
	return strbuf_take(&text);
}

int state_read(struct core *core, const char *text, struct error *err)
{
	while (*text) {
		_cleanup_json_ struct json_object *parsed = NULL;
		size_t len = strcspn(text, "\n");
		int r;

		assert_int_equal(json_parse(text, len, &parsed, NULL), 0);
		r = core_read_state_line(core, &json_archive, parsed, err);
		text += len + (text[len] == '\n');
		if (r < 0)
			return *text ? -EBADMSG : r;
	}
	return 0;
}

void state_must_refuse(const char *text, const char *sentence)
{
	struct error err = {0};
	struct core core;
	int r;

	core_init(&core, NULL);
	r = state_read(&core, text, &err);
	core_release(&core);
	if (r != -EINVAL || strcmp(err.text, sentence) != 0)
		fail_msg("%s: %d, \"%s\" instead of \"%s\"", text, r, err.text, sentence);
}

static void begin(const struct script *script, struct core *core)
{
	core_init(core, NULL);
	if (script->prepare)
		script->prepare(core);
}

/* Names the first line that differs: what cmocka prints is cut. */
static void assert_same_text(const char *a, const char *b, const char *what, size_t step)
{
	size_t at = 0, begin = 0;

	assert_non_null(a);
	assert_non_null(b);
	if (strcmp(a, b) == 0)
		return;
	for (; a[at] && a[at] == b[at]; at++)
		if (a[at] == '\n')
			begin = at + 1;
	fail_msg("%s after step %zu: %.*s\ninstead of %.*s", what, step, (int)strcspn(b + begin, "\n"),
		b + begin, (int)strcspn(a + begin, "\n"), a + begin);
}

static char *play(const struct script *script, struct core *core, size_t from)
{
	struct strbuf out;

	strbuf_init(&out, TEXT_MAX);
	for (size_t i = from; i < script->n_steps; i++) {
		strbuf_addf(&out, "step %zu:", i);
		script->step(core, i, &out);
		strbuf_adds(&out, "\n");
	}
	return strbuf_take(&out);
}

/* The core is written and read before this step. */
static void try_at(const struct script *script, size_t at)
{
	_cleanup_free_ char *before = NULL, *again = NULL, *said = NULL, *said_again = NULL, *end = NULL,
			    *end_again = NULL;
	struct core first, second;
	struct error err = {0};
	struct strbuf ignored;

	begin(script, &first);
	strbuf_init(&ignored, TEXT_MAX);
	for (size_t i = 0; i < at; i++)
		script->step(&first, i, &ignored);
	strbuf_release(&ignored);
	before = state_text(&first);
	begin(script, &second);
	if (state_read(&second, before, &err) < 0)
		fail_msg("before step %zu: %s", at, err.text);
	again = state_text(&second);
	assert_same_text(before, again, "the state", at);
	said = play(script, &first, at);
	said_again = play(script, &second, at);
	assert_same_text(said, said_again, "the decisions", at);
	end = state_text(&first);
	end_again = state_text(&second);
	assert_same_text(end, end_again, "the last state", at);
	core_release(&first);
	core_release(&second);
}

void state_try_script(const struct script *script)
{
	for (size_t at = 0; at <= script->n_steps; at++)
		try_at(script, at);
}
