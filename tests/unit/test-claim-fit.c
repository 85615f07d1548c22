/* Whether a request of a claim fits on a device, by the rules of kube-scheduler's allocator. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/cel.h"
#include "cli/claim-fit.h"
#include "cli/claims.h"
#include "cli/fields.h"
#include "model/claim-request.h"

#define GIB (UINT64_C(1) << 30)

/* ---- selectors ---- */

static struct device_attribute attributes[] = {
	{.name = "productName", .kind = ATTRIBUTE_TEXT, .text = "NVIDIA A100"},
	{.name = "index", .kind = ATTRIBUTE_NUMBER, .number = 3},
	{.name = "gpu.ration.dev/ecc", .kind = ATTRIBUTE_BOOL, .number = 1},
	{.name = "driverVersion", .kind = ATTRIBUTE_VERSION, .text = "580.65.6"},
	{.name = "resource.kubernetes.io/pcieRoot", .kind = ATTRIBUTE_TEXT, .text = "pci0000:00"},
};
static struct slice_device device = {
	.name = "gpu-3", .shared = true, .attributes = attributes, .n_attributes = ARRAY_SIZE(attributes)};
static struct device_slice slice = {.name = "s",
	.driver = "gpu.ration.dev",
	.pool = "n",
	.node = "n",
	.pool_slices = 1,
	.devices = &device,
	.n_devices = 1};

static void assert_cel(const char *expression, enum cel_verdict expected)
{
	enum cel_verdict verdict = cel_evaluate(expression, &slice, &device);

	if (verdict != expected)
		fail_msg("%s: %d, expected %d", expression, verdict, expected);
}

#define OWN "device.attributes['gpu.ration.dev']."

static void comparisons_are_evaluated(void **state)
{
	assert_cel("device.driver == 'gpu.ration.dev'", CEL_TRUE);
	assert_cel("device.driver == \"nic.example.com\"", CEL_FALSE);
	assert_cel("device.driver != 'nic.example.com'", CEL_TRUE);
	assert_cel(OWN "productName == 'NVIDIA A100'", CEL_TRUE);
	assert_cel(" device . attributes [\"gpu.ration.dev\"] ", CEL_UNKNOWN);
	assert_cel("device.attributes[ \"gpu.ration.dev\" ] . productName\n==\t'NVIDIA A10'", CEL_FALSE);
	assert_cel(OWN "index == 3", CEL_TRUE);
	assert_cel(OWN "index != 3", CEL_FALSE);
	assert_cel(OWN "ecc == true", CEL_TRUE);
	assert_cel(OWN "ecc == false", CEL_FALSE);
	assert_cel("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'", CEL_TRUE);
	assert_cel("true", CEL_TRUE);
	assert_cel("false", CEL_FALSE);
}

static void functions_of_texts_are_evaluated(void **state)
{
	assert_cel(OWN "productName.startsWith('NVIDIA ')", CEL_TRUE);
	assert_cel(OWN "productName.startsWith('A100')", CEL_FALSE);
	assert_cel(OWN "productName.endsWith('A100')", CEL_TRUE);
	assert_cel(OWN "productName.endsWith('a long text, NVIDIA A100')", CEL_FALSE);
	assert_cel(OWN "productName.contains('IA A')", CEL_TRUE);
	assert_cel(OWN "productName.contains('H100')", CEL_FALSE);
}

static void a_false_term_decides(void **state)
{
	assert_cel("device.driver == 'gpu.ration.dev' && " OWN "index == 3", CEL_TRUE);
	assert_cel("device.driver == 'gpu.ration.dev' && " OWN "index == 4", CEL_FALSE);
	assert_cel("device.driver == 'x' && " OWN "index == 3", CEL_FALSE);
	assert_cel(OWN "missing == 'x' && device.driver == 'x'", CEL_FALSE);
	assert_cel("device.driver == 'gpu.ration.dev' && " OWN "missing == 1", CEL_FAILS);
	assert_cel(OWN "missing.startsWith('x') && true", CEL_FAILS);
	assert_cel("device.attributes['x'].index == 3", CEL_FAILS);
}

