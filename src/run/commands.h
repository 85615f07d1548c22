/* commands.h - the commands of this program. Each returns the exit status. */
#pragma once

#define RUN_EXIT_FAILURE                                                                                     \
	125 /* as env(1), timeout(1) and docker-run(1): differs from any status of the program */
#define RUN_EXIT_CANNOT_EXEC 126
#define RUN_EXIT_NOT_FOUND 127

int run_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int sample_command(void);
