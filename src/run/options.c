#include "run/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "run/commands.h"

static const struct option long_options[] = {
	{"mem", required_argument, NULL, 'm'},
	{"core", required_argument, NULL, 'c'},
	{"policy", required_argument, NULL, 'p'},
	{"weight", required_argument, NULL, 'w'},
	{"gpu", required_argument, NULL, 'g'},
	{"driver", required_argument, NULL, 'd'},
	{"layer", required_argument, NULL, 'l'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char usage[] =
	"Usage: ration run --mem AMOUNT [--core PERCENT] [--weight N] [--policy 0..5] [--gpu CARD[,CARD...]]\n"
	"                  [--driver DIR] [-v] -- PROGRAM [ARGUMENT...]\n"
	"\n"
	"Run a program that can use no more than this much of a card's memory, and sees a card of that size.\n"
	"\n"
	"  -m, --mem AMOUNT        2GiB, 2154MiB or 25%, of each card\n"
	"  -c, --core PERCENT      of the card's computing power, 1 to 100: a cap, under policy 4 a guarantee\n"
	"      --weight N          1 to 10000, against the other runs, under policies 2 and 4\n"
	"      --policy 0..5       how the runs of a card divide it: 0 a twentieth each, 1 equally, 2 by weight,\n"
	"                          3 by --core, 4 by weight among those with work, 5 not at all (default: as the\n"
	"                          first run on it; that: 3, with --weight 4)\n"
	"  -g, --gpu CARD[,...]    index as nvidia-smi shows it, or UUID (default: 0)\n"
	"      --driver DIR        folder of the driver's libraries (default: as the dynamic linker finds them)\n"
	"      --layer LAYER       mount or preload (default: the strongest that works here; see ration-run(1))\n"
	"  -v, --verbose           say which card, how much of it, and by which layer\n"
	"  -h, --help              this text\n"
	"\n"
	"The program takes the place of `ration run`: its exit status, signals and terminal are its own. Status 125:\n"
	"ration run failed, 126: the program cannot be run, 127: it was not found.\n";

static int usage_error(const char *text)
{
	if (text)
		fprintf(stderr, "ration run: %s\n", text);
	fputs(usage, stderr);
	return RUN_EXIT_FAILURE;
}

static int layer_parse(const char *text, enum layer *ret_layer)
{
	if (strcmp(text, "preload") == 0)
		*ret_layer = LAYER_PRELOAD;
	else if (strcmp(text, "mount") == 0)
		*ret_layer = LAYER_MOUNT;
	else
		return -1;
	return 0;
}

/* "30" or "30%" */
static int core_parse(const char *text, uint32_t *ret_percent)
{
	size_t len = strlen(text);
	char digits[8];
	uint32_t percent;

	if (len == 0 || len >= sizeof(digits))
		return -1;
	memcpy(digits, text, len + 1);
	if (digits[len - 1] == '%')
		digits[len - 1] = '\0';
	if (parse_u32(digits, 100, &percent) < 0 || percent == 0)
		return -1;
	*ret_percent = percent;
	return 0;
}

/* -1 to go on. */
static int take_power(int c, struct division_wish *power)
{
	enum share_policy policy;

	switch (c) {
	case 'c':
		return core_parse(optarg, &power->percent) < 0
			       ? usage_error("--core is a whole number of percent, 1 to 100")
			       : -1;
	case 'w':
		return share_weight_parse(optarg, &power->weight) < 0
			       ? usage_error("--weight is a whole number, 1 to 10000")
			       : -1;
	default:
		if (share_policy_parse(optarg, &policy) < 0)
			return usage_error("--policy is one of 0, 1, 2, 3, 4, 5");
		power->policy = (int)policy;
		return -1;
	}
}

/* -1 to go on. */
static int take(int c, struct run_options *options)
{
	switch (c) {
	case 'm':
		options->mem = optarg;
		return -1;
	case 'c':
	case 'w':
	case 'p':
		return take_power(c, &options->power);
	case 'g':
		options->gpus = optarg;
		return -1;
	case 'd':
		options->driver = optarg;
		return -1;
	case 'l':
		return layer_parse(optarg, &options->layer) < 0 ? usage_error("--layer is mount or preload")
								: -1;
	case 'v':
		options->verbose = true;
		return -1;
	case 'h':
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	default:
		return usage_error(NULL);
	}
}

int options_parse(int argc, char **argv, struct run_options *ret_options)
{
	struct run_options options = {.layer = LAYER_INVALID, .power = {.policy = -1}};
	int c, r;

	/* "+": what comes after the program's name is the program's. */
	while ((c = getopt_long(argc, argv, "+m:c:g:vh", long_options, NULL)) != -1) {
		r = take(c, &options);
		if (r >= 0)
			return r;
	}
	if (!options.mem)
		return usage_error("how much memory? --mem is missing");
	if (optind == argc)
		return usage_error("which program?");
	options.program = argv + optind;
	*ret_options = options;
	return -1;
}
