#include "run/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/commands.h"

static const struct option long_options[] = {
	{"mem", required_argument, NULL, 'm'},
	{"gpu", required_argument, NULL, 'g'},
	{"driver", required_argument, NULL, 'd'},
	{"layer", required_argument, NULL, 'l'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char usage[] =
	"Usage: ration run --mem AMOUNT [--gpu CARD[,CARD...]] [--driver DIR] [-v] -- PROGRAM [ARGUMENT...]\n"
	"\n"
	"Run a program that can use no more than this much of a card's memory, and sees a card of that "
	"size.\n"
	"\n"
	"  -m, --mem AMOUNT        2GiB, 2154MiB or 25%, of each card\n"
	"  -g, --gpu CARD[,...]    index as nvidia-smi shows it, or UUID (default: 0)\n"
	"      --driver DIR        folder of the driver's libraries (default: as the dynamic linker finds "
	"them)\n"
	"      --layer LAYER       mount or preload (default: the strongest that works here; see "
	"ration-run(1))\n"
	"  -v, --verbose           say which card, how much of it, and by which layer\n"
	"  -h, --help              this text\n"
	"\n"
	"The program takes the place of `ration run`: its exit status, signals and terminal are its own. "
	"Status 125:\n"
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

/* -1 to go on. */
static int take(int c, struct run_options *options)
{
	switch (c) {
	case 'm':
		options->mem = optarg;
		return -1;
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
	struct run_options options = {.layer = LAYER_INVALID};
	int c, r;

	/* "+": what comes after the program's name is the program's. */
	while ((c = getopt_long(argc, argv, "+m:g:vh", long_options, NULL)) != -1) {
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
