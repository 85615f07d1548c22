/* The grant file, as the shim maps it and as others read it. First byte: r the rest is the beginning of a
 * file; p patches of a valid grant, whose checksum is then computed anew, since no mutation would find it. A
 * patch is two bytes with the position, one with the length, and so many bytes; from position 0xfff0 on it is
 * about the size of the file. m the same, and the file is mapped. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "grant/grant.h"

const unsigned int fuzz_rounds = 3000;
const char *const fuzz_words[] = {"RAGRANT1", "\x18\x00\x04", "\x20\x00", "\x01\x00\x00\x00",
	"/usr/lib/libcuda.so.1", "GPU-", "00000000:00:09.0", "\xff\xff\xff\xff", "\x40\x00\x00\x00",
	"\x41\x00\x00\x00", NULL};

/* FNV-1a, as grant.h has it: of the bytes before the checksum, and of those behind it up to `live`. */
static uint64_t sum(uint64_t hash, const uint8_t *bytes, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static void seal(struct grant_file *grant)
{
	const uint8_t *bytes = (const uint8_t *)grant;

	grant->checksum = sum(
		sum(UINT64_C(0xcbf29ce484222325), bytes, 0, offsetof(struct grant_file, checksum)), bytes,
		offsetof(struct grant_file, gpu_count), offsetof(struct grant_file, live));
}

static void make_valid(struct grant_file *grant)
{
	memset(grant, 0, sizeof(*grant));
	grant->magic = GRANT_FILE_MAGIC;
	grant->version = GRANT_FILE_VERSION;
	grant->size = sizeof(*grant);
	grant->gpu_count = 2;
	grant->readable_from = GRANT_FILE_READABLE_FROM;
	strcpy(grant->container, "d/a/main");
	strcpy(grant->cuda_library, "/usr/lib/libcuda.so.1");
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		snprintf(grant->gpus[i].uuid, sizeof(grant->gpus[i].uuid), "GPU-%u", i);
		strcpy(grant->gpus[i].pci_bus_id, "00000000:00:09.0");
		grant->gpus[i].limit_bytes = grant->gpus[i].physical_bytes = UINT64_C(1) << 30;
		grant->live[i].limit_bytes = UINT64_C(1) << 30;
	}
}

/* Returns the size of the file. */
static size_t patch(struct grant_file *grant, const uint8_t *data, size_t size)
{
	uint8_t *bytes = (uint8_t *)grant;
	size_t length = sizeof(*grant);

	for (size_t at = 0, n; at + 3 <= size; at += 3 + n) {
		size_t where = data[at] | (size_t)data[at + 1] << 8;

		n = data[at + 2] < size - at - 3 ? data[at + 2] : size - at - 3;
		if (where >= 0xfff0)
			length = sizeof(*grant) - (where & 0xf);
		else if (where + n <= sizeof(*grant))
			memcpy(bytes + where, data + at + 3, n);
	}
	return length;
}

/* What readers take for granted of a grant that verifies. */
static void check_verified(const struct grant_file *grant)
{
	MUST(grant->magic == GRANT_FILE_MAGIC && grant->size == sizeof(*grant));
	MUST(grant->version >= GRANT_FILE_OLDEST && grant->readable_from <= GRANT_FILE_VERSION);
	MUST(grant->gpu_count >= 1 && grant->gpu_count <= GRANT_FILE_GPUS_MAX);
	MUST(memchr(grant->container, 0, sizeof(grant->container)));
	MUST(grant->cuda_library[0] == '/' && memchr(grant->cuda_library, 0, sizeof(grant->cuda_library)));
	MUST(memchr(grant->nvml_library, 0, sizeof(grant->nvml_library)));
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &grant->gpus[i];

		MUST(gpu->uuid[0] && memchr(gpu->uuid, 0, sizeof(gpu->uuid)));
		MUST(memchr(gpu->pci_bus_id, 0, sizeof(gpu->pci_bus_id)));
		MUST(gpu->limit_bytes && grant_file_limit_bytes(grant, i));
	}
}

/* As the shim does it, from a file. */
static void map(const void *bytes, size_t length, const char *expected)
{
	static int fd = -1;
	const struct grant_file *mapped = NULL;
	const char *why = NULL;
	char path[64];
	int r;

	if (fd < 0)
		fd = memfd_create("grant", MFD_CLOEXEC);
	MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, length, 0) == (ssize_t)length);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = grant_file_map(path, &mapped, &why);
	MUST((r == 0) == !expected);
	MUST(r == 0 ? mapped && !why : !mapped && why && *why);
	grant_file_unmap(mapped);
}

static void change(struct grant_file *grant)
{
	unsigned last = grant->gpu_count - 1;

	MUST(grant_file_set_limit(grant, grant->gpu_count, 1) < 0);
	MUST(grant_file_set_limit(grant, last, 0) < 0);
	MUST(grant_file_set_limit(grant, last, 4096) == 0 && grant_file_limit_bytes(grant, last) == 4096);
	MUST(atomic_load(&grant->live[last].largest_limit_bytes) >= 4096);
	/* What changes is not covered by the checksum. */
	MUST(!grant_file_verify(grant, sizeof(*grant)));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct grant_file grant;
	size_t length = sizeof(grant);
	const char *why;

	if (!size)
		return 0;
	make_valid(&grant);
	if (data[0] == 'r') {
		memcpy(&grant, data + 1, size - 1 < sizeof(grant) ? size - 1 : sizeof(grant));
		length = size - 1 < sizeof(grant) / 4 ? sizeof(grant) : size - 1;
	} else if (data[0] == 'p' || data[0] == 'm') {
		length = patch(&grant, data + 1, size - 1);
		seal(&grant);
	}
	if (length > sizeof(grant))
		length = sizeof(grant);
	why = grant_file_verify(&grant, length);
	if (!why)
		check_verified(&grant);
	MUST(!why || *why);
	if (data[0] == 'm')
		map(&grant, length, why);
	if (!why)
		change(&grant);
	return 0;
}
