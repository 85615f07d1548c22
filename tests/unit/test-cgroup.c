/* Whose a process is, by its cgroup: what looks like the place of a container and is none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/gpu/cgroup.h"

#define UID "3b1f2c4d-0000-4111-8222-0123456789ab"
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NO_HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg"

static void assert_place(const char *text, const char *uid, const char *id)
{
	struct cgroup_place place;

	assert_int_equal(cgroup_parse(text, &place), 0);
	assert_string_equal(place.uid, uid);
	assert_string_equal(place.id, id);
}

static void a_container_is_named_by_64_hexadecimal_digits(void **state)
{
	assert_place("0::/kubepods/pod" UID "/" HEX "\n", UID, HEX);
	assert_place("0::/kubepods/pod" UID "/cri-containerd-" HEX ".scope\n", UID, HEX);
	assert_place("0::/kubepods/pod" UID "/" NO_HEX "\n", UID, "");
	assert_place("0::/kubepods/pod" UID "/cri-containerd-" NO_HEX ".scope\n", UID, "");
	assert_place("0::/kubepods/pod" UID "/x" HEX "\n", UID, "");
}

static void a_process_of_two_containers_is_nobodys(void **state)
{
	struct cgroup_place place;

	assert_place("1:cpu:/kubepods/pod" UID "/" HEX "\n0::/kubepods/pod" UID "/" HEX "\n", UID, HEX);
	assert_int_equal(
		cgroup_parse("1:cpu:/kubepods/pod" UID "/" HEX "\n0::/kubepods/pod" UID "/\n", &place),
		-EBADMSG);
	assert_int_equal(cgroup_parse("0::/system.slice/" HEX "\n", &place), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_container_is_named_by_64_hexadecimal_digits),
		cmocka_unit_test(a_process_of_two_containers_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
