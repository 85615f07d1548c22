/* account-fixture.h - the account of a container: its grant, its usage file and this process's slot. */
#pragma once

#include "grant/account.h"

extern char usage_path[128];
extern struct grant_file *grant;
extern struct usage_file *usage;
extern struct account *account;

/* account_set_up() - a container with so many GPUs and these limits. 0, or -1. account_tear_down() - 0, or
 * -1. */
int account_set_up(const uint64_t *limits, unsigned count);
int account_tear_down(void **state);
