/* shrink.h - what is left of a history that violates an invariant when all is taken away that is not needed.
 */
#pragma once

#include "sim.h"

/* shrink() - *plan violates an invariant, and still violates the same one afterwards. */
void shrink(struct sim *sim, struct plan *plan, enum broken broken);
