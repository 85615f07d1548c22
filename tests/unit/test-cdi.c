/* What a container gets: variables, the CDI file, driver files, ids, modes, the runtime's answer. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent-fixture.h"
#include "agent/container/cdi.h"
#include "agent/container/driver-files.h"
#include "agent/container/driver.h"
#include "agent/container/allotment.h"
#include "agent/container/images.h"
#include "node/inventory.h"
#include "kube/node-mode.h"
#include "node/pods.h"
#include "node/served.h"
#include "agent/container/runtime.h"
#include "agent/container/state-mount.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"

static void two_gpus(struct inventory *inventory, uint32_t unit_mib)
{
	struct gpu gpus[2] = {{.facts = {.index = 0, .mib = 16384, .healthy = true}, .minor = 4},
		{.facts = {.index = 1, .mib = 16160, .healthy = true}, .minor = 7}};

	strcpy(gpus[0].facts.uuid, UUID_0);
	strcpy(gpus[1].facts.uuid, UUID_1);
	*inventory = (struct inventory){.unit_mib = unit_mib};
	assert_true(inventory_update(inventory, gpus, 2));
	assert_false(inventory_update(inventory, gpus, 2));
}

static const char *value_of(const struct allotment *allotment, const char *name)
{
	for (size_t i = 0; i < allotment->n_variables; i++)
		if (strcmp(allotment->variables[i].name, name) == 0)
			return allotment->variables[i].value;
	return NULL;
}

static void variables_are_those_of_the_documents(void **state)
{
	struct inventory inventory;
	struct pod_facts pod;
	struct allotment allotment;
	struct error err = {""};

	two_gpus(&inventory, 1024);
	fixture_pod(&pod, "u", "p");
	fixture_add(&pod, "a", CONTAINER_MAIN, 4, UUID_0);
	fixture_add(&pod, "b", CONTAINER_MAIN, 2, UUID_0);
	assert_int_equal(allotment_build(&inventory, &pod, "a", true, &allotment, &err), 0);
	/* seeds: a V100 of 16384 MiB has 16 units */
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_CONTAINER"), "4");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_DEV"), "16");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_IDX"), "0");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_POD"), "6");
	assert_string_equal(value_of(&allotment, "NVIDIA_VISIBLE_DEVICES"), "void");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_VISIBLE_DEVICES"), UUID_0);
	assert_int_equal(allotment_build(&inventory, &pod, "a", false, &allotment, &err), 0);
	assert_string_equal(value_of(&allotment, "NVIDIA_VISIBLE_DEVICES"), UUID_0);
	assert_null(value_of(&allotment, "ALIYUN_COM_GPU_VISIBLE_DEVICES"));
	assert_int_equal(allotment_build(&inventory, &pod, "c", true, &allotment, &err), -ENOENT);
	pod_facts_release(&pod);
}

/* GPUs of 16 and of 15 units: 3 of 16 are no more than 3 units on either, 3 of 15 would be on the larger. */
static void variables_of_several_gpus(void **state)
{
	struct inventory inventory;
	struct pod_facts pod;
	struct allotment allotment;
	struct error err = {""};

	two_gpus(&inventory, 1024);
	fixture_pod(&pod, "u", "p");
	fixture_add(&pod, "a", CONTAINER_MAIN, 6, NULL);
	fixture_add(&pod, "b", CONTAINER_MAIN, 2, NULL);
	assert_int_equal(request_set_gpus(&pod.request, 2, NULL), 0);
	pod.placement.unit_mib = 1024;
	pod.has_placement = true;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(placement_add(&pod.placement, "a", i ? UUID_0 : UUID_1, 3, 0), 0);
		assert_int_equal(placement_add(&pod.placement, "b", i ? UUID_0 : UUID_1, 1, 0), 0);
	}
	assert_int_equal(allotment_build(&inventory, &pod, "a", true, &allotment, &err), 0);
	assert_int_equal(allotment.n_gpus, 2);
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_CONTAINER"), "3");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_DEV"), "16");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_IDX"), "1,0");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_POD"), "8");
	assert_string_equal(value_of(&allotment, "NVIDIA_VISIBLE_DEVICES"), "void");
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_VISIBLE_DEVICES"), UUID_1 "," UUID_0);
	assert_int_equal(allotment_build(&inventory, &pod, "b", false, &allotment, &err), 0);
	assert_string_equal(value_of(&allotment, "ALIYUN_COM_GPU_MEM_CONTAINER"), "1");
	assert_string_equal(value_of(&allotment, "NVIDIA_VISIBLE_DEVICES"), UUID_1 "," UUID_0);
	assert_string_equal(allotment_value(&allotment, "NVIDIA_VISIBLE_DEVICES"), UUID_1 "," UUID_0);
	assert_string_equal(allotment_value(&allotment, "PATH"), "");
	pod_facts_release(&pod);
}

