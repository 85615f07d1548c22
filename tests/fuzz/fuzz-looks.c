/* What a look at a GPU reads of programs. First byte: c the names of a process's cgroups, u a usage file
 * (its first bytes; the rest is a hole). */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "agent/gpu/cgroup.h"
#include "grant/overhead.h"
#include "grant/reserve.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"0::", "/", "/kubepods", "/burstable", "/pod", ".slice", ".scope",
	"kubepods-burstable-pod", "cri-containerd-", "crio-", "\n", ":", "2:memory:", "..",
	"6f1c2f0e-3c55-4a39-9a0b-0f1d2c3b4a59", "6f1c2f0e_3c55_4a39_9a0b_0f1d2c3b4a59",
	"0123456789abcdef0123456789abcdef",
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "RAUSAGE1", NULL};

static void cgroup(const char *text)
{
	struct cgroup_place place = {.uid = "untouched"};

	if (cgroup_parse(text, &place) < 0) {
		MUST(strcmp(place.uid, "untouched") == 0);
		return;
	}
	MUST(strlen(place.uid) == 36 || strlen(place.uid) == 32);
	MUST(strspn(place.uid, "0123456789abcdef-") == strlen(place.uid));
	MUST(strlen(place.id) == 64 || !place.id[0]);
	MUST(strspn(place.id, "0123456789abcdef") == strlen(place.id));
}

static void usage(const uint8_t *data, size_t size)
{
	struct overhead_process processes[] = {{.owner = {.word = 7}, .bytes = 1 << 30},
		{.owner = {.word = owner_word(8, 9), .start_ticks = 1, .image = 2}, .bytes = UINT32_MAX}};
	int fd = memfd_create("usage", MFD_CLOEXEC), n;
	struct usage_peek_slot *slots = NULL;
	struct overhead found;
	struct usage_peek peek;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
		ftruncate(fd, sizeof(struct usage_file)) == 0);
	if (usage_peek(fd, 64, &peek) == 0) {
		MUST(peek.gpu_count <= GRANT_FILE_GPUS_MAX && peek.slots_used <= USAGE_FILE_SLOTS);
		slots = calloc(peek.slots_used + 1, sizeof(*slots));
		MUST(slots);
		n = usage_peek_slots(fd, &peek, 63, slots);
		MUST(n >= 0 && (uint32_t)n <= peek.slots_used);
		overhead_compute(processes, 2, slots, (size_t)n, slots, (size_t)n, &found);
		MUST(found.used_bytes <= (1 << 30) + (uint64_t)UINT32_MAX);
		/* The overhead has no such limit: what a process is just opening counts before the driver
		 * shows it, and how large it is stands in the slot. */
	}
	free(slots);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (data[0] == 'c')
		cgroup(text);
	else if (data[0] == 'u' && size - 1 <= sizeof(struct usage_file))
		usage(data + 1, size - 1);
	free(text);
	return 0;
}
