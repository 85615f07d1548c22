/* verify-unlisted.h - pods of which the watch does not tell what we need to know.
 *
 * The API server confirmed their Binding, so they count. If such a pod is deleted in a gap of the watch, no
 * event tells its end, and it would count for ever. So after each new LIST those that it did not show are
 * asked for by name.
 */
#pragma once

struct scheduler;

/* verify_unlisted() - asks for each bound pod that no LIST or WATCH has shown, and corrects the ledger. */
void verify_unlisted(struct scheduler *scheduler);