static void gpu_that_is_not_here_is_named(void **state)
{
	struct inventory inventory;
	struct pod_facts pod;
	struct allotment allotment;
	struct error err = {""};

	two_gpus(&inventory, 1024);
	fixture_pod(&pod, "u", "p");
	fixture_add(&pod, "a", CONTAINER_MAIN, 4, "GPU-elsewhere");
	assert_int_equal(allotment_build(&inventory, &pod, "a", true, &allotment, &err), -ENOENT);
	assert_non_null(strstr(err.text, "default/p was placed on GPU GPU-elsewhere"));
	pod_facts_release(&pod);
}

static void gpu_that_vanishes_keeps_its_units_and_is_sick(void **state)
{
	struct inventory inventory;
	struct gpu one;

	two_gpus(&inventory, 1024);
	one = inventory.gpus[1];
	assert_true(inventory_update(&inventory, &one, 1));
	assert_int_equal(inventory.n_gpus, 2);
	assert_false(inventory_find(&inventory, UUID_0)->facts.healthy);
	assert_true(inventory_find(&inventory, UUID_1)->facts.healthy);
	assert_int_equal(inventory_units(&inventory), 16 + 15);
}

/* Driver tree and CDI file */

static void touch(const char *root, const char *file)
{
	char path[300], folder[300];

	snprintf(path, sizeof(path), "%s/%s", root, file);
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(fs_mkdir_parents(folder, 0755), 0);
	assert_int_equal(fs_write_atomic(path, 0644, "x", 1), 0);
}

static void make_tree(char *root)
{
	char path[300];

	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, (const char *[]){"lib", "bin", "dev", "cdi"}[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	touch(root, "lib/libnvidia-ml.so.1");
	touch(root, "lib/libnvidia-ml.so.515.105.01");
	touch(root, "lib/libcudart.so.11"); /* not the driver's */
	touch(root, "bin/nvidia-smi");
	touch(root, "dev/nvidia7");
	touch(root, "dev/nvidiactl");
}

static void remove_tree(const char *root)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	assert_int_equal(system(command), 0);
}

static bool has_mount(const struct driver *driver, const char *host, const char *container)
{
	for (size_t i = 0; i < driver->n_mounts; i++)
		if (strcmp(driver->mounts[i].host, host) == 0 &&
			strcmp(driver->mounts[i].container, container) == 0)
			return true;
	return false;
}

static void driver_files_are_found_under_both_search_directories(void **state)
{
	char root[] = "/tmp/test-cdi-XXXXXX";
	struct error err = {""};
	struct driver driver;

	make_tree(root);
	driver_init(&driver, root, "/host/");
	assert_int_equal(driver_scan(&driver, &err), 0);
	assert_int_equal(driver.n_mounts, 2 * 2 + 1);
	assert_true(has_mount(&driver, "/host/lib/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1"));
	assert_true(has_mount(&driver, "/host/bin/nvidia-smi", "/usr/bin/nvidia-smi"));
	assert_int_equal(driver.n_devices, 1);
	driver_release(&driver);
	remove_tree(root);
}

