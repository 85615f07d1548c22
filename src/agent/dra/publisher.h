/* publisher.h - keeps the ResourceSlice of this node as it should be: one pool of one slice. Whatever other
 * slices of ration's driver name this node are removed. */
#pragma once

#include <stdbool.h>

struct events;
struct kube_client;
struct loop;
struct node_registry;
struct publisher;

/* Whether the API server can do what claims need. */
enum publisher_support {
	PUBLISHER_UNKNOWN, /* it has not answered yet */
	PUBLISHER_CAN,
	PUBLISHER_CANNOT, /* the sentence says why */
};

/* publisher_new() - all arguments must outlive it. changed() is called when the support or the slices have
 * changed. */
int publisher_new(struct loop *loop, struct kube_client *client, const struct node_registry *node,
	void (*changed)(void *userdata), void *userdata, struct publisher **ret_publisher);
void publisher_free(struct publisher *publisher); /* accepts NULL */

/* publisher_start() - from now on, ask what the API server supports, and watch the slices. May be called
 * again. */
void publisher_start(struct publisher *publisher);

/* publisher_support() - *ret_text is valid until the next answer; "" unless PUBLISHER_CANNOT. */
enum publisher_support publisher_support(const struct publisher *publisher, const char **ret_text);

/* publisher_update() - writes or removes the slice if it is not as it should be. It is cheap; call it
 * whenever something may have changed. */
void publisher_update(struct publisher *publisher, bool wanted);

/* publisher_is_out() - the slice is there, as far as is known. */
bool publisher_is_out(const struct publisher *publisher);