/* What is not evaluated must never be called false. */
static void other_forms_are_unknown(void **state)
{
	assert_cel("", CEL_UNKNOWN);
	assert_cel("device.driver == 'x' || true", CEL_UNKNOWN);
	assert_cel("!(device.driver == 'x')", CEL_UNKNOWN);
	assert_cel("(device.driver == 'x')", CEL_UNKNOWN);
	assert_cel("device.driver == 'x' ? true : true", CEL_UNKNOWN);
	assert_cel("device.drivers == 'x'", CEL_UNKNOWN);
	assert_cel("device.driver == 'a\\'b'", CEL_UNKNOWN);
	assert_cel("device.driver == 'a", CEL_UNKNOWN);
	assert_cel("device.driver == 'a' + 'b'", CEL_UNKNOWN);
	assert_cel(OWN "index > 2", CEL_UNKNOWN);
	assert_cel(OWN "index == 3.0", CEL_UNKNOWN);
	assert_cel(OWN "index == 3u", CEL_UNKNOWN);
	assert_cel(OWN "index == 99999999999999999999", CEL_UNKNOWN);
	assert_cel(OWN "index == '3'", CEL_UNKNOWN);
	assert_cel(OWN "ecc", CEL_UNKNOWN);
	assert_cel(OWN "driverVersion == '580.65.6'", CEL_UNKNOWN);
	assert_cel(OWN "driverVersion.isGreaterThan(semver('1.0.0'))", CEL_UNKNOWN);
	assert_cel(OWN "productName.matches('A.*')", CEL_UNKNOWN);
	assert_cel(OWN "productName.lowerAscii() == 'x'", CEL_UNKNOWN);
	assert_cel("device.capacity['gpu.ration.dev'].memory.compareTo(quantity('1Gi')) >= 0", CEL_UNKNOWN);
	assert_cel("trueish", CEL_UNKNOWN);
}

/* ---- devices ---- */

/* The device with 15 GiB and 100 percent, of which 10 GiB and 70 percent are allocated. */
struct scene {
	struct claims claims;
	struct claims_device of;
	struct claim_request request;
};

static void scene_set(struct scene *scene)
{
	*scene = (struct scene){.claims = {.slices = &slice, .n_slices = 1},
		.of = {.slice = &slice, .device = &device, .memory = 10 * GIB, .cores = 70, .n_shares = 2},
		.request = {.count = 1, .has_memory = true, .memory = 5 * GIB}};
	device.shared = true;
	device.memory = (struct device_capacity){.present = true,
		.value = 15 * GIB,
		.has_default = true,
		.by_default = 15 * GIB,
		.min = GIB,
		.step = GIB};
	device.cores = (struct device_capacity){
		.present = true, .value = 100, .has_default = true, .step = 5};
	device.taints = NULL;
	device.n_taints = 0;
	slice.pool_slices = 1;
}

static void assert_fit(const struct scene *scene, enum fit_result expected, const char *text)
{
	struct fit fit = claim_fit(&scene->claims, &scene->of, &scene->request, NULL, 0);
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, 4096);
	fit_add_text(&out, &fit, &scene->of, &scene->request);
	assert_string_equal(strbuf_cstr(&out), text);
	assert_int_equal(fit.result, expected);
	assert_true(*fit_result_name(fit.result));
}

static void a_request_fits_into_what_is_left(void **state)
{
	struct scene scene;

	scene_set(&scene);
	assert_fit(&scene, FIT_YES, "fits");
	scene.request.memory = 5 * GIB + 1;
	assert_fit(&scene, FIT_MEMORY, "5 GiB of memory are free, 6 GiB are asked for");
	scene.request.memory = 16 * GIB;
	assert_fit(&scene, FIT_TOO_MUCH_MEMORY, "it gives at most 15 GiB of memory");
	scene.request.has_memory = false;
	assert_fit(&scene, FIT_MEMORY, "5 GiB of memory are free, 15 GiB are asked for");
	scene.of.memory = 16 * GIB;
	assert_fit(&scene, FIT_MEMORY, "0 bytes of memory are free, 15 GiB are asked for");
}

static void computing_power_is_compared_too(void **state)
{
	struct scene scene;

	scene_set(&scene);
	scene.request.has_cores = true;
	scene.request.cores = 30;
	assert_fit(&scene, FIT_YES, "fits");
	scene.request.cores = 31;
	assert_fit(&scene, FIT_CORES, "30 percent of computing power are free, 35 are asked for");
	scene.request.cores = 101;
	assert_fit(&scene, FIT_TOO_MUCH_CORES, "it gives at most 100 percent of computing power");
	device.memory.max = 4 * GIB;
	assert_fit(&scene, FIT_TOO_MUCH_MEMORY, "it gives at most 4 GiB of memory");
	device.memory.max = 0;
}

static void a_device_must_have_each_capacity_that_the_request_names(void **state)
{
	struct scene scene;

	scene_set(&scene);
	strcpy(scene.request.other, "gpu.ration.dev/memory");
	assert_fit(
		&scene, FIT_NO_CAPACITY, "it has no capacity gpu.ration.dev/memory, which the request names");
	scene.request.other[0] = '\0';
	scene.request.has_cores = true;
	device.cores.present = false;
	assert_fit(&scene, FIT_NO_CAPACITY, "it has no capacity cores, which the request names");
}

