/* nvml-library.h - the parts of the substitute for libnvidia-ml that its files share. */
#pragma once

#include "libnvidia-ml-symbols.h"
#include "shim/nvml-abi.h"
#include "shim/shim.h"
