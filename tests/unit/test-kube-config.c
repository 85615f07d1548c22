#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "kube/config.h"

static char folder[64], path[128];

static int open_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/test-kube-config-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/config", folder);
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
	setenv("HOME", folder, 1);
	return 0;
}

static int close_folder(void **state)
{
	unlink(path);
	return rmdir(folder);
}

static void write_config(const char *text)
{
	assert_int_equal(fs_write_atomic(path, 0600, text, strlen(text)), 0);
}

#define CONTEXTS                                                                                             \
	"apiVersion: v1\nkind: Config\ncurrent-context: one\n"                                               \
	"contexts:\n- name: one\n  context: {cluster: c1, user: u1}\n"                                       \
	"- name: two\n  context: {cluster: c2, user: u2, namespace: team}\n"
#define CLUSTER2 "- name: c2\n  cluster: {server: 'https://[fd00::1]:6443/'}\n"

static void assert_refused(const char *text, const char *context, const char *because)
{
	struct kube_config config = {0};
	struct error err = {0};

	write_config(text);
	assert_true(kube_config_load(path, context, &config, &err) < 0);
	if (!strstr(err.text, because) || !strstr(err.text, path))
		fail_msg("\"%s\" does not say \"%s\"", err.text, because);
	assert_null(config.server);
}

static void the_current_context_is_taken_and_files_are_beside_the_kubeconfig(void **state)
{
	_cleanup_kube_config_ struct kube_config config = {0};
	char expected[160];

	write_config(CONTEXTS
		"clusters:\n- name: c1\n  cluster:\n    server: https://10.0.0.1:6443\n"
		"    certificate-authority: pki/ca.crt\n    tls-server-name: kubernetes\n" CLUSTER2
		"users:\n- name: u1\n  user:\n    client-certificate: /etc/c.pem\n    client-key: k.pem\n"
		"- name: u2\n  user: {token: t2}\n");
	assert_int_equal(kube_config_load(path, NULL, &config, NULL), 0);
	assert_string_equal(config.server, "https://10.0.0.1:6443");
	snprintf(expected, sizeof(expected), "%s/pki/ca.crt", folder);
	assert_string_equal(config.ca_file, expected);
	assert_string_equal(config.tls_server_name, "kubernetes");
	assert_string_equal(config.client_cert_file, "/etc/c.pem");
	snprintf(expected, sizeof(expected), "%s/k.pem", folder);
	assert_string_equal(config.client_key_file, expected);
	assert_string_equal(config.namespace_, "default");
	assert_null(config.token);
	assert_false(config.insecure);
}

static void a_named_context_is_taken_and_ipv6_keeps_its_brackets(void **state)
{
	_cleanup_kube_config_ struct kube_config config = {0};

	write_config(
		CONTEXTS "clusters:\n" CLUSTER2 "users:\n- name: u2\n  user: {token: t2, tokenFile: tok}\n");
	assert_int_equal(kube_config_load(path, "two", &config, NULL), 0);
	assert_string_equal(config.server, "https://[fd00::1]:6443");
	assert_string_equal(config.namespace_, "team");
	assert_string_equal(config.token, "t2");
	assert_non_null(strstr(config.token_file, "/tok"));
}

static void data_is_decoded_from_base64(void **state)
{
	_cleanup_kube_config_ struct kube_config config = {0};

	/* printf 'a PEM\n' | base64; printf cert | base64; printf keys! | base64 */
	write_config(CONTEXTS "clusters:\n- name: c1\n  cluster:\n    server: http://h\n"
			      "    certificate-authority-data: YSBQRU0K\n    insecure-skip-tls-verify: true\n"
			      "users:\n- name: u1\n  user:\n    client-certificate-data: Y2VydA==\n"
			      "    client-key-data: |\n      a2V5\n      cyE=\n");
	assert_int_equal(kube_config_load(path, NULL, &config, NULL), 0);
	assert_string_equal(config.ca_data, "a PEM\n");
	assert_string_equal(config.client_cert_data, "cert");
	assert_string_equal(config.client_key_data, "keys!");
	assert_true(config.insecure);
}

static void data_that_is_no_base64_is_refused_by_name(void **state)
{
	static const char *const values[] = {
		"'-----BEGIN'", "YQ", "YQ=", "YQ===", "'='", "Y=Q=", "AAAA", "'%%%%'"};
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		snprintf(text, sizeof(text),
			"%sclusters:\n- name: c1\n  cluster: {server: 'https://h', certificate-authority-data: %s}\nusers: [{name: u1, user: {}}]\n",
			CONTEXTS, values[i]);
		assert_refused(text, NULL, "certificate-authority-data is no base64");
	}
}

