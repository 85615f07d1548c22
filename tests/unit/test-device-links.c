/* Which runc drops devices from systemd's units, and whether NVIDIA's devices have the links that it looks
 * for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/device-links.h"

static char dev[64];

static void make(const char *path, const char *target)
{
	char where[200];
	FILE *file;

	snprintf(where, sizeof(where), "%s/%s", dev, path);
	if (target) {
		assert_int_equal(symlink(target, where), 0);
		return;
	}
	file = fopen(where, "w");
	assert_non_null(file);
	fclose(file);
}

static int set_up(void **state)
{
	char path[100];

	snprintf(dev, sizeof(dev), "/tmp/ration-device-links-XXXXXX");
	if (!mkdtemp(dev))
		return -1;
	snprintf(path, sizeof(path), "%s/char", dev);
	return mkdir(path, 0755);
}

static int tear_down(void **state)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -r %s", dev);
	return system(command);
}

static void runc_1_1_3_to_1_1_6_drops_devices(void **state)
{
	static const char *const does[] = {"1.1.3", "1.1.4-0ubuntu1~22.04.3", "1.1.5+ds1", "1.1.6"};
	static const char *const does_not[] = {
		"1.1.2", "1.1.7", "1.1.12", "1.1.50", "1.0.3", "1.2.4", "2.1.5", "1.1", "", "main"};

	for (size_t i = 0; i < sizeof(does) / sizeof(*does); i++)
		assert_true(runc_drops_devices(does[i]));
	for (size_t i = 0; i < sizeof(does_not) / sizeof(*does_not); i++)
		assert_false(runc_drops_devices(does_not[i]));
}

static void a_device_without_link_is_missing(void **state)
{
	make("nvidia0", NULL);
	make("nvidiactl", NULL);
	make("nvidia-uvm", NULL);
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_MISSING);
	make("char/195:0", "../nvidia0");
	make("char/510:0", "../nvidia-uvm");
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_MISSING);
	make("char/195:255", "../nvidiactl");
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_THERE);
	make("nvidia10", NULL);
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_MISSING);
}

static void links_to_other_devices_do_not_count(void **state)
{
	make("null", NULL);
	make("char/1:3", "../null");
	make("char/195:254", "../nvidia-modeset");
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_MISSING);
	/* --create-all makes links of devices that are not there yet. */
	make("char/195:0", "/dev/nvidia0");
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_THERE);
	make("nvidia-modeset", NULL);
	make("nvidia-caps", NULL);
	make("nvidia0x", NULL);
	assert_int_equal(device_links_look(dev), DEVICE_LINKS_THERE);
}

static void a_folder_that_cannot_be_read_says_nothing(void **state)
{
	assert_int_equal(device_links_look("/nonexistent/dev"), DEVICE_LINKS_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runc_1_1_3_to_1_1_6_drops_devices),
		cmocka_unit_test_setup_teardown(a_device_without_link_is_missing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_to_other_devices_do_not_count, set_up, tear_down),
		cmocka_unit_test(a_folder_that_cannot_be_read_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
