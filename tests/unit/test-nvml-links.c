#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "nvml/nvml.h"

/* Eight simulated GPUs, made anew for each test by the real ration-sim. */
static char dir[64];

static void sim(const char *command, const char *arguments)
{
	char line[512];

	snprintf(line, sizeof(line), "%s/sim/ration-sim %s %s %s >/dev/null", getenv("RATION_BUILD"), command,
		dir, arguments);
	assert_int_equal(system(line), 0);
}

static int set_up(void **state)
{
	strcpy(dir, "/tmp/test-nvml-links-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	sim("down", "");
	return 0;
}

static struct nvml_links *links_of(const char *machine)
{
	_cleanup_free_ struct nvml_inventory *inventory = calloc(1, sizeof(*inventory));
	struct nvml_links *links = calloc(1, sizeof(*links));
	_cleanup_nvml_ struct nvml *nvml = NULL;
	struct error err = {};
	char arguments[128], library[128];

	snprintf(arguments, sizeof(arguments), "--gpus 8x16160MiB %s", machine);
	sim("up", arguments);
	snprintf(library, sizeof(library), "%s/lib/libnvidia-ml.so.1", dir);
	assert_int_equal(nvml_open(&nvml, library, &err), 0);
	assert_int_equal(nvml_inventory(nvml, inventory, &err), 0);
	nvml_links(nvml, inventory, links);
	return links;
}

static void assert_row(
	const struct nvml_links *links, size_t row, const uint8_t nvlinks[8], const uint8_t paths[8])
{
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(links->between[row][i].nvlinks, nvlinks[i]);
		assert_int_equal(links->between[i][row].nvlinks, nvlinks[i]);
		assert_int_equal(links->between[row][i].path, paths[i]);
	}
}

/* The rows are those of nvidia-smi topo -m on such a machine. */
static void links_of_dgx1_are_read(void **state)
{
	_cleanup_free_ struct nvml_links *links = links_of("--links dgx1-v100");

	assert_row(links, 0, (const uint8_t[]){0, 1, 1, 2, 2, 0, 0, 0},
		(const uint8_t[]){NVML_PATH_UNKNOWN, NVML_PATH_PIX, NVML_PATH_NODE, NVML_PATH_NODE,
			NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS});
	assert_row(links, 7, (const uint8_t[]){0, 0, 0, 1, 2, 1, 2, 0},
		(const uint8_t[]){NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_NODE,
			NVML_PATH_NODE, NVML_PATH_PIX, NVML_PATH_UNKNOWN});
	assert_int_equal(links->nvlink_gbps, 25);
	for (size_t gpu = 0, sum = 0; gpu < 8; gpu++, sum = 0) {
		for (size_t i = 0; i < 8; i++)
			sum += links->between[gpu][i].nvlinks;
		assert_int_equal(sum, 6); /* a V100 has six */
	}
}

static void links_through_switches_are_between_all(void **state)
{
	_cleanup_free_ struct nvml_links *links = links_of("--links dgx-a100");

	assert_row(links, 2, (const uint8_t[]){12, 12, 0, 12, 12, 12, 12, 12},
		(const uint8_t[]){NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_UNKNOWN, NVML_PATH_PXB,
			NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS});
}

static void links_without_nvlink_are_paths(void **state)
{
	_cleanup_free_ struct nvml_links *links = links_of("--links pcie-8");

	assert_row(links, 5, (const uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0},
		(const uint8_t[]){NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_SYS, NVML_PATH_PIX,
			NVML_PATH_UNKNOWN, NVML_PATH_NODE, NVML_PATH_NODE});
	assert_int_equal(links->nvlink_gbps, 0);
}

static void links_to_a_lost_gpu_are_none(void **state)
{
	_cleanup_free_ struct nvml_links *links = links_of("--links dgx1-v100"), *after = NULL;

	sim("fault", "3 lost");
	after = links_of("");
	assert_int_equal(links->between[0][3].nvlinks, 2);
	/* The lost GPU is not in the inventory: 4 has its place. */
	assert_int_equal(after->between[0][3].nvlinks, 2);
	assert_int_equal(after->between[1][3].nvlinks, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(links_of_dgx1_are_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_through_switches_are_between_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_without_nvlink_are_paths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_to_a_lost_gpu_are_none, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
