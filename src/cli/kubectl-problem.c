#include "cli/kubectl-problem.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/kubectl.h"

#define WORDS_MAX 240

enum problem { PROBLEM_NONE, PROBLEM_CONFIG, PROBLEM_LOGIN, PROBLEM_NOWHERE, PROBLEM_UNREACHED };

/* The words of kubectl 1.36.3, the first that fits counts. */
static const struct {
	const char *words;
	enum problem problem;
} problems[] = {
	{"error: error loading config file", PROBLEM_CONFIG},
	{"error: stat ", PROBLEM_CONFIG}, /* the file that --kubeconfig names */
	{"error: context \"", PROBLEM_CONFIG},
	{"error: cluster \"", PROBLEM_CONFIG},
	{"error: auth info \"", PROBLEM_CONFIG},
	{"error: cannot locate ", PROBLEM_CONFIG}, /* of `config view` */
	{"error: no configuration has been provided", PROBLEM_CONFIG},
	{"error: unable to read c", PROBLEM_CONFIG}, /* certificate-authority, client-cert, client-key */
	{"error: host must be a URL", PROBLEM_CONFIG},
	{"Error in configuration:", PROBLEM_CONFIG},
	{"Unable to connect to the server: getting credentials:", PROBLEM_CONFIG},
	{"(Unauthorized)", PROBLEM_LOGIN},
	{"The connection to the server localhost:8080 was refused", PROBLEM_NOWHERE}, /* its default */
	{"The connection to the server ", PROBLEM_UNREACHED},
	{"Unable to connect to the server: ", PROBLEM_UNREACHED},
};

/* The value of a global flag that was given; NULL if it was not. */
static const char *flag_value(const struct kubectl *kubectl, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < kubectl->n_flags; i++)
		if (strncmp(kubectl->flags[i], name, len) == 0 && kubectl->flags[i][len] == '=')
			return kubectl->flags[i] + len + 1;
	return NULL;
}

static enum problem problem_find(const struct kubectl *kubectl, const char *said, const char **ret_words)
{
	for (size_t i = 0; i < ARRAY_SIZE(problems); i++) {
		*ret_words = strstr(said, problems[i].words);
		if (!*ret_words)
			continue;
		if (problems[i].problem == PROBLEM_NOWHERE && flag_value(kubectl, "--server"))
			return PROBLEM_UNREACHED;
		return problems[i].problem;
	}
	return PROBLEM_NONE;
}

static void file_text(const struct kubectl *kubectl, char *buf, size_t size)
{
	const char *flag = flag_value(kubectl, "--kubeconfig"), *variable = getenv("KUBECONFIG");

	if (flag)
		snprintf(buf, size, "--kubeconfig=%.200s", flag);
	else if (variable && *variable)
		snprintf(buf, size, "KUBECONFIG=%.200s", variable);
	else
		snprintf(buf, size, "~/.kube/config");
}

/* Up to the first empty line, as one line, without the word "error: " at its beginning. */
static void one_line(const char *words, char *buf, size_t size)
{
	const char *prefix = "error: ", *end = strstr(words, "\n\n");
	size_t n = 0, len = end ? (size_t)(end - words) : strlen(words);

	if (strncmp(words, prefix, strlen(prefix)) == 0) {
		words += strlen(prefix);
		len -= strlen(prefix);
	}
	for (size_t i = 0; i < len && n + 1 < size; i++) {
		bool blank = isspace((unsigned char)words[i]);

		if (!blank)
			buf[n++] = words[i];
		else if (n && buf[n - 1] != ' ')
			buf[n++] = ' ';
	}
	while (n && (buf[n - 1] == ' ' || buf[n - 1] == '?'))
		n--;
	buf[n] = '\0';
}

int kubectl_problem(const struct kubectl *kubectl, const char *said, struct error *err)
{
	const char *words = NULL;
	enum problem problem = problem_find(kubectl, said, &words);
	char file[240], line[WORDS_MAX];

	if (problem == PROBLEM_NONE)
		return 0;
	file_text(kubectl, file, sizeof(file));
	one_line(problem == PROBLEM_LOGIN ? said : words, line, sizeof(line));
	switch (problem) {
	case PROBLEM_CONFIG:
		return error_set(err, EINVAL,
			"kubectl cannot use its configuration (%s): %s; mend that file, or name another with --kubeconfig",
			file, line);
	case PROBLEM_LOGIN:
		return error_set(err, EACCES,
			"the API server does not accept the user of kubectl's configuration (%s): %s; log in again",
			file, line);
	case PROBLEM_NOWHERE:
		return error_set(err, EINVAL,
			"kubectl's configuration (%s) is missing or names no cluster, and nothing answers at kubectl's default, localhost:8080; name the right file with --kubeconfig",
			file);
	default:
		return error_set(err, EHOSTUNREACH,
			"the API server of kubectl's configuration (%s) does not answer: %s", file, line);
	}
}
