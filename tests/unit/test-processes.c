/* Which container a process belongs to. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/gpu/cgroup.h"
#include "agent/gpu/processes.h"

#define UID "6f1c2f0e-3c55-4a39-9a0b-0f1d2c3b4a59"
#define UID_SYSTEMD "6f1c2f0e_3c55_4a39_9a0b_0f1d2c3b4a59"
#define OTHER_UID "00000000-0000-0000-0000-000000000001"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static void place(const char *text, const char *uid, const char *id)
{
	struct cgroup_place found = {.uid = "untouched"};

	assert_int_equal(cgroup_parse(text, &found), 0);
	assert_string_equal(found.uid, uid);
	assert_string_equal(found.id, id);
}

static void nowhere(const char *text, int error)
{
	struct cgroup_place found = {.uid = "untouched"};

	assert_int_equal(cgroup_parse(text, &found), error);
	assert_string_equal(found.uid, "untouched");
}

static void both_drivers_and_both_versions_of_cgroups_are_read(void **state)
{
	place("0::/kubepods/burstable/pod" UID "/" ID "\n", UID, ID);
	place("0::/kubepods/pod" UID "/" ID "\n", UID, ID);
	place("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SYSTEMD
	      ".slice/cri-containerd-" ID ".scope\n",
		UID, ID);
	place("0::/kubepods.slice/kubepods-pod" UID_SYSTEMD ".slice/crio-" ID ".scope/container\n", UID, ID);
	place("12:memory:/kubepods/besteffort/pod" UID "/" ID "\n"
	      "4:cpu,cpuacct:/kubepods/besteffort/pod" UID "/" ID "\n"
	      "1:name=systemd:/kubepods/besteffort/pod" UID "/" ID "\n0::/\n",
		UID, ID);
	/* A lab, or a node in a container: the kubelet's --cgroup-root. */
	place("3:devices:/lab/n1/kubepods/burstable/pod" UID "/crio-" ID "\n0::/user.slice\n", UID, ID);
	/* Seen from the agent's own cgroup namespace. */
	place("0::/../../kubepods-burstable-pod" UID_SYSTEMD ".slice/cri-containerd-" ID ".scope\n", UID, ID);
	place("0::/../../pod" UID "/" ID, UID, ID);
}

static void a_static_pod_has_a_hash_for_its_uid(void **state)
{
	place("0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", "0123456789abcdef0123456789abcdef",
		ID);
}

static void a_process_in_the_pod_but_in_no_container_has_no_container(void **state)
{
	place("0::/kubepods/burstable/pod" UID "\n", UID, "");
	place("0::/kubepods/burstable/pod" UID "/\n", UID, "");
	place("0::/kubepods/burstable/pod" UID "/something\n", UID, "");
	place("0::/kubepods/burstable/pod" UID "/0" ID "\n", UID, "");
}

static void what_is_in_no_pod_is_nowhere(void **state)
{
	nowhere("", -ENOENT);
	nowhere("0::/\n", -ENOENT);
	nowhere("0::/user.slice/user-1000.slice/session-2.scope\n", -ENOENT);
	nowhere("0::/machine.slice/libpod-" ID ".scope\n", -ENOENT);
	nowhere("0::/pods/podman/" ID "\n", -ENOENT);
	nowhere("0::/kubepods/pod../" ID "\n", -ENOENT);
	nowhere("0::/kubepods/pod" UID "x/" ID "\n", -ENOENT);
	nowhere("0::/kubepods/pod" UID_SYSTEMD "/" ID "\n", -ENOENT);
	nowhere("0::/kubepods-pod" UID ".slice/" ID "\n", -ENOENT);
	nowhere("/kubepods/pod" UID "/" ID "\n", -ENOENT);
	nowhere(":\n::\n\n:::", -ENOENT);
}

static void names_that_a_container_gives_below_its_own_cgroup_do_not_count(void **state)
{
	place("0::/kubepods/burstable/pod" UID "/" ID "/kubepods/pod" OTHER_UID "/" OTHER_ID "\n", UID, ID);
	place("0::/kubepods/burstable/pod" UID "/" ID "/pod" OTHER_UID "/" OTHER_ID "\n", UID, ID);
	place("0::/kubepods/burstable/pod" UID "/pod" OTHER_UID "/" OTHER_ID "\n", UID, "");
	/* A line break in a name shows as \012 (fs/kernfs, seq_escape). */
	place("0::/kubepods/pod" UID "/" ID "/a\\0120::/kubepods/pod" OTHER_UID "/" OTHER_ID "\n", UID, ID);
}

static void hierarchies_that_disagree_say_nothing(void **state)
{
	nowhere("2:memory:/kubepods/pod" UID "/" ID "\n1:devices:/kubepods/pod" OTHER_UID "/" ID "\n",
		-EBADMSG);
	nowhere("2:memory:/kubepods/pod" UID "/" ID "\n1:devices:/kubepods/pod" UID "/" OTHER_ID "\n",
		-EBADMSG);
}

/* ---- a /proc of our own ---------------------------------------------------------------------------------
 */

static char proc[64];

static int set_up(void **state)
{
	strcpy(proc, "/tmp/ration-processes-XXXXXX");
	return mkdtemp(proc) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", proc);
	return system(command);
}

