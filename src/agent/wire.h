/* wire.h - converts protobuf messages from and to bytes, with a limit on the memory of a message: 2 bytes on
 * the wire can become 40 in memory. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct wire_chunk;

/* The memory of one unpacked message, freed as a whole. */
struct wire_arena {
	ProtobufCAllocator allocator;
	struct wire_chunk *chunks;
	size_t used, max;
};

void wire_arena_init(struct wire_arena *arena, size_t max);
void wire_arena_release(struct wire_arena *arena);
#define _cleanup_arena_ _cleanup_(wire_arena_release)

/* wire_unpack() - NULL if the message is malformed or larger than the arena allows. It is valid as long as
 * the arena, which must not move in memory. */
void *wire_unpack(
	struct wire_arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len);

/* wire_pack() - returns a new buffer; NULL when out of memory. The message must be valid (no NULL strings in
 * arrays). */
uint8_t *wire_pack(const ProtobufCMessage *message, size_t *ret_len);
