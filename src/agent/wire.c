#include "agent/wire.h"

#include <stdalign.h>
#include <stdlib.h>

#define CHUNK_SIZE ((size_t)16384)

struct wire_chunk {
	struct wire_chunk *next;
	size_t size, used;
	alignas(max_align_t) uint8_t data[];
};

static void *arena_alloc(void *userdata, size_t size)
{
	struct wire_arena *arena = userdata;
	struct wire_chunk *chunk = arena->chunks;
	size_t aligned = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

	if (aligned < size || aligned > arena->max - arena->used)
		return NULL;
	if (!chunk || aligned > chunk->size - chunk->used) {
		size_t room = aligned > CHUNK_SIZE ? aligned : CHUNK_SIZE;

		chunk = malloc(sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		*chunk = (struct wire_chunk){.next = arena->chunks, .size = room};
		arena->chunks = chunk;
	}
	chunk->used += aligned;
	arena->used += aligned;
	return chunk->data + chunk->used - aligned;
}

static void arena_free(void *userdata, void *pointer)
{
	/* Frees nothing here: wire_arena_release() frees all at once. */
}

void wire_arena_init(struct wire_arena *arena, size_t max)
{
	*arena = (struct wire_arena){.max = max};
	arena->allocator = (ProtobufCAllocator){arena_alloc, arena_free, arena};
}

void wire_arena_release(struct wire_arena *arena)
{
	while (arena->chunks) {
		struct wire_chunk *next = arena->chunks->next;

		free(arena->chunks);
		arena->chunks = next;
	}
	arena->used = 0;
}

void *wire_unpack(
	struct wire_arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len)
{
	return protobuf_c_message_unpack(type, &arena->allocator, len, data);
}

uint8_t *wire_pack(const ProtobufCMessage *message, size_t *ret_len)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *data = malloc(len + 1);

	if (!data)
		return NULL;
	*ret_len = protobuf_c_message_pack(message, data);
	return data;
}