static void put(pid_t pid, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", proc, (int)pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/%s", proc, (int)pid, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

#define STAT(start)                                                                                          \
	"7 (a) b) S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 " #start " 1000 10 1 1 1 4096 0 0 0\n"

static void put_process(pid_t pid, const char *id)
{
	char cgroup[512];

	snprintf(cgroup, sizeof(cgroup), "0::/kubepods/pod" UID "/%s\n", id);
	put(pid, "cgroup", cgroup);
	put(pid, "status", "Name:\tx\nNSpid:\t1234\t56\t7\nThreads:\t1\n");
	put(pid, "comm", "python3\n");
	put(pid, "stat", STAT(100));
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_process_is_read_with_its_own_number_and_start(void **state)
{
	struct processes *processes;
	const struct process *process;
	char name[PROCESS_NAME_SIZE];

	put_process(getpid(), ID);
	assert_int_equal(processes_new(proc, &processes), 0);
	processes_begin(processes);
	process = processes_get(processes, getpid(), 100);
	assert_non_null(process);
	assert_string_equal(process->place.uid, UID);
	assert_string_equal(process->place.id, ID);
	assert_int_equal(OWNER_PID(process->owner.word), 7);
	assert_int_equal(process->owner.start_ticks, 100);
	assert_int_equal(process_image(processes, getpid()), 4096 >> 4);
	process_name(processes, getpid(), name);
	assert_string_equal(name, "python3");
	assert_null(processes_get(processes, 0x3fffff, 100));
	processes_free(processes);
}

static void a_process_that_began_after_the_question_is_another_one(void **state)
{
	struct processes *processes;

	put_process(getpid(), ID);
	assert_int_equal(processes_new(proc, &processes), 0);
	assert_null(processes_get(processes, getpid(), 99));
	processes_free(processes);
	assert_true(processes_now() > 0);
}

static void what_was_read_is_kept_while_the_process_lives_and_no_longer(void **state)
{
	pid_t pid = start_sleeper();
	const struct process *process;
	struct processes *processes;

	put_process(pid, ID);
	assert_int_equal(processes_new(proc, &processes), 0);
	assert_non_null(processes_get(processes, pid, 100));
	put_process(pid, OTHER_ID);
	processes_begin(processes);
	process = processes_get(processes, pid, 100);
	assert_non_null(process);
	assert_string_equal(process->place.id, ID);
	end(pid);
	/* As if the next one had the number already. */
	processes_begin(processes);
	process = processes_get(processes, pid, 100);
	if (process)
		assert_string_equal(process->place.id, OTHER_ID);
	processes_free(processes);
}

static void names_are_made_printable(void **state)
{
	struct processes *processes;
	char name[PROCESS_NAME_SIZE];

	put_process(getpid(), ID);
	put(getpid(), "comm", "a\n\033[1m(b), \"c\n");
	assert_int_equal(processes_new(proc, &processes), 0);
	process_name(processes, getpid(), name);
	assert_string_equal(name, "a??[1m?b????c");
	put(getpid(), "comm", "");
	process_name(processes, getpid(), name);
	assert_string_equal(name, "?");
	process_name(processes, 0x3fffff, name);
	assert_string_equal(name, "?");
	processes_free(processes);
}

static void files_of_proc_that_make_no_sense_are_no_process(void **state)
{
	struct processes *processes;

	put_process(getpid(), ID);
	assert_int_equal(processes_new(proc, &processes), 0);
	put(getpid(), "stat", "7 (a");
	assert_null(processes_get(processes, getpid(), 100));
	put(getpid(), "stat", "");
	assert_null(processes_get(processes, getpid(), 100));
	processes_free(processes);
}

static void more_processes_than_can_be_kept_are_left_out(void **state)
{
	struct processes *processes;
	size_t found = 0;

	for (int i = 0; i < PROCESSES_MAX + 10; i++)
		put_process(0x300000 + i, ID);
	assert_int_equal(processes_new(proc, &processes), 0);
	for (int i = 0; i < PROCESSES_MAX + 10; i++)
		found += processes_get(processes, 0x300000 + i, 100) != NULL;
	assert_int_equal(found, PROCESSES_MAX);
	/* None of them lives. */
	processes_begin(processes);
	assert_non_null(processes_get(processes, 0x300000 + PROCESSES_MAX + 9, 100));
	processes_free(processes);
}

int main(void)
{
#define IN_PROC(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_drivers_and_both_versions_of_cgroups_are_read),
		cmocka_unit_test(a_static_pod_has_a_hash_for_its_uid),
		cmocka_unit_test(a_process_in_the_pod_but_in_no_container_has_no_container),
		cmocka_unit_test(what_is_in_no_pod_is_nowhere),
		cmocka_unit_test(names_that_a_container_gives_below_its_own_cgroup_do_not_count),
		cmocka_unit_test(hierarchies_that_disagree_say_nothing),
		IN_PROC(a_process_is_read_with_its_own_number_and_start),
		IN_PROC(a_process_that_began_after_the_question_is_another_one),
		IN_PROC(what_was_read_is_kept_while_the_process_lives_and_no_longer),
		IN_PROC(names_are_made_printable),
		IN_PROC(files_of_proc_that_make_no_sense_are_no_process),
		IN_PROC(more_processes_than_can_be_kept_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