static void missing_driver_is_said(void **state)
{
	struct error err = {""};
	struct driver driver;

	driver_init(&driver, "/nonexistent", "/nonexistent");
	assert_int_equal(driver_scan(&driver, &err), -ENOENT);
	assert_non_null(strstr(err.text, "--driver-root"));
	driver_release(&driver);
}

static void extra_mounts_that_leave_the_tree_are_refused(void **state)
{
	static const char *const bad[] = {"{\"mounts\":[{\"source\":\"../etc\",\"target\":\"/x\"}]}",
		"{\"mounts\":[{\"source\":\"a\",\"target\":\"relative\"}]}", "{\"mounts\":[{}]}", "{"};
	char root[] = "/tmp/test-cdi-XXXXXX", path[300];

	make_tree(root);
	snprintf(path, sizeof(path), "%s/mounts.json", root);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = {""};
		struct driver driver;

		assert_int_equal(fs_write_atomic(path, 0644, bad[i], strlen(bad[i])), 0);
		driver_init(&driver, root, root);
		assert_true(driver_scan(&driver, &err) < 0);
		assert_true(err.text[0] != '\0');
		driver_release(&driver);
	}
	remove_tree(root);
}

static void cdi_file_has_one_device_per_container_and_is_left_alone_when_right(void **state)
{
	char root[] = "/tmp/test-cdi-XXXXXX", dir[300], path[400], uid[64];
	_cleanup_free_ char *text = NULL;
	struct error err = {""};
	struct inventory inventory;
	struct driver driver;
	struct node_pod pod = {.shown.n_containers = 0};
	struct stat before, after;
	struct served served;
	size_t len;

	make_tree(root);
	served_init(&served);
	snprintf(dir, sizeof(dir), "%s/cdi", root);
	two_gpus(&inventory, 1024);
	driver_init(&driver, root, "/host");
	assert_int_equal(driver_scan(&driver, &err), 0);
	fixture_pod(&pod.facts, "3b1f", "p");
	fixture_add(&pod.facts, "a", CONTAINER_INIT, 4, UUID_1);
	fixture_add(&pod.facts, "b", CONTAINER_MAIN, 2, UUID_1);
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &pod, "b", NULL, &err), 0);
	assert_int_equal(cdi_path(dir, "3b1f", path, sizeof(path)), 0);
	assert_int_equal(fs_read(path, 1 << 20, &text, &len), 0);
	assert_non_null(strstr(text, "\"kind\":\"ration.dev/grant\""));
	assert_non_null(strstr(text, "\"name\":\"3b1f.a\""));
	assert_non_null(strstr(text, "\"name\":\"3b1f.b\""));
	/* a plain file stands in for the node, so it is mounted; minor 7, not index 1 */
	assert_non_null(strstr(text, "\"hostPath\":\"/host/dev/nvidia7\""));
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &pod, "b", NULL, &err), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_true(cdi_exists(dir, "3b1f"));
	assert_true(cdi_uid("ration-3b1f.json", uid, sizeof(uid)));
	assert_string_equal(uid, "3b1f");
	cdi_remove(dir, "3b1f");
	cdi_remove(dir, "3b1f");
	assert_false(cdi_exists(dir, "3b1f"));
	pod_facts_release(&pod.facts);
	driver_release(&driver);
	remove_tree(root);
}

static char *devices_of(const char *dir, const char *uid)
{
	char path[400], *text;
	size_t len;

	assert_int_equal(cdi_path(dir, uid, path, sizeof(path)), 0);
	assert_int_equal(fs_read(path, 1 << 20, &text, &len), 0);
	return text;
}

