#include "agent/door.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/loop.h"

#define RETRY_NS (10 * NS_PER_S)
#define BODY_MAX 1024

struct door {
	struct loop *loop;
	const char *what;
	const struct option_address *address;
	http_handler_fn handler;
	void *userdata;
	struct http_server *server;
	struct loop_timer *timer;
	bool complained;
};

static void door_listen(void *userdata)
{
	struct door *door = userdata;
	struct error err = {""};

	if (http_server_new(door->loop, door->address->text, door->address->port, BODY_MAX, door->handler,
		    door->userdata, &door->server, &err) == 0) {
		log_info("%s on port %u", door->what, http_server_port(door->server));
		return;
	}
	if (!door->complained)
		log_warning("no %s: %s; trying again every %d s", door->what, err.text,
			(int)(RETRY_NS / NS_PER_S));
	door->complained = true;
	loop_timer_set(door->timer, RETRY_NS);
}

int door_new(struct loop *loop, const char *what, const struct option_address *address,
	http_handler_fn handler, void *userdata, struct door **ret_door)
{
	struct door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		return -ENOMEM;
	*door = (struct door){
		.loop = loop, .what = what, .address = address, .handler = handler, .userdata = userdata};
	r = loop_add_timer(loop, door_listen, door, &door->timer);
	if (r < 0) {
		free(door);
		return r;
	}
	if (address->text[0])
		loop_timer_set(door->timer, 0);
	*ret_door = door;
	return 0;
}

void door_free(struct door *door)
{
	if (!door)
		return;
	http_server_free(door->server);
	loop_timer_remove(door->timer);
	free(door);
}