static void a_kubeconfig_in_json_is_yaml_too(void **state)
{
	_cleanup_kube_config_ struct kube_config config = {0};

	write_config(
		"{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":\"c\"}}],"
		"\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:8080\"}}]}");
	assert_int_equal(kube_config_load(path, NULL, &config, NULL), 0);
	assert_string_equal(config.server, "http://127.0.0.1:8080");
}

static void what_we_cannot_do_is_refused_with_the_way_out(void **state)
{
	static const char *const users[] = {
		"exec: {command: aws}", "auth-provider: {name: gcp}", "username: admin", "as: somebody"};
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		snprintf(text, sizeof(text),
			"%sclusters: [{name: c1, cluster: {server: 'https://h'}}]\n"
			"users: [{name: u1, user: {%s}}]\n",
			CONTEXTS, users[i]);
		assert_refused(text, NULL, "is not supported here: use a token");
	}
	assert_refused(CONTEXTS
		"clusters: [{name: c1, cluster: {server: 'https://h', proxy-url: 'http://p'}}]\n"
		"users: [{name: u1, user: {}}]\n",
		NULL, "proxy-url");
}

static void what_is_missing_is_named(void **state)
{
	assert_refused("", NULL, "no current-context");
	assert_refused("[]", NULL, "no current-context");
	assert_refused("current-context: [x]\n", NULL, "no current-context");
	assert_refused("current-context: gone\n", NULL, "there is no context \"gone\"");
	assert_refused(CONTEXTS, NULL, "there is no cluster \"c1\"");
	assert_refused(CONTEXTS, "three", "there is no context \"three\"");
	assert_refused(CONTEXTS "clusters: [{name: c1, cluster: {server: 'https://h'}}]\n", NULL,
		"there is no user \"u1\"");
	assert_refused(CONTEXTS "clusters: [{name: c1, cluster: {}}]\nusers: [{name: u1, user: {}}]\n", NULL,
		"no \"server\"");
}

static void servers_that_are_no_addresses_are_refused(void **state)
{
	static const char *const servers[] = {"10.0.0.1:6443", "ftp://h", "file:///etc/passwd",
		"'https://h/ x'", "\"https://h\\r\\nX: y\"", "'https://h?x'"};
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		snprintf(text, sizeof(text),
			"%sclusters: [{name: c1, cluster: {server: %s}}]\nusers: [{name: u1, user: {}}]\n",
			CONTEXTS, servers[i]);
		assert_refused(text, NULL, "server \"");
	}
}

static void malformed_yaml_is_refused_with_its_line(void **state)
{
	assert_refused("a: b\nc: [\n", NULL, "no valid YAML");
	assert_refused("a: *nowhere\n", NULL, "no valid YAML");
	assert_refused("a: \xff\xfe\n", NULL, "no valid YAML");
}

static void aliases_within_aliases_do_not_grow(void **state)
{
	assert_refused(
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
		NULL, "no current-context");
}

static void a_file_over_one_mib_is_refused(void **state)
{
	size_t len = 1024 * 1024 + 1;
	_cleanup_free_ char *text = malloc(len + 1);

	memset(text, '#', len);
	text[len] = '\0';
	assert_refused(text, NULL, "larger than 1 MiB");
}

