/* server.h - the web server of `ration ui`. It listens on 127.0.0.1 and answers only requests with the secret
 * in the URL. */
#pragma once

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
