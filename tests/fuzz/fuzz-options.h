/* fuzz-options.h - the command line of `ration run`, whose parser has the name of the agent's: it is compiled
 * into a file of its own. What it promises of a line that it accepts is checked there. */
#pragma once

void fuzz_run_options(int argc, char **argv);
