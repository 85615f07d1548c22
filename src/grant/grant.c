#include "grant/grant.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "grant/files.h"

static uint64_t checksum(const struct grant_file *grant)
{
	const unsigned char *at = (const unsigned char *)&grant->card_count;
	const unsigned char *end = (const unsigned char *)grant->live;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; at < end; at++)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

static bool is_text(const char *text, size_t size)
{
	return text[0] != '\0' && memchr(text, '\0', size) != NULL;
}

static const char *verify_cards(const struct grant_file *grant)
{
	if (grant->card_count == 0 || grant->card_count > GRANT_FILE_CARDS_MAX)
		return "the grant names no card, or more cards than there can be";
	for (unsigned i = 0; i < grant->card_count; i++) {
		const struct grant_file_card *card = &grant->cards[i];

		if (!is_text(card->uuid, sizeof(card->uuid)) ||
			!memchr(card->pci_bus_id, '\0', sizeof(card->pci_bus_id)))
			return "the grant has a card without a name";
		if (card->limit_bytes == 0)
			return "the grant has a card without memory";
	}
	return NULL;
}

const char *grant_file_verify(const struct grant_file *grant, size_t bytes)
{
	if (bytes < sizeof(*grant))
		return "the grant is cut off";
	if (grant->magic != GRANT_FILE_MAGIC)
		return "this is no grant";
	if (grant->version != GRANT_FILE_VERSION || grant->size != sizeof(*grant))
		return "the grant is of another version of ration";
	if (grant->checksum != checksum(grant))
		return "the grant is damaged: its checksum is wrong";
	if (!is_text(grant->cuda_library, sizeof(grant->cuda_library)) || grant->cuda_library[0] != '/' ||
		!memchr(grant->nvml_library, '\0', sizeof(grant->nvml_library)) ||
		!memchr(grant->container, '\0', sizeof(grant->container)))
		return "the grant does not name the driver's library";
	return verify_cards(grant);
}

int grant_file_write(const char *path, struct grant_file *grant, const char **ret_why)
{
	const char *why;
	int r;

	grant->magic = GRANT_FILE_MAGIC;
	grant->version = GRANT_FILE_VERSION;
	grant->size = sizeof(*grant);
	grant->checksum = checksum(grant);
	why = grant_file_verify(grant, sizeof(*grant));
	if (why) {
		*ret_why = why;
		return -EINVAL;
	}
	r = files_write(path, 0644, grant, sizeof(*grant), sizeof(*grant));
	if (r < 0)
		*ret_why = "the grant cannot be written";
	return r;
}

static const char *explain(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENOTDIR:
		return "there is no grant";
	case -EACCES:
	case -EPERM:
		return "the grant may not be read";
	case -EBADMSG:
		return "the grant is cut off";
	default:
		return "the grant cannot be read";
	}
}

static int map_verified(const char *path, int writable, struct grant_file **ret_grant, const char **ret_why)
{
	const char *why;
	void *map;
	int r = files_map(path, sizeof(struct grant_file), writable, &map);

	if (r < 0) {
		*ret_why = explain(r);
		return r;
	}
	why = grant_file_verify(map, sizeof(struct grant_file));
	if (why) {
		munmap(map, sizeof(struct grant_file));
		*ret_why = why;
		return -EBADMSG;
	}
	*ret_grant = map;
	return 0;
}

int grant_file_map(const char *path, const struct grant_file **ret_grant, const char **ret_why)
{
	struct grant_file *grant;
	int r = map_verified(path, 0, &grant, ret_why);

	if (r == 0)
		*ret_grant = grant;
	return r;
}

int grant_file_map_keeper(const char *path, struct grant_file **ret_grant, const char **ret_why)
{
	return map_verified(path, 1, ret_grant, ret_why);
}

void grant_file_unmap(const struct grant_file *grant)
{
	if (grant)
		munmap((void *)grant, sizeof(*grant));
}
