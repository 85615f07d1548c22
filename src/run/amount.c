#include "run/amount.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"

#define MIB_MAX (UINT64_C(1) << 40)

static const struct policy_unit {
	const char *name;
	uint64_t mib; /* 0: a hundredth of the GPU */
} units[] = {{"MiB", 1}, {"GiB", 1024}, {"%", 0}};

static const struct policy_unit *unit_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

int amount_parse(const char *text, uint64_t physical_mib, uint64_t *ret_mib, struct error *err)
{
	size_t digits = strspn(text, "0123456789");
	const struct policy_unit *unit = unit_find(text + digits);
	uint64_t number, mib;
	char copy[32];

	if (!unit || digits == 0 || digits >= sizeof(copy))
		return error_set(err, EINVAL,
			"%s: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%%", text);
	memcpy(copy, text, digits);
	copy[digits] = '\0';
	if (parse_u64(copy, MIB_MAX / 1024, &number) < 0)
		number = MIB_MAX / 1024;
	mib = unit->mib ? number * unit->mib : physical_mib * number / 100;
	if (mib == 0)
		return error_set(err, ERANGE, "%s: that is less than 1 MiB", text);
	if (mib > physical_mib)
		return error_set(err, ERANGE, "%s: the card has %" PRIu64 " MiB", text, physical_mib);
	*ret_mib = mib;
	return 0;
}
