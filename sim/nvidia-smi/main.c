#include <getopt.h>
#include <string.h>

#include "sim/nvidia-smi/smi.h"

static void usage(void)
{
	printf("NVIDIA System Management Interface -- simulated by ration %s\n\n"
	       "nvidia-smi [OPTION]...\n\n"
	       "    -h,   --help                  Print usage information and exit.\n"
	       "    -L,   --list-gpus             Display a list of GPUs connected to the system.\n"
	       "    -i,   --id=                   Target a specific GPU: index, UUID or bus id.\n"
	       "          --query-gpu=            Information about GPU, fields comma separated.\n"
	       "          --format=               csv[,noheader][,nounits]\n"
	       "          --help-query-gpu        The fields.\n",
		RATION_VERSION);
}

static int misused(void)
{
	printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n");
	return SMI_BAD_ARGUMENT;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
		{"list-gpus", no_argument, NULL, 'L'}, {"id", required_argument, NULL, 'i'},
		{"query-gpu", required_argument, NULL, 'q'}, {"format", required_argument, NULL, 'f'},
		{"help-query-gpu", no_argument, NULL, 'H'}, {}};
	const char *id = NULL, *fields = NULL, *format = NULL;
	bool list = false;
	struct smi smi = {};
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "hLi:", options, NULL)) >= 0) {
		if (c == 'h') {
			usage();
			return 0;
		} else if (c == 'H') {
			smi_query_help();
			return 0;
		} else if (c == 'L') {
			list = true;
		} else if (c == 'i') {
			id = optarg;
		} else if (c == 'q') {
			fields = optarg;
		} else if (c == 'f') {
			format = optarg;
		} else {
			return misused();
		}
	}
	if (optind != argc || (list && fields) || (format && !fields))
		return misused();
	rc = smi_open(&smi);
	if (rc == 0)
		rc = smi_choose(&smi, id);
	if (rc != 0)
		return rc;
	if (list)
		return smi_list(&smi);
	return fields ? smi_query(&smi, fields, format) : smi_table(&smi);
}
