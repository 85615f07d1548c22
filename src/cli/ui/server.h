/* server.h - the web server of `ration ui`. It listens on 127.0.0.1 and answers only requests with the secret
 * in the URL. */
#pragma once

#include <stddef.h>

#include "cli/ui/request.h"

struct error;
struct kubectl;
struct ui_server;

/* ui_server_new() - listens on 127.0.0.1 at this port (0: any that is free), and makes a secret. The kubectl
 * is the caller's; NULL: the page shows the programs of this machine. */
int ui_server_new(
	const struct kubectl *kubectl, uint16_t port, struct ui_server **ret_server, struct error *err);
void ui_server_free(struct ui_server *server); /* accepts NULL */
const struct ui_site *ui_server_site(const struct ui_server *server);

/* ui_server_run() - answers requests, until a signal ends the process or poll() fails. Negative errno. */
int ui_server_run(struct ui_server *server, struct error *err);

/* The files of the page, which embed.py puts into the program: as the server sends them, and what is written
 * before and after the data in one self-contained file. */
extern const char ui_page_html[], ui_page_css[], ui_page_js[], ui_file_before[], ui_file_after[];
extern const size_t ui_page_html_len, ui_page_css_len, ui_page_js_len, ui_file_before_len, ui_file_after_len;
