#include "model/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

/* A quantity is digits x 10^exp10 x 2^exp2. Only the significant digits are stored, because strings of
 * thousands of zeros are legal. INT64_MAX has 19 digits, so a number with more digits before its point is out
 * of range. */
#define COUNT_DIGITS_MAX 19
#define EXP2_MAX 60
#define DIGITS_MAX (COUNT_DIGITS_MAX + EXP2_MAX)
#define EXPONENT_MAX 1000000

struct suffix {
	const char *text;
	int exp10;
	int exp2;
};

static const struct suffix suffixes[] = {
	{"", 0, 0},
	{"n", -9, 0},
	{"u", -6, 0},
	{"m", -3, 0},
	{"k", 3, 0},
	{"M", 6, 0},
	{"G", 9, 0},
	{"T", 12, 0},
	{"P", 15, 0},
	{"E", 18, 0},
	{"Ki", 0, 10},
	{"Mi", 0, 20},
	{"Gi", 0, 30},
	{"Ti", 0, 40},
	{"Pi", 0, 50},
	{"Ei", 0, EXP2_MAX},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads what follows 'e' or 'E'. Exponents beyond EXPONENT_MAX count as that: in both cases the result is out
 * of range, or not a whole number. */
static int exponent_parse(const char *text, int *ret_exp10)
{
	bool negative = *text == '-';
	int value = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (!is_digit(*text))
			return -EINVAL;
		if (value < EXPONENT_MAX)
			value = value * 10 + (*text - '0');
	}
	*ret_exp10 = negative ? -value : value;
	return 0;
}

static int suffix_parse(const char *text, int *ret_exp10, int *ret_exp2)
{
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (strcmp(text, suffixes[i].text) == 0) {
			*ret_exp10 = suffixes[i].exp10;
			*ret_exp2 = suffixes[i].exp2;
			return 0;
		}
	if (*text != 'e' && *text != 'E')
		return -EINVAL;
	*ret_exp2 = 0;
	return exponent_parse(text + 1, ret_exp10);
}

/* The digits of a number without leading and trailing zeros. */
struct digits {
	unsigned char value[DIGITS_MAX];
	size_t n;	 /* all significant digits, including those that do not fit into value */
	long long exp10; /* of the last significant digit */
};

/* Leading zeros are skipped. Zeros that may turn out to be significant are only counted at first. */
static const char *digits_read(const char *text, struct digits *ret_digits)
{
	bool point = false;
	size_t zeros = 0;
	long long behind = 0;

	*ret_digits = (struct digits){0};
	for (; is_digit(*text) || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		behind += point;
		if (*text == '0') {
			zeros += ret_digits->n > 0;
			continue;
		}
		for (; zeros; zeros--, ret_digits->n++)
			if (ret_digits->n < DIGITS_MAX)
				ret_digits->value[ret_digits->n] = 0;
		if (ret_digits->n < DIGITS_MAX)
			ret_digits->value[ret_digits->n] = (unsigned char)(*text - '0');
		ret_digits->n++;
	}
	ret_digits->exp10 = (long long)zeros - behind;
	return text;
}

/* Divides by 5 in place; false if there is a remainder. */
static bool digits_divide_by_5(struct digits *digits)
{
	unsigned remainder = 0;

	for (size_t i = 0; i < digits->n; i++) {
		unsigned value = remainder * 10 + digits->value[i];

		digits->value[i] = (unsigned char)(value / 5);
		remainder = value % 5;
	}
	return remainder == 0;
}

/* digits x 10^exp10 x 2^exp2, with a last digit that is not 0. With a negative exp10 it is whole only if
 * 10^-exp10 divides digits x 2^exp2; as 10 does not divide digits, 5^-exp10 must divide digits and exp2 must
 * be large enough. */
static int count_compute(struct digits *digits, long long exp10, int exp2, int64_t *ret_value)
{
	int64_t value = 0;

	if ((long long)digits->n + exp10 > COUNT_DIGITS_MAX)
		return -ERANGE;
	if (exp10 < -exp2)
		return -EILSEQ;
	for (; exp10 < 0; exp10++, exp2--)
		if (!digits_divide_by_5(digits))
			return -EILSEQ;
	for (size_t i = 0; i < digits->n; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digits->value[i], &value))
			return -ERANGE;
	for (; exp10 > 0; exp10--)
		if (__builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	for (; exp2 > 0; exp2--)
		if (__builtin_mul_overflow(value, 2, &value))
			return -ERANGE;
	*ret_value = value;
	return 0;
}

/* The grammar is that of parseQuantityString() (apimachinery 0.34.1, resource/quantity.go), which the API
 * server accepts. It reads a missing number ("+", "k", ".") as 0, and so does this function. */
static int quantity_read(const char *text, struct digits *ret_digits, long long *ret_exp10, int *ret_exp2)
{
	bool negative = *text == '-';
	int exp10, r;

	if (!*text)
		return -EINVAL;
	if (*text == '-' || *text == '+')
		text++;
	text = digits_read(text, ret_digits);
	r = suffix_parse(text, &exp10, ret_exp2);
	if (r < 0)
		return r;
	*ret_exp10 = ret_digits->exp10 + exp10;
	return negative && ret_digits->n ? -EDOM : 0;
}

/* quantity_read(), with *ret_value set to 0, which it remains if there are no digits. */
static int read_or_zero(
	const char *text, struct digits *ret_digits, long long *ret_exp10, int *ret_exp2, int64_t *ret_value)
{
	int r = quantity_read(text, ret_digits, ret_exp10, ret_exp2);

	if (r == 0 && !ret_digits->n)
		*ret_value = 0;
	return r;
}

int quantity_parse_count(const char *text, int64_t *ret_value)
{
	struct digits digits;
	long long exp10;
	int exp2, r = read_or_zero(text, &digits, &exp10, &exp2, ret_value);

	return r < 0 || !digits.n ? r : count_compute(&digits, exp10, exp2, ret_value);
}

/* A value that is not a whole number of thousandths is either below 2^63 of them, or out of range. Its
 * leading digits, as many as a long double has, tell which. */
static int64_t round_up(const struct digits *digits, long long exp10, int exp2)
{
	long double value = 0;

	for (size_t i = 0; i < digits->n; i++, exp10 -= i >= DIGITS_MAX)
		if (i < DIGITS_MAX)
			value = value * 10 + digits->value[i];
	for (; exp10 < 0 && value > 0; exp10++)
		value /= 10;
	for (; exp10 > 0 && value < 1e20L; exp10--)
		value *= 10;
	for (; exp2 > 0; exp2--)
		value *= 2;
	if (value >= 9.2e18L)
		return INT64_MAX;
	return (int64_t)value + (value > (int64_t)value || value == 0);
}

int quantity_parse_milli(const char *text, int64_t *ret_milli)
{
	struct digits digits, left;
	long long exp10;
	int exp2, r = read_or_zero(text, &digits, &exp10, &exp2, ret_milli);

	if (r < 0 || !digits.n)
		return r;
	left = digits;
	r = digits.n > DIGITS_MAX ? -EILSEQ : count_compute(&left, exp10 + 3, exp2, ret_milli);
	if (r == -ERANGE)
		*ret_milli = INT64_MAX;
	else if (r < 0)
		*ret_milli = round_up(&digits, exp10 + 3, exp2);
	return 0;
}