static void a_file_that_is_not_there_is_named(void **state)
{
	struct kube_config config = {0};
	struct error err = {0};

	assert_int_equal(kube_config_load("/nonexistent/config", NULL, &config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/config"));
}

static void without_anything_the_sentence_says_what_was_looked_for(void **state)
{
	struct kube_config config = {0};
	struct error err = {0};

	unlink(path);
	assert_int_equal(kube_config_load(NULL, NULL, &config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "KUBECONFIG"));
	assert_non_null(strstr(err.text, "/.kube/config"));
}

static void the_first_file_of_kubeconfig_comes_before_the_pods_account(void **state)
{
	_cleanup_kube_config_ struct kube_config config = {0};
	char list[256];

	write_config(CONTEXTS
		"clusters: [{name: c1, cluster: {server: 'https://h'}}]\nusers: [{name: u1, user: {}}]\n");
	snprintf(list, sizeof(list), ":%s:/nonexistent", path);
	setenv("KUBECONFIG", list, 1);
	setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_int_equal(kube_config_load(NULL, NULL, &config, NULL), 0);
	assert_string_equal(config.server, "https://h");
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
}

static void a_pod_without_a_token_is_told_to_have_one(void **state)
{
	struct kube_config config = {0};
	struct error err = {0};

	if (access("/var/run/secrets/kubernetes.io/serviceaccount/token", F_OK) == 0)
		skip();
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_int_equal(kube_config_load(NULL, NULL, &config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "automountServiceAccountToken"));
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
}

/* As in --kubeconfig <(sops -d ...): the writer comes and goes while it is read. */
static int load_from_pipe(const char *text, size_t len, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	char pipe_path[64];
	int ends_of[2], r;
	pid_t writer;

	kube_config_init(&config);
	assert_int_equal(pipe2(ends_of, O_CLOEXEC), 0);
	writer = fork();
	if (writer == 0) {
		for (size_t at = 0, n; at < len; at += n) {
			n = len - at < 1000 ? len - at : 1000;
			if (write(ends_of[1], text + at, n) != (ssize_t)n)
				break;
			usleep(100);
		}
		_exit(0);
	}
	close(ends_of[1]);
	snprintf(pipe_path, sizeof(pipe_path), "/dev/fd/%d", ends_of[0]);
	r = kube_config_load(pipe_path, "two", &config, err);
	assert_true(r < 0 || strcmp(config.server, "https://[fd00::1]:6443") == 0);
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	close(ends_of[0]);
	return r;
}

#define PIPED CONTEXTS "clusters:\n" CLUSTER2 "users:\n- name: u2\n  user: {token: t}\n"

static void kubeconfig_comes_from_a_pipe(void **state)
{
	struct error err = {0};

	if (load_from_pipe(PIPED, strlen(PIPED), &err) < 0)
		fail_msg("%s", err.text);
}

static void kubeconfig_from_a_pipe_is_bounded(void **state)
{
	_cleanup_free_ char *long_text = malloc(2 << 20);
	struct error err = {0};

	assert_non_null(long_text);
	memset(long_text, '#', 2 << 20);
	assert_true(load_from_pipe(long_text, 2 << 20, &err) < 0);
	assert_non_null(strstr(err.text, "larger than 1 MiB"));
}

static void pipe_that_does_not_end_is_given_up(void **state)
{
	int ends_of[2];
	char pipe_path[64], *data = NULL;

	assert_int_equal(pipe2(ends_of, O_CLOEXEC), 0);
	assert_int_equal(write(ends_of[1], "x", 1), 1);
	snprintf(pipe_path, sizeof(pipe_path), "/dev/fd/%d", ends_of[0]);
	assert_int_equal(fs_read_or_pipe(pipe_path, 100, 50, &data, NULL), -ETIMEDOUT);
	assert_int_equal(fs_read(pipe_path, 100, &data, NULL), -ENOTSUP);
	assert_null(data);
	close(ends_of[0]);
	close(ends_of[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_current_context_is_taken_and_files_are_beside_the_kubeconfig),
		cmocka_unit_test(a_named_context_is_taken_and_ipv6_keeps_its_brackets),
		cmocka_unit_test(data_is_decoded_from_base64),
		cmocka_unit_test(data_that_is_no_base64_is_refused_by_name),
		cmocka_unit_test(a_kubeconfig_in_json_is_yaml_too),
		cmocka_unit_test(what_we_cannot_do_is_refused_with_the_way_out),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(servers_that_are_no_addresses_are_refused),
		cmocka_unit_test(malformed_yaml_is_refused_with_its_line),
		cmocka_unit_test(aliases_within_aliases_do_not_grow),
		cmocka_unit_test(a_file_over_one_mib_is_refused),
		cmocka_unit_test(a_file_that_is_not_there_is_named),
		cmocka_unit_test(without_anything_the_sentence_says_what_was_looked_for),
		cmocka_unit_test(the_first_file_of_kubeconfig_comes_before_the_pods_account),
		cmocka_unit_test(a_pod_without_a_token_is_told_to_have_one),
		cmocka_unit_test(kubeconfig_comes_from_a_pipe),
		cmocka_unit_test(kubeconfig_from_a_pipe_is_bounded),
		cmocka_unit_test(pipe_that_does_not_end_is_given_up),
	};

	return cmocka_run_group_tests(tests, open_folder, close_folder);
}
