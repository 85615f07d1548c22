/* door.h - an HTTP server of the agent. An address that is taken is tried again every 10 s: the GPUs do not
 * wait for it. */
#pragma once

#include "net/http-server.h"

struct door;
struct option_address;
struct loop;

/* door_new() - what: its name in the log. No address: nothing listens. address must outlive the door. */
int door_new(struct loop *loop, const char *what, const struct option_address *address,
	http_handler_fn handler, void *userdata, struct door **ret_door);
void door_free(struct door *door); /* accepts NULL */
