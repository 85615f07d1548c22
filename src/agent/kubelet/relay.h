/* relay.h - what supervisor and worker say to each other, over a socket pair. The supervisor holds the
 * kubelet's connections and understands nothing of what is said on them; the worker knows the answers. Both
 * are the same program, so numbers travel as they lie in memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The device plugins, each with a socket of its own: gpu-mem, gpu-core.percentage, whole GPUs. */
enum plugin_of { PLUGIN_OF_MEM, PLUGIN_OF_CORE, PLUGIN_OF_GPU, PLUGINS };

/* The worker's ends of its relays to the supervisor, by device plugin. */
struct relay_ends {
	int fds[PLUGINS];
};

struct loop;
struct relay;

/* The methods of the device plugin, as numbers. */
enum relay_method {
	RELAY_OPTIONS,
	RELAY_LIST_AND_WATCH,
	RELAY_PREFERRED,
	RELAY_ALLOCATE,
	RELAY_PRESTART,
	RELAY_METHOD_MAX
};

enum relay_kind {
	/* from the supervisor */
	RELAY_CALL, /* id; arg: method, with RELAY_RESUMED set for a stream that was told something before */
	RELAY_CLOSED,	 /* id: the kubelet does not wait any more */
	RELAY_LISTENING, /* the answer to RELAY_LISTEN; the sentence why not, or nothing */
	/* from the worker */
	RELAY_TAKEN,  /* id: a call was read; should the worker die now, it may be the reason */
	RELAY_REPLY,  /* id, message: the end of a call */
	RELAY_FAIL,   /* id, arg: gRPC status, text */
	RELAY_SEND,   /* id, message of a stream */
	RELAY_LISTEN, /* have the socket there for the kubelet to dial */
	RELAY_READY,  /* it has started; from now on its end is an accident */
	RELAY_KIND_MAX
};

#define RELAY_RESUMED 0x100u

struct relay_frame {
	uint32_t len; /* of what follows */
	uint32_t kind;
	uint32_t id;
	uint32_t arg;
};

/* frame() - `data` is valid during the call. ended() - the other side is gone, or talks nonsense; nothing
 * comes any more. Neither may free the relay. */
struct relay_ops {
	void (*frame)(void *userdata, const struct relay_frame *frame, const uint8_t *data);
	void (*ended)(void *userdata);
};

/* relay_new() - takes fd (non-blocking) in any case. Nothing is read before relay_begin(). */
int relay_new(
	struct loop *loop, int fd, const struct relay_ops *ops, void *userdata, struct relay **ret_relay);
void relay_free(struct relay *relay); /* accepts NULL */
void relay_begin(struct relay *relay);

/* relay_drain() - what the other side said before its end, now. Never waits. */
void relay_drain(struct relay *relay);

/* relay_send() - never blocks. -ENOMEM, -EMSGSIZE if too much waits already (64 MiB), or for a message over
 * 4 MiB. */
int relay_send(
	struct relay *relay, enum relay_kind kind, uint32_t id, uint32_t arg, const void *data, size_t len);
