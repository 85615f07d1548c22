/* door.h - an HTTP server of the agent. If its address is in use, it tries again every 10 s; the GPUs do not
 * wait for it. */
#pragma once

#include "net/http-server.h"

struct door;
struct option_address;
struct loop;

/* door_new() - what: its name in the log. Without an address, it does not listen. address must outlive the
 * door. */
int door_new(struct loop *loop, const char *what, const struct option_address *address,
	http_handler_fn handler, void *userdata, struct door **ret_door);
void door_free(struct door *door); /* accepts NULL */
