/* The programs that `ration run` has started on this machine, as the page draws them. */
#include "cli/ui/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/pod.h"
#include "cli/printable.h"
#include "cli/run-program.h"
#include "cli/top-page.h"
#include "kube/json.h"
#include "model/units.h"

#define PAGE_MAX (16u << 20)

const char *ui_runs_node(char *buf, size_t size)
{
	char name[POD_NAME_MAX + 1] = "";

	if (gethostname(name, sizeof(name) - 1) < 0 || !*name)
		strcpy(name, "this machine");
	snprintf(buf, size, "%s", printable(name));
	return buf;
}

int ui_runs_sample(struct top_sample *sample, struct error *err)
{
	_cleanup_strbuf_ struct strbuf page;
	int r;

	strbuf_init(&page, PAGE_MAX);
	r = run_program_output("sample", &page, err);
	if (r == 0 && top_sample_add(sample, "", strbuf_cstr(&page)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return r;
}

static void add_text(struct strbuf *out, const char *text)
{
	_cleanup_free_ char *copy = printable_copy(text);

	json_add_string(out, copy ? copy : "");
}

static uint64_t granted_on(const struct top_sample *sample, const struct top_gpu *gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sample->n_holders; i++)
		if (strcmp(sample->holders[i]->uuid, gpu->uuid) == 0)
			sum += sample->holders[i]->limit_bytes / MIB;
	return sum;
}

/* A GPU that is no longer here has no number: it comes after the others. */
static size_t column_of(const struct top_sample *sample, const char *uuid)
{
	size_t unknown = 0, column = 0;

	for (size_t i = 0; i < sample->n_gpus; i++)
		if (sample->gpus[i]->index >= (int)unknown)
			unknown = (size_t)sample->gpus[i]->index + 1;
	for (size_t i = 0; i < sample->n_gpus; i++) {
		column = sample->gpus[i]->index >= 0 ? (size_t)sample->gpus[i]->index : unknown++;
		if (strcmp(sample->gpus[i]->uuid, uuid) == 0)
			break;
	}
	return column;
}

static void add_gpu(struct strbuf *out, const struct top_sample *sample, const struct top_gpu *gpu)
{
	strbuf_addf(out, "{\"index\": %zu, \"uuid\": ", column_of(sample, gpu->uuid));
	add_text(out, gpu->uuid);
	strbuf_adds(out, ", \"model\": ");
	add_text(out, gpu->model);
	strbuf_addf(out, ", \"healthy\": true, \"total\": %" PRIu64 ", \"allocated\": %" PRIu64 "}",
		gpu->memory_bytes / MIB, granted_on(sample, gpu));
}

static void add_run(struct strbuf *out, const struct top_sample *sample, const struct top_holder *run)
{
	strbuf_adds(out, "{\"namespace\": \"\", \"name\": ");
	add_text(out, run->container);
	strbuf_addf(out, ", \"pid\": %d, \"allocated\": {\"%zu\": %" PRIu64 "}, \"pending\": 0",
		atoi(run->pod), column_of(sample, run->uuid), run->limit_bytes / MIB);
	if (run->share > 0)
		strbuf_addf(out, ", \"core\": %.0f", run->share * 100);
	strbuf_adds(out, "}");
}

int ui_runs_read(struct strbuf *out, struct error *err)
{
	struct top_sample sample;
	uint64_t total = 0, granted = 0;
	char name[POD_NAME_MAX + 1];
	int r;

	top_sample_init(&sample);
	r = ui_runs_sample(&sample, err);
	top_sample_sort(&sample);
	for (size_t i = 0; i < sample.n_gpus; i++) {
		total += sample.gpus[i]->memory_bytes / MIB;
		granted += granted_on(&sample, sample.gpus[i]);
	}
	strbuf_adds(out, "{\"version\": ");
	json_add_string(out, RATION_VERSION);
	strbuf_adds(out, ", \"runs\": true, \"warnings\": [], \"waiting\": [], \"cluster\": {\"nodes\": [");
	if (sample.n_gpus) {
		strbuf_adds(out, "{\"name\": ");
		json_add_string(out, ui_runs_node(name, sizeof(name)));
		strbuf_addf(out,
			", \"address\": \"\", \"mode\": \"runs\", \"changing\": false, \"unitMiB\": 1, \"total\": %" PRIu64
			", \"allocated\": %" PRIu64 ", \"pending\": 0, \"gpus\": [",
			total, granted);
		for (size_t i = 0; i < sample.n_gpus; i++) {
			strbuf_adds(out, i ? ",\n" : "");
			add_gpu(out, &sample, sample.gpus[i]);
		}
		strbuf_adds(out, "], \"pods\": [");
		for (size_t i = 0; i < sample.n_holders; i++) {
			strbuf_adds(out, i ? ",\n" : "");
			add_run(out, &sample, sample.holders[i]);
		}
		strbuf_adds(out, "]}");
	}
	strbuf_adds(out, "]}}\n");
	top_sample_release(&sample);
	if (r == 0 && out->failed)
		return error_set(err, -out->failed, "out of memory");
	return r;
}
