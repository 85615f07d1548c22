/* grpc-frame.h - what gRPC puts on top of HTTP/2: a 5-byte prefix before each message, a status and a
 * percent-encoded text in the trailers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The codes of gRPC that we use (grpc/doc/statuscodes.md). */
enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
};

#define GRPC_PREFIX_SIZE 5
#define GRPC_MESSAGE_MAX ((size_t)4 << 20) /* what gRPC peers accept unless told otherwise */
#define GRPC_TEXT_MAX 1024		   /* bytes of an error text, before encoding */

/* One message being received. Memory grows with what has arrived, not with what the prefix promises. */
struct grpc_frame {
	uint8_t prefix[GRPC_PREFIX_SIZE];
	size_t prefix_len;
	uint8_t *body;
	size_t len;	 /* promised by the prefix */
	size_t received; /* of the body */
	size_t size;	 /* allocated */
};

void grpc_frame_release(struct grpc_frame *frame);

/* grpc_frame_feed() - the next bytes of the stream. GRPC_OK: go on; GRPC_UNIMPLEMENTED: the message is
 * compressed; GRPC_RESOURCE_EXHAUSTED: longer than max, or no memory; GRPC_INTERNAL: more than one message.
 */
enum grpc_status grpc_frame_feed(struct grpc_frame *frame, const uint8_t *data, size_t len, size_t max);

bool grpc_frame_complete(const struct grpc_frame *frame);

/* grpc_frame_wrap() - prefix and message in one new buffer. NULL when out of memory. */
uint8_t *grpc_frame_wrap(const void *message, size_t len, size_t *ret_len);

/* grpc_text_encode() - percent-encode an error text for a header; cut at GRPC_TEXT_MAX bytes. ret must hold
 * 3 * GRPC_TEXT_MAX + 1. grpc_text_decode() - the reverse, tolerant, in place. */
void grpc_text_encode(const char *text, char *ret);
void grpc_text_decode(char *text);
