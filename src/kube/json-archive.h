/* json-archive.h - JSON as the text of an archive (base/archive.h). What is read is a struct json_object. */
#pragma once

#include "base/archive.h"

extern const struct archive_format json_archive;