static void a_taint_keeps_requests_away_that_do_not_tolerate_it(void **state)
{
	struct device_toleration toleration = {.key = "b", .any_value = true};
	struct device_taint taints[] = {
		{.key = "a", .effect = TAINT_NONE}, {.key = "b", .value = "v", .effect = TAINT_NO_EXECUTE}};
	struct scene scene;

	scene_set(&scene);
	device.taints = taints;
	device.n_taints = 2;
	assert_fit(&scene, FIT_TAINT, "it has the taint b=v:NoExecute, which the request does not tolerate");
	scene.request.tolerations = &toleration;
	scene.request.n_tolerations = 1;
	assert_fit(&scene, FIT_YES, "fits");
}

static void a_device_that_is_not_shared_is_allocated_once(void **state)
{
	struct scene scene;

	scene_set(&scene);
	device.shared = false;
	assert_fit(&scene, FIT_IN_USE, "it is allocated to another claim, and cannot be shared");
	scene.of.n_shares = 0;
	scene.request.memory = 15 * GIB;
	assert_fit(&scene, FIT_YES, "fits");
}

static void admin_access_needs_no_room(void **state)
{
	struct scene scene;

	scene_set(&scene);
	scene.request.admin_access = true;
	scene.request.has_memory = false;
	assert_fit(&scene, FIT_YES, "fits");
	device.shared = false;
	assert_fit(&scene, FIT_YES, "fits");
}

static void a_pool_that_is_not_complete_gives_nothing(void **state)
{
	struct scene scene;

	scene_set(&scene);
	slice.pool_slices = 2;
	assert_fit(&scene, FIT_INCOMPLETE_POOL, "ResourceSlices of its pool are missing");
}

static void selectors_of_the_class_and_of_the_request_must_hold(void **state)
{
	char *const ours[] = {(char *)"device.driver == 'gpu.ration.dev'"};
	char *const other[] = {(char *)"device.driver == 'x'"};
	char *odd[] = {(char *)"f(device)", (char *)"device.driver == 'y'"};
	struct scene scene;
	struct fit fit;

	scene_set(&scene);
	fit = claim_fit(&scene.claims, &scene.of, &scene.request, ours, 1);
	assert_int_equal(fit.result, FIT_YES);
	fit = claim_fit(&scene.claims, &scene.of, &scene.request, other, 1);
	assert_int_equal(fit.result, FIT_SELECTOR);
	assert_string_equal(fit.selector, "device.driver == 'x'");
	scene.request.selectors = odd;
	scene.request.n_selectors = 1;
	fit = claim_fit(&scene.claims, &scene.of, &scene.request, ours, 1);
	assert_int_equal(fit.result, FIT_UNKNOWN);
	assert_string_equal(fit.selector, "f(device)");
	scene.request.n_selectors = 2;
	fit = claim_fit(&scene.claims, &scene.of, &scene.request, ours, 1);
	assert_int_equal(fit.result, FIT_SELECTOR);
	assert_string_equal(fit.selector, "device.driver == 'y'");
	/* Where something else is missing, the unknown selector does not matter. */
	scene.request.n_selectors = 1;
	scene.request.memory = 6 * GIB;
	fit = claim_fit(&scene.claims, &scene.of, &scene.request, ours, 1);
	assert_int_equal(fit.result, FIT_MEMORY);
}

static void bytes_are_told_in_the_largest_whole_unit(void **state)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, 4096);
	add_bytes(&out, 3 * GIB);
	strbuf_adds(&out, ", ");
	add_bytes(&out, 3 * GIB / 2);
	strbuf_adds(&out, ", ");
	add_bytes(&out, 1025);
	strbuf_adds(&out, ", ");
	add_bytes(&out, 2048 * GIB);
	assert_string_equal(strbuf_cstr(&out), "3 GiB, 1536 MiB, 1025 bytes, 2048 GiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comparisons_are_evaluated),
		cmocka_unit_test(functions_of_texts_are_evaluated),
		cmocka_unit_test(a_false_term_decides),
		cmocka_unit_test(other_forms_are_unknown),
		cmocka_unit_test(a_request_fits_into_what_is_left),
		cmocka_unit_test(computing_power_is_compared_too),
		cmocka_unit_test(a_device_must_have_each_capacity_that_the_request_names),
		cmocka_unit_test(a_taint_keeps_requests_away_that_do_not_tolerate_it),
		cmocka_unit_test(a_device_that_is_not_shared_is_allocated_once),
		cmocka_unit_test(admin_access_needs_no_room),
		cmocka_unit_test(a_pool_that_is_not_complete_gives_nothing),
		cmocka_unit_test(selectors_of_the_class_and_of_the_request_must_hold),
		cmocka_unit_test(bytes_are_told_in_the_largest_whole_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
