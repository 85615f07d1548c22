/* Quantities of resources.limits, and units. */
#include "fuzz.h"

#include <errno.h>

#include "model/quantity.h"
#include "model/units.h"

const unsigned int fuzz_rounds = 50000;
const char *const fuzz_words[] = {"1e3", "Ki", "Mi", "Gi", "E", "e", "-", "+", ".", "9223372036854775807",
	"0.0000000001", "1e-1", "n", "u", "m", "MiB", "GiB", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	int64_t value = -77;
	uint32_t mib = 0;
	int r = quantity_parse_count(text, &value);

	MUST(r < 0 ? value == -77 : r == 0);
	if (unit_parse(text, &mib) == 0)
		MUST(mib == 1024 || mib == 512 || mib == 256 || mib == 128);
	free(text);
	return 0;
}
