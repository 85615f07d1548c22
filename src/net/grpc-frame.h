/* grpc-frame.h - what gRPC adds to HTTP/2: a 5-byte prefix before each message, and in the trailers a status
 * and a percent-encoded text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The gRPC status codes that we use (grpc/doc/statuscodes.md). */
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
#define GRPC_MESSAGE_MAX ((size_t)4 << 20) /* the default limit of gRPC peers */
#define GRPC_TEXT_MAX 1024		   /* bytes of an error text, before encoding */

/* A message that is being received. Its memory grows with the bytes that have arrived, not with the length
 * that the prefix announces. */
struct grpc_frame {
	uint8_t prefix[GRPC_PREFIX_SIZE];
	size_t prefix_len;
	uint8_t *body;
	size_t len;	 /* announced by the prefix */
	size_t received; /* bytes of the body so far */
	size_t size;	 /* allocated */
};

void grpc_frame_release(struct grpc_frame *frame);

/* grpc_frame_feed() - takes the next bytes of the stream. GRPC_OK: continue; GRPC_UNIMPLEMENTED: the message
 * is compressed; GRPC_RESOURCE_EXHAUSTED: longer than max, or out of memory; GRPC_INTERNAL: more than one
 * message. */
enum grpc_status grpc_frame_feed(struct grpc_frame *frame, const uint8_t *data, size_t len, size_t max);

bool grpc_frame_complete(const struct grpc_frame *frame);

/* grpc_frame_wrap() - prefix and message in one new buffer. NULL: out of memory. */
uint8_t *grpc_frame_wrap(const void *message, size_t len, size_t *ret_len);

/* grpc_text_encode() - percent-encodes an error text for a header, truncated to GRPC_TEXT_MAX bytes. ret must
 * hold 3 * GRPC_TEXT_MAX + 1 bytes. grpc_text_decode() - decodes in place, and tolerates invalid input. */
void grpc_text_encode(const char *text, char *ret);
void grpc_text_decode(char *text);