/* Allocate of the second pod was taken for a call of the first one. */
static void cdi_files_have_the_names_that_the_kubelet_was_answered(void **state)
{
	char root[] = "/tmp/test-cdi-XXXXXX", dir[300], *ids[] = {"0-1"}, *more[] = {"0-2"};
	_cleanup_free_ char *first = NULL, *second = NULL, *rest = NULL;
	struct node_pod one = {.shown.n_containers = 0}, two = {.shown.n_containers = 0};
	struct error err = {""};
	struct inventory inventory;
	struct driver driver;
	_cleanup_served_ struct served served;

	make_tree(root);
	served_init(&served);
	snprintf(dir, sizeof(dir), "%s/cdi", root);
	two_gpus(&inventory, 1024);
	driver_init(&driver, root, "/host");
	assert_int_equal(driver_scan(&driver, &err), 0);
	fixture_pod(&one.facts, "u1", "one");
	fixture_add(&one.facts, "a", CONTAINER_MAIN, 4, UUID_1);
	fixture_add(&one.facts, "b", CONTAINER_MAIN, 4, UUID_1);
	fixture_pod(&two.facts, "u2", "two");
	fixture_add(&two.facts, "a", CONTAINER_MAIN, 2, UUID_1);
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &one, "a", NULL, &err), 0);
	served_add(&served, "u1", "b", more, 1);
	served_add(&served, "u2", "a", ids, 1);
	served_set_answer(&served, "u2", "a", "u1.a", NULL);
	assert_int_equal(cdi_remove_device(dir, "u1", "u1.a", &err), 0);
	assert_int_equal(cdi_remove_device(dir, "u1", "u1.a", &err), 0);
	first = devices_of(dir, "u1");
	assert_null(strstr(first, "\"u1.a\""));
	assert_non_null(strstr(first, "\"u1.b\""));
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &two, "a", NULL, &err), 0);
	second = devices_of(dir, "u2");
	assert_non_null(strstr(second, "\"u1.a\""));
	assert_null(strstr(second, "\"u2.a\""));
	assert_non_null(strstr(second, "ALIYUN_COM_GPU_MEM_CONTAINER=2"));
	/* the first pod's file, written once more, does not have it back */
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &one, "b", NULL, &err), 0);
	rest = devices_of(dir, "u1");
	assert_null(strstr(rest, "\"u1.a\""));
	assert_int_equal(cdi_remove_device(dir, "u1", "u1.b", &err), 0);
	assert_false(cdi_exists(dir, "u1")); /* a file without devices is none */
	assert_int_equal(cdi_remove_device(dir, "../u1", "u1.b", &err), 0);
	pod_facts_release(&one.facts);
	pod_facts_release(&two.facts);
	driver_release(&driver);
	remove_tree(root);
}

/* The mounts of a container whose spec sets NVIDIA_DRIVER_CAPABILITIES to this; NULL: it does not. To be
 * freed. */
static char *mounts_with(const char *root, const char *capabilities)
{
	char dir[300], path[400], *text;
	struct container_spec spec = {.name = (char *)"c", .capabilities = (char *)capabilities};
	struct node_pod pod = {.shown.containers = &spec, .shown.n_containers = capabilities ? 1 : 0};
	struct inventory inventory;
	struct error err = {""};
	struct served served;
	struct driver driver;
	size_t len;

	served_init(&served);
	snprintf(dir, sizeof(dir), "%s/cdi", root);
	two_gpus(&inventory, 1024);
	driver_init(&driver, root, root);
	assert_int_equal(driver_scan(&driver, &err), 0);
	fixture_pod(&pod.facts, "u", "p");
	fixture_add(&pod.facts, "c", CONTAINER_MAIN, 2, UUID_1);
	assert_int_equal(cdi_write(dir, &inventory, &driver, &served, &pod, "c", NULL, &err), 0);
	assert_int_equal(cdi_path(dir, "u", path, sizeof(path)), 0);
	assert_int_equal(fs_read(path, 1 << 20, &text, &len), 0);
	pod_facts_release(&pod.facts);
	driver_release(&driver);
	return text;
}

#define HAS_VIDEO 1
#define HAS_GRAPHICS 2
#define HAS_NGX 4

