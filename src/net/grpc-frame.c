#include "net/grpc-frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void grpc_frame_release(struct grpc_frame *frame)
{
	free(frame->body);
	*frame = (struct grpc_frame){0};
}

bool grpc_frame_complete(const struct grpc_frame *frame)
{
	return frame->prefix_len == GRPC_PREFIX_SIZE && frame->received == frame->len;
}

static enum grpc_status frame_read_prefix(struct grpc_frame *frame, size_t max)
{
	const uint8_t *p = frame->prefix;

	if (p[0] != 0)
		return GRPC_UNIMPLEMENTED;
	frame->len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	return frame->len > max ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK;
}

static bool frame_grow(struct grpc_frame *frame, size_t need)
{
	size_t size = frame->size ? frame->size : 512;
	uint8_t *body;

	if (need <= frame->size)
		return true;
	while (size < need)
		size *= 2;
	if (size > frame->len)
		size = frame->len;
	body = realloc(frame->body, size);
	if (!body)
		return false;
	frame->body = body;
	frame->size = size;
	return true;
}

enum grpc_status grpc_frame_feed(struct grpc_frame *frame, const uint8_t *data, size_t len, size_t max)
{
	while (len && frame->prefix_len < GRPC_PREFIX_SIZE) {
		frame->prefix[frame->prefix_len++] = *data++;
		len--;
		if (frame->prefix_len == GRPC_PREFIX_SIZE) {
			enum grpc_status status = frame_read_prefix(frame, max);

			if (status != GRPC_OK)
				return status;
		}
	}
	if (!len)
		return GRPC_OK;
	if (len > frame->len - frame->received)
		return GRPC_INTERNAL;
	if (!frame_grow(frame, frame->received + len))
		return GRPC_RESOURCE_EXHAUSTED;
	memcpy(frame->body + frame->received, data, len);
	frame->received += len;
	return GRPC_OK;
}

uint8_t *grpc_frame_wrap(const void *message, size_t len, size_t *ret_len)
{
	uint8_t *data = len <= UINT32_MAX ? malloc(len + GRPC_PREFIX_SIZE) : NULL;

	if (!data)
		return NULL;
	data[0] = 0;
	for (int i = 0; i < 4; i++)
		data[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	if (len)
		memcpy(data + GRPC_PREFIX_SIZE, message, len);
	*ret_len = len + GRPC_PREFIX_SIZE;
	return data;
}

void grpc_text_encode(const char *text, char *ret)
{
	for (size_t i = 0; text[i] && i < GRPC_TEXT_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x20 && c <= 0x7e && c != '%')
			*ret++ = (char)c;
		else
			ret += sprintf(ret, "%%%02X", c);
	}
	*ret = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

void grpc_text_decode(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		int high = *p == '%' ? hex_digit(p[1]) : -1;
		int low = high >= 0 ? hex_digit(p[2]) : -1;

		if (low < 0 || (high == 0 && low == 0)) {
			*to++ = *p;
			continue;
		}
		*to++ = (char)(high << 4 | low);
		p += 2;
	}
	*to = '\0';
}
