#include "cli/ui/data.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/list-read.h"
#include "cli/printable.h"
#include "cli/ui/stranded.h"
#include "kube/json.h"

#define WARNINGS_MAX (64u << 10)

static void note(void *userdata, const char *text)
{
	_cleanup_free_ char *copy = printable_copy(text);
	struct strbuf *notes = userdata;

	strbuf_adds(notes, notes->len ? ", " : "");
	json_add_string(notes, copy ? copy : "out of memory");
}

static void add_waiting(struct strbuf *out, const struct inspect_waiting *waiting, const struct ui_more *more)
{
	strbuf_adds(out, "{\"namespace\": ");
	json_add_string(out, waiting->namespace_);
	strbuf_adds(out, ", \"name\": ");
	json_add_string(out, waiting->name);
	if (waiting->claims) {
		strbuf_adds(out, ", \"claims\": ");
		json_add_string(out, waiting->claims);
		strbuf_adds(out, ", \"memoryBytes\": ");
		json_add_number(out, (int64_t)waiting->memory);
	} else {
		strbuf_addf(out, ", \"units\": %u", waiting->units);
	}
	strbuf_addf(out, ", \"gpus\": %u, \"core\": %u, \"whole\": %s", waiting->gpus, waiting->core,
		waiting->whole ? "true" : "false");
	if (more)
		more->add(more->userdata, waiting, out);
	strbuf_adds(out, "}");
}

int ui_data_add(const struct inspect *inspect, const struct strbuf *notes, const struct ui_more *more,
	struct strbuf *out, struct error *err)
{
	strbuf_adds(out, "\"version\": ");
	json_add_string(out, RATION_VERSION);
	strbuf_addf(out, ", \"warnings\": [%s], \"cluster\": ", strbuf_cstr(notes));
	inspect_json(inspect, out);
	strbuf_adds(out, ", \"stranded\": ");
	if (ui_stranded_json(inspect, out) == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	strbuf_adds(out, ", \"waiting\": [");
	for (size_t i = 0; i < inspect->n_waiting; i++) {
		strbuf_adds(out, i ? ",\n" : "\n");
		add_waiting(out, &inspect->waiting[i], more);
	}
	strbuf_adds(out, "]}\n");
	return out->failed ? error_set(err, ENOMEM, "the cluster is too large for one page") : 0;
}

int ui_data_read(const struct kubectl *kubectl, struct strbuf *out, struct error *err)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_strbuf_ struct strbuf notes;
	struct warnings warnings = {.tell = note, .userdata = &notes};
	int r;

	inspect_init(&inspect);
	inspect.everything = true;
	strbuf_init(&notes, WARNINGS_MAX);
	r = inspect_fetch(&inspect, kubectl, NULL, &warnings, err);
	strbuf_adds(out, "{");
	return r < 0 ? r : ui_data_add(&inspect, &notes, NULL, out, err);
}