/* By the capabilities' meaning in NVIDIA's documents (container toolkit, "Driver Capabilities"). */
static void a_container_gets_the_files_of_its_capabilities(void **state)
{
	static const struct {
		const char *inside;
		int needs;
	} files[] = {
		{"libnvidia-ptxjitcompiler.so.1", 0},
		{"libnvcuvid.so.1", HAS_VIDEO},
		{"libnvidia-encode.so.1", HAS_VIDEO},
		{"vdpau/libvdpau_nvidia.so.1", HAS_VIDEO},
		{"libEGL_nvidia.so.0", HAS_GRAPHICS},
		{"libGLX_nvidia.so.0", HAS_GRAPHICS},
		{"gbm/nvidia-drm_gbm.so", HAS_GRAPHICS},
		{"libnvidia-ngx.so.1", HAS_NGX},
	};
	static const struct {
		const char *capabilities;
		int has;
	} cases[] = {
		{NULL, 0},
		{"", 0},
		{"compute,utility", 0},
		{"video", HAS_VIDEO},
		{"compute,utility,video", HAS_VIDEO},
		{"compute, video", HAS_VIDEO},
		{"graphics", HAS_GRAPHICS},
		{"display", HAS_GRAPHICS},
		{"ngx,graphics", HAS_NGX | HAS_GRAPHICS},
		{"all", HAS_VIDEO | HAS_GRAPHICS | HAS_NGX},
		{"VIDEO", 0},
		{"videos", 0},
	};
	char root[] = "/tmp/test-cdi-XXXXXX", file[200];

	make_tree(root);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(file, sizeof(file), "lib/%s", files[i].inside);
		touch(root, file);
	}
	touch(root, "lib/libnvidia-gtk3.so.1"); /* for a person's desktop */
	touch(root, "usr/share/glvnd/egl_vendor.d/10_nvidia.json");
	touch(root, "usr/share/vulkan/icd.d/nvidia_icd.json");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = mounts_with(root, cases[i].capabilities);

		for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
			bool given = !files[k].needs || (files[k].needs & cases[i].has);

			snprintf(file, sizeof(file), "\"containerPath\":\"/usr/lib64/%s\"", files[k].inside);
			assert_int_equal(strstr(text, file) != NULL, given);
		}
		assert_int_equal(
			strstr(text, "\"containerPath\":\"/usr/share/glvnd/egl_vendor.d/10_nvidia.json\"") !=
				NULL,
			(cases[i].has & HAS_GRAPHICS) != 0);
		assert_int_equal(
			strstr(text, "\"containerPath\":\"/etc/vulkan/icd.d/nvidia_icd.json\"") != NULL,
			(cases[i].has & HAS_GRAPHICS) != 0);
		assert_null(strstr(text, "gtk3"));
	}
	remove_tree(root);
}

static void a_name_that_is_no_capability_is_told(void **state)
{
	char unknown[8];

	assert_int_equal(driver_capabilities("video,compat32,foo", unknown, sizeof(unknown)), HAS_VIDEO);
	assert_string_equal(unknown, "compat3"); /* cut to the room there is */
	assert_int_equal(driver_capabilities(",, ,", unknown, sizeof(unknown)), 0);
	assert_string_equal(unknown, "");
}

static void assert_image(const char *info, const char *want)
{
	char *found = images_read(info, strlen(info));

	if (want)
		assert_string_equal(found, want);
	else
		assert_null(found);
	free(found);
}

#define IMAGE(env) "{\"chainID\":\"x\",\"imageSpec\":{\"config\":{\"Env\":" env "}}}"

static void what_an_image_sets_is_read_and_nonsense_is_nothing(void **state)
{
	assert_image(IMAGE("[\"PATH=/bin\",\"NVIDIA_DRIVER_CAPABILITIES=video,compute\"]"), "video,compute");
	assert_image(IMAGE("[\"NVIDIA_DRIVER_CAPABILITIES=\"]"), "");
	assert_image(IMAGE("[\"NVIDIA_DRIVER_CAPABILITIES=all\",\"NVIDIA_DRIVER_CAPABILITIES=ngx\"]"), "ngx");
	assert_image(IMAGE("[\"NVIDIA_DRIVER_CAPABILITIES\"]"), NULL);
	assert_image(IMAGE("[\"MY_NVIDIA_DRIVER_CAPABILITIES=all\"]"), NULL);
	assert_image(IMAGE("[7,null,{}]"), NULL);
	assert_image(IMAGE("\"NVIDIA_DRIVER_CAPABILITIES=all\""), NULL);
	assert_image("{\"imageSpec\":[]}", NULL);
	assert_image("[]", NULL);
	assert_image("{", NULL);
	assert_image("", NULL);
}

