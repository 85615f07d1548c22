/* Annotations that anybody may have written. First byte: p placement, g gpus (inventory), h held, r resize;
 * what is read must survive being written and read again. */
#include "fuzz.h"

#include "base/error.h"
#include "core/registry/resize.h"
#include "kube/held.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "model/held.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "1e999", "99999999999999999999", "-1",
	"\\u0000", "\\ud800", "\xff", "\"uuid\":\"GPU-1\"", "\"units\":", "\"resizes\":", "\"main\":2",
	"\"core\":", "\"containers\":", "\"cards\":", "\"unit\":1024", "\"index\":0",
	"\"mib\":", "\"pods\":", "\"ended\":", "\"at\":\"2026-05-04T03:02:01.000000Z\"", NULL};

static void placement(const char *text)
{
	_cleanup_placement_ struct placement read, again;
	struct error err = {""};
	char *back;

	placement_init(&read);
	placement_init(&again);
	if (placement_from_json(text, &read, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	back = placement_to_json(&read);
	MUST(back && placement_from_json(back, &again, NULL) == 0 && placement_equal(&read, &again));
	free(back);
}

static void inventory(const char *text)
{
	static struct gpu_facts gpus[NODE_GPUS_MAX], again[NODE_GPUS_MAX];
	static struct gpu_details details[NODE_GPUS_MAX], details_again[NODE_GPUS_MAX];
	struct error err = {""};
	size_t n = 0, n_again = 0;
	char *back;

	if (inventory_from_json(text, gpus, details, &n, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	MUST(n <= NODE_GPUS_MAX);
	for (size_t i = 0; i < n; i++)
		MUST(gpus[i].mib && gpus[i].uuid[0] && (i == 0 || gpus[i].index > gpus[i - 1].index));
	back = inventory_to_json(gpus, details, n);
	MUST(back && inventory_from_json(back, again, details_again, &n_again, NULL) == 0 && n_again == n);
	free(back);
}

static void held(const char *text)
{
	struct error err = {""};
	struct held read;

	held_init(&read);
	if (held_from_json(text, &read, &err) < 0)
		MUST(err.text[0]);
	held_release(&read);
}

/* Of a pod with a container on two GPUs. Whatever is taken fits the request that comes of it. */
static void resize(const char *text)
{
	_cleanup_placement_ struct placement target = {.unit_mib = 1024};
	_cleanup_request_ struct request request = {0};
	struct error err = {""};

	MUST(request_add(&request, "main", CONTAINER_MAIN, 0, "4", NULL, NULL) == 0 &&
		request_set_gpus(&request, 2, NULL) == 0);
	MUST(placement_add(&target, "main", "GPU-0", 2, 0) == 0 &&
		placement_add(&target, "main", "GPU-1", 2, 0) == 0);
	if (resize_from_json(text, &request, &target, &err) < 0)
		MUST(err.text[0]);
	else
		MUST(target.resizes == 1 && request_resize(&request, &target) == 0 &&
			request.units == 2 * target.containers[0].gpus[0].units);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (data[0] == 'p')
		placement(text);
	else if (data[0] == 'g')
		inventory(text);
	else if (data[0] == 'h')
		held(text);
	else if (data[0] == 'r')
		resize(text);
	free(text);
	return 0;
}
