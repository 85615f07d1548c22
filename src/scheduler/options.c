#include "scheduler/options.h"

#include "scheduler/lease.h"
#include "scheduler/webhook.h"

int scheduler_options_parse(int argc, char **argv, struct scheduler_options *ret_options)
{
	struct scheduler_options options = {0};
	int r = options_parse(&scheduler_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	if (!ledger_lease_is_valid_identity(options.scheduler_lease))
		return options_refuse(&scheduler_option_table,
			"--scheduler-lease: invalid value \"%.80s\"; must be NAMESPACE/NAME",
			options.scheduler_lease);
	if (options.webhook && !webhook_is_valid_service(options.webhook))
		return options_refuse(&scheduler_option_table,
			"--webhook: invalid value \"%.80s\"; must be NAMESPACE/SERVICE", options.webhook);
	*ret_options = options;
	return -1;
}
