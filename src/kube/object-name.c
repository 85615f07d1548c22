#include "kube/object-name.h"

#include <string.h>

#define NAME_LEN_MAX 253
#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

bool object_name_is_valid(const char *name)
{
	size_t len = strspn(name, LETTERS "-.");

	return len && len <= NAME_LEN_MAX && !name[len] && name[0] != '-' && name[0] != '.';
}
