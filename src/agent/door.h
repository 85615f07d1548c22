/* door.h - an HTTP server of the agent. An address that is taken is tried again every 10 s: the GPUs do not
 * wait for it. */
#pragma once

#include "net/http-server.h"

struct agent;
struct door;
struct option_address;

/* door_new() - what: its name in the log. No address: nothing listens. The handler's userdata is the agent.
 */
int door_new(struct agent *agent, const char *what, const struct option_address *address,
	http_handler_fn handler, struct door **ret_door);
void door_free(struct door *door); /* accepts NULL */