static void uid_that_is_a_path_and_names_that_are_not_ours_are_refused(void **state)
{
	char buf[64];

	assert_int_equal(cdi_path("/d", "../x", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(cdi_path("/d", "", buf, sizeof(buf)), -EINVAL);
	assert_false(cdi_uid("nvidia.json", buf, sizeof(buf)));
	assert_false(cdi_uid("ration-.json", buf, sizeof(buf)));
	assert_false(cdi_uid("ration-x.json.tmp-1", buf, sizeof(buf)));
}

static void link_library(const char *root, const char *library, const char *version)
{
	char link[300], target[100], file[100];

	snprintf(file, sizeof(file), "lib/%s.so.%s", library, version);
	touch(root, file);
	snprintf(link, sizeof(link), "%s/lib/%s.so.1", root, library);
	snprintf(target, sizeof(target), "%s.so.%s", library, version);
	unlink(link);
	assert_int_equal(symlink(target, link), 0);
}

static void driver_version_is_in_the_names_of_both_libraries_or_there_is_none(void **state)
{
	static const struct {
		const char *cuda, *nvml, *version, *problem;
	} cases[] = {
		{"515.105.01", "515.105.01", "515.105.01", ""},
		{"515.105.01", "550.54.15", "",
			"libcuda.so.1 is of version 515.105.01, libnvidia-ml.so.1 of 550.54.15"},
		{"515", "515", "", "libcuda.so.1 of the NVIDIA driver"}, /* no version of a driver */
		{NULL, "515.105.01", "", "libcuda.so.1 of the NVIDIA driver"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char root[] = "/tmp/test-cdi-XXXXXX", host[300];
		struct error err = {""};
		struct driver driver;

		make_tree(root);
		touch(root, "lib/libcuda.so.470.1"); /* what an older driver has left */
		if (cases[i].cuda)
			link_library(root, "libcuda", cases[i].cuda);
		link_library(root, "libnvidia-ml", cases[i].nvml);
		driver_init(&driver, root, "/host/");
		assert_int_equal(driver_scan(&driver, &err), 0);
		assert_string_equal(driver.version, cases[i].version);
		assert_non_null(strstr(driver.version_problem, cases[i].problem));
		assert_int_equal(driver.version[0] == '\0', driver.version_problem[0] != '\0');
		assert_int_equal(driver_library_host(&driver, DRIVER_CUDA, host, sizeof(host)),
			driver.version[0] ? 0 : -ENOENT);
		if (driver.version[0])
			assert_string_equal(host, "/host/lib/libcuda.so.515.105.01");
		driver_release(&driver);
		remove_tree(root);
	}
}

static void driver_that_changes_while_it_is_looked_at_is_seen(void **state)
{
	char root[] = "/tmp/test-cdi-XXXXXX", lib[300];
	struct error err = {""};
	struct driver driver;
	struct timespec times[2];
	struct stat st;

	make_tree(root);
	snprintf(lib, sizeof(lib), "%s/lib", root);
	link_library(root, "libcuda", "515.105.01");
	link_library(root, "libnvidia-ml", "515.105.01");
	driver_init(&driver, root, "/host");
	assert_int_equal(driver_scan(&driver, &err), 0);
	assert_int_equal(driver_scan(&driver, &err), 0);
	assert_int_equal(driver.generation, 1);
	assert_int_equal(stat(lib, &st), 0);
	link_library(root, "libcuda", "550.54.15");
	link_library(root, "libnvidia-ml", "550.54.15");
	/* The folder's time is that of the tick, and the tick is still the same. */
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(utimensat(AT_FDCWD, lib, times, 0), 0);
	assert_int_equal(driver_scan(&driver, &err), 0);
	assert_string_equal(driver.version, "550.54.15");
	assert_int_equal(driver.generation, 2);
	/* A folder that has rested is not read again. */
	times[1].tv_sec -= 60;
	assert_int_equal(utimensat(AT_FDCWD, lib, times, 0), 0);
	assert_int_equal(driver_scan(&driver, &err), 0);
	assert_true(driver.settled);
	assert_int_equal(driver.generation, 2);
	driver_release(&driver);
	remove_tree(root);
}

static void names_that_are_no_file_names_have_no_grant(void **state)
{
	static const char *const bad[] = {
		"", ".", "..", "a/b", "../x", ".hidden", "a b", "a,b", "a\nb", "\xc3\xbc"};
	char buf[PATH_MAX], large[300];

	assert_int_equal(grants_folder_path("/s", "3b1f-0", "main", "grant", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "/s/grants/3b1f-0/main/grant");
	assert_int_equal(grants_folder_path("/s", "3b1f-0", "", "", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "/s/grants/3b1f-0");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(grants_folder_path("/s", bad[i], "main", "", buf, sizeof(buf)), -EINVAL);
		if (bad[i][0])
			assert_int_equal(
				grants_folder_path("/s", "u", bad[i], "", buf, sizeof(buf)), -EINVAL);
	}
	memset(large, 'a', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	assert_int_equal(grants_folder_path("/s", large, "main", "", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(grants_folder_path("/s", "u", "main", "grant", buf, 12), -ENAMETOOLONG);
}

static void mount_below_a_shared_one_reaches_the_host(void **state)
{
	static const char mountinfo[] = "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
					"30 20 0:5 / /run rw,nosuid master:7 - tmpfs tmpfs rw\n"
					"31 30 0:6 / /run/ration rw shared:9 master:2 - tmpfs tmpfs rw\n"
					"32 30 0:7 / /run/rationed rw - tmpfs tmpfs rw\n"
					"33 30 0:8 /shared:3 /run/odd rw - shared:1 shared:2 rw\n"
					"torn line";

	assert_true(mountinfo_is_shared(mountinfo, "/var/lib"));
	assert_false(mountinfo_is_shared(mountinfo, "/run/other"));
	assert_true(mountinfo_is_shared(mountinfo, "/run/ration"));
	assert_true(mountinfo_is_shared(mountinfo, "/run/ration/shim"));
	assert_false(mountinfo_is_shared(mountinfo, "/run/rationed"));
	assert_false(mountinfo_is_shared(mountinfo, "/run/odd"));
	assert_false(mountinfo_is_shared("", "/run/ration"));
	/* mounted over */
	assert_false(mountinfo_is_shared(
		"20 1 8:1 / /a rw shared:1 - x y rw\n21 20 8:2 / /a rw - x y rw", "/a/b"));
}

/* Ids */

static void label_decides_and_legacy_labels_are_weaker(void **state)
{
	static const struct {
		struct mode_labels labels;
		enum gpu_mode asked;
		bool refused;
	} cases[] = {
		{{"share", NULL, NULL}, GPU_MODE_SHARE, false},
		{{"default", "true", NULL}, GPU_MODE_NONE, false},
		{{NULL, NULL, NULL}, GPU_MODE_NONE, false},
		{{NULL, "true", NULL}, GPU_MODE_SHARE, false},
		{{NULL, "false", NULL}, GPU_MODE_NONE, false},
		{{NULL, NULL, "true"}, GPU_MODE_CGPU, false},
		{{NULL, NULL, "1"}, GPU_MODE_NONE, false},
		{{NULL, "true", "true"}, GPU_MODE_SHARE, false},
		{{"share", NULL, "true"}, GPU_MODE_SHARE, false},
		{{"cgpu", "true", NULL}, GPU_MODE_CGPU, false},
		{{"default", NULL, "true"}, GPU_MODE_NONE, false},
		{{"core_mem", NULL, NULL}, GPU_MODE_CORE_MEM, false},
		{{"topology", NULL, NULL}, GPU_MODE_TOPOLOGY, false},
		{{"mps", NULL, NULL}, GPU_MODE_NONE, true},
		{{"Share", NULL, NULL}, GPU_MODE_NONE, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mode mode;

		mode_from_labels(&cases[i].labels, "n1", &mode);
		assert_int_equal(mode.asked, cases[i].asked);
		assert_int_equal(mode.refused, cases[i].refused);
		assert_int_equal(mode.sentence[0] != '\0', cases[i].refused);
	}
}

/* The runtime */

static bool does_cdi(const char *config)
{
	return runtime_config_does_cdi(config, strlen(config), "/var/run/cdi");
}

static void runtime_does_cdi_only_if_it_says_so(void **state)
{
	/* containerd 2.4: always on; 1.7: off unless enabled; before: not there */
	assert_true(does_cdi("{\"cdiSpecDirs\":[\"/etc/cdi\",\"/var/run/cdi\"]}"));
	assert_true(does_cdi("{\"enableCDI\":true,\"cdiSpecDirs\":[\"/run/cdi/\"]}"));
	assert_false(does_cdi("{\"enableCDI\":false,\"cdiSpecDirs\":[\"/var/run/cdi\"]}"));
	assert_false(does_cdi("{\"enableCDI\":\"true\",\"cdiSpecDirs\":[\"/var/run/cdi\"]}"));
	assert_false(does_cdi("{\"cdiSpecDirs\":[\"/etc/cdi\"]}"));
	assert_false(does_cdi("{\"cdiSpecDirs\":\"/var/run/cdi\"}"));
	assert_false(does_cdi("{}"));
	/* CRI-O 1.34.0, server/runtime_status.go: the fields of its RuntimeConfig have no names for JSON */
	assert_true(does_cdi("{\"sandboxImage\":\"registry.k8s.io/pause:3.10.1\",\"crio\":{\"NoPivot\":false,"
			     "\"CDISpecDirs\":[\"/etc/cdi\",\"/var/run/cdi\"]}}"));
	assert_false(does_cdi("{\"crio\":{\"CDISpecDirs\":[\"/etc/cdi\"]}}"));
	assert_false(does_cdi("{\"crio\":{\"NoPivot\":false}}"));
	assert_false(does_cdi("{\"crio\":\"CDISpecDirs\"}"));
	assert_false(does_cdi("[crio]\ncdi_spec_dirs = []\n"));
	assert_false(does_cdi(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_those_of_the_documents),
		cmocka_unit_test(variables_of_several_gpus),
		cmocka_unit_test(gpu_that_is_not_here_is_named),
		cmocka_unit_test(gpu_that_vanishes_keeps_its_units_and_is_sick),
		cmocka_unit_test(driver_files_are_found_under_both_search_directories),
		cmocka_unit_test(missing_driver_is_said),
		cmocka_unit_test(extra_mounts_that_leave_the_tree_are_refused),
		cmocka_unit_test(cdi_file_has_one_device_per_container_and_is_left_alone_when_right),
		cmocka_unit_test(cdi_files_have_the_names_that_the_kubelet_was_answered),
		cmocka_unit_test(a_container_gets_the_files_of_its_capabilities),
		cmocka_unit_test(a_name_that_is_no_capability_is_told),
		cmocka_unit_test(what_an_image_sets_is_read_and_nonsense_is_nothing),
		cmocka_unit_test(uid_that_is_a_path_and_names_that_are_not_ours_are_refused),
		cmocka_unit_test(driver_version_is_in_the_names_of_both_libraries_or_there_is_none),
		cmocka_unit_test(driver_that_changes_while_it_is_looked_at_is_seen),
		cmocka_unit_test(names_that_are_no_file_names_have_no_grant),
		cmocka_unit_test(mount_below_a_shared_one_reaches_the_host),
		cmocka_unit_test(label_decides_and_legacy_labels_are_weaker),
		cmocka_unit_test(runtime_does_cdi_only_if_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
