/* driver.c - main() of a harness without libFuzzer: fuzz-X DIR replays all files of DIR, then mutates them,
 * always the same way; fuzz-X FILE... replays only. RATION_FULL=1: ten times the mutations;
 * RATION_FUZZ_SEED, RATION_FUZZ_ROUNDS: others. Speaks TAP. What crashes is left as crash-<harness>. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "fuzz.h"

#define INPUTS_MAX 256
#define INPUT_MAX ((size_t)64 << 10)
#define FULL_FACTOR 10

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

struct input {
	char *data;
	size_t len;
};

static struct input inputs[INPUTS_MAX];
static size_t n_inputs;
static uint64_t seed = 1;
static uint8_t current[INPUT_MAX];
static size_t current_len;
static char crash_file[64];

static void keep_current(void)
{
	int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, current, current_len) != (ssize_t)current_len)
		return;
	close(fd);
}

static void on_crash(int signo)
{
	keep_current();
	signal(signo, SIG_DFL);
	raise(signo);
}

/* xorshift64*: the same everywhere. */
static uint32_t draw(uint32_t below)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (uint32_t)((seed * 2685821657736338717u) >> 33) % below;
}

static void put_in(size_t at, const void *piece, size_t n)
{
	if (current_len + n > INPUT_MAX)
		return;
	memmove(current + at + n, current + at, current_len - at);
	memcpy(current + at, piece, n);
	current_len += n;
}

static void cut_out(size_t at, size_t n)
{
	if (n > current_len - at)
		n = current_len - at;
	memmove(current + at, current + at + n, current_len - at - n);
	current_len -= n;
}

static void splice_in(size_t at)
{
	const struct input *other = &inputs[draw((uint32_t)n_inputs)];
	size_t from = draw((uint32_t)other->len + 1), n = draw((uint32_t)(other->len - from) + 1);

	put_in(at, other->data + from, n);
}

static void repeat(size_t at)
{
	uint8_t piece[64];
	size_t n = draw(sizeof(piece)) + 1;

	if (n > current_len - at)
		n = current_len - at;
	memcpy(piece, current + at, n);
	for (uint32_t i = draw(40); i; i--)
		put_in(at, piece, n);
}

static void put_word(size_t at)
{
	size_t n = 0;
	const char *word;

	while (fuzz_words[n])
		n++;
	word = n ? fuzz_words[draw((uint32_t)n)] : "";
	put_in(at, word, strlen(word));
}

static void mutate(void)
{
	size_t at = draw((uint32_t)current_len + 1);

	switch (draw(8)) {
	case 0:
		if (at < current_len)
			current[at] ^= (uint8_t)(1u << draw(8));
		break;
	case 1:
		if (at < current_len)
			current[at] = (uint8_t)draw(256);
		break;
	case 2:
		cut_out(at, draw(32));
		break;
	case 3:
		current_len = at;
		break;
	case 4:
		splice_in(at);
		break;
	case 5:
		repeat(at);
		break;
	default:
		put_word(at);
	}
}

static void run_current(void)
{
	/* In memory of exactly its size. */
	uint8_t *exact = malloc(current_len ? current_len : 1);

	MUST(exact);
	memcpy(exact, current, current_len);
	LLVMFuzzerTestOneInput(exact, current_len);
	free(exact);
}

static void take(const struct input *input)
{
	current_len = input->len;
	memcpy(current, input->data, input->len);
}

static void read_input(const char *path)
{
	struct input *input = &inputs[n_inputs];

	MUST(n_inputs < INPUTS_MAX);
	if (fs_read(path, INPUT_MAX, &input->data, &input->len) == 0)
		n_inputs++;
	else
		printf("# cannot read %s\n", path);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_inputs(const char *path)
{
	struct dirent **entries;
	char file[PATH_MAX];
	int n = scandir(path, &entries, NULL, by_name);

	if (n < 0) {
		read_input(path);
		return false;
	}
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			read_input(file);
		free(entries[i]);
	}
	free(entries);
	return true;
}

static unsigned long rounds(void)
{
	const char *given = getenv("RATION_FUZZ_ROUNDS"), *seed_given = getenv("RATION_FUZZ_SEED");
	const char *full = getenv("RATION_FULL");

	if (seed_given)
		seed = strtoul(seed_given, NULL, 10) * 2 + 1;
	if (given)
		return strtoul(given, NULL, 10);
	return full && *full ? fuzz_rounds * (unsigned long)FULL_FACTOR : fuzz_rounds;
}

static void begin(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	snprintf(crash_file, sizeof(crash_file), "crash-%s", name ? name + 1 : argv[0]);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(keep_current);
	else
		signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGPIPE, SIG_IGN);
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
}

int main(int argc, char **argv)
{
	bool whole = false;

	for (int i = 1; i < argc; i++)
		whole |= read_inputs(argv[i]);
	begin(argc, argv);
	printf("1..%d\n", whole ? 2 : 1);
	for (size_t i = 0; i < n_inputs; i++) {
		take(&inputs[i]);
		run_current();
	}
	printf("%sok 1 the corpus of %zu files is replayed\n", n_inputs ? "" : "not ", n_inputs);
	for (unsigned long i = whole && n_inputs ? rounds() : 0; i; i--) {
		take(&inputs[draw((uint32_t)n_inputs)]);
		for (uint32_t n = draw(4) + 1; n; n--)
			mutate();
		run_current();
	}
	if (whole)
		printf("ok 2 mutations of it change nothing\n");
	for (size_t i = 0; i < n_inputs; i++)
		free(inputs[i].data);
	return n_inputs ? 0 : 1;
}
