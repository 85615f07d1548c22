/* ration ui: a page that shows the cluster, from a server for this person only; or the page as one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/ui/data.h"
#include "cli/ui/server.h"
#include "cli/ui/source.h"

#define FILE_MAX (2u * UI_DATA_MAX)

/* Inside an element of HTML, "<" could end the data. In JSON it occurs only in strings, where it can be
 * written as an escape sequence. */
static void add_data(struct strbuf *out, const char *json)
{
	while (*json) {
		size_t plain = strcspn(json, "<");

		strbuf_add(out, json, plain);
		json += plain;
		if (*json) {
			strbuf_adds(out, "\\u003c");
			json++;
		}
	}
}

static void add_time(struct strbuf *out)
{
	char text[64];
	time_t now = time(NULL);
	struct tm parts;

	if (!gmtime_r(&now, &parts) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts))
		strcpy(text, "an unknown time");
	strbuf_addf(out, "{\"at\": \"%s\", ", text);
}

/* Devices and pipes are not replaced by a file, as rename() would: /dev/null, /dev/stdout. A link is replaced
 * and not followed, because others may have made it. The new file grants no more rights than the old one. */
static int replace_file(const char *path, const struct strbuf *text, struct error *err)
{
	const mode_t hidden = umask(0);
	mode_t mode = 0666 & ~hidden;
	struct stat st;
	int r = 0;

	umask(hidden);
	if (stat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode))
			return error_set(err, EINVAL,
				"%s cannot be written: it is not a regular file; - is the standard output",
				path);
		r = access(path, W_OK) < 0 ? -errno : 0;
		mode &= st.st_mode;
	}
	if (r == 0)
		r = fs_write_atomic(path, mode, text->data, text->len);
	return r < 0 ? error_set(err, -r, "%s cannot be written: %s", path, strerror(-r)) : 0;
}

static int print(const struct strbuf *text, struct error *err)
{
	int r = ui_write_all(STDOUT_FILENO, text->data, text->len);

	return r < 0 ? error_set(err, -r, "the output cannot be written: %s", strerror(-r)) : 0;
}

/* The file of --static, or what the page shows as JSON. */
static int write_once(const struct ui_options *options, struct error *err)
{
	_cleanup_strbuf_ struct strbuf data, out;
	struct progress progress = {0};
	int r;

	strbuf_init(&data, UI_DATA_MAX);
	strbuf_init(&out, FILE_MAX);
	progress_say(&progress, options->runs ? "reading the programs" : "reading the cluster");
	r = options->runs ? ui_runs_read(&data, err) : ui_data_read(&options->kubectl, &data, err);
	if (r < 0)
		return r;
	if (options->output == OUTPUT_JSON)
		return print(&data, err);
	strbuf_add(&out, ui_file_before, ui_file_before_len);
	add_time(&out);
	add_data(&out, strbuf_cstr(&data) + 1);
	strbuf_add(&out, ui_file_after, ui_file_after_len);
	if (out.failed)
		return error_set(err, -out.failed, "out of memory");
	if (strcmp(options->file, "-") != 0)
		return replace_file(options->file, &out, err);
	return print(&out, err);
}

/* Starts the browser as a process that this one does not wait for. If there is no browser, the user has the
 * URL. Other users can see command lines, so the browser is started with an address that is valid for one
 * request. */
static void open_browser(const struct ui_site *site)
{
#ifdef __APPLE__
	static const char program[] = "open";
#else
	static const char program[] = "xdg-open";
#endif
	char url[128];
	int nothing;
	pid_t pid;

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s", site->port, site->once);
	pid = fork();
	if (pid == 0 && fork() == 0) {
		nothing = open("/dev/null", O_RDWR);
		dup2(nothing, STDIN_FILENO);
		dup2(nothing, STDOUT_FILENO);
		dup2(nothing, STDERR_FILENO);
		execlp(program, program, url, (char *)NULL);
	}
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static int serve(const struct ui_options *options, struct error *err)
{
	struct ui_server *server = NULL;
	const struct ui_site *site;
	int r = ui_server_new(
		options->runs ? NULL : &options->kubectl, (uint16_t)options->port, &server, err);

	if (r < 0)
		return r;
	site = ui_server_site(server);
	printf("http://127.0.0.1:%u/%s/\n", site->port, site->token);
	r = output_end(err);
	if (r == 0 && !options->no_browser)
		open_browser(site);
	if (r == 0)
		r = ui_server_run(server, err);
	ui_server_free(server);
	return r;
}

static bool is_once(const struct ui_options *options)
{
	return options->file || options->output == OUTPUT_JSON;
}

static int check(void *userdata)
{
	const struct ui_options *options = userdata;

	if (is_once(options) && (options->port || options->no_browser))
		return options_refuse(&ui_option_table,
			"--static and -o json start no server: leave out --port and --no-browser");
	if (options->file && options->output == OUTPUT_JSON)
		return options_refuse(
			&ui_option_table, "-o json prints what --static writes as a page: give one of them");
	if (options->runs && options->kubectl.flags.n)
		return options_refuse(&ui_option_table,
			"--runs is about this machine: options of kubectl do not go with it");
	return -1;
}

static int run(void *options, struct error *err)
{
	return is_once(options) ? write_once(options, err) : serve(options, err);
}

int ui_command(int argc, char **argv)
{
	struct ui_options options = {0};

	return command_run(&ui_option_table, argc, argv, &options, check, run);
}
