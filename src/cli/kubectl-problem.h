/* kubectl-problem.h - failures of kubectl that are not the API server's answer: its configuration cannot be
 * used, or leads to no API server. */
#pragma once

struct error;
struct kubectl;

/* kubectl_problem() - said: what kubectl wrote on its standard error before it failed. A negative errno with
 * the sentence if it is such a failure, naming the configuration's file; 0 if it is not. */
int kubectl_problem(const struct kubectl *kubectl, const char *said, struct error *err);
