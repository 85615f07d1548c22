#include "agent/state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/json.h"

#define FILE_MAX 65536

static void state_path(const char *dir, char *buf, size_t size)
{
	snprintf(buf, size, "%s/agent-state.json", dir);
}

enum gpu_mode state_load(const char *dir)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_free_ char *text = NULL;
	enum gpu_mode mode;
	char path[PATH_MAX];
	const char *value;
	size_t len;

	state_path(dir, path, sizeof(path));
	if (fs_read(path, FILE_MAX, &text, &len) < 0 || json_parse(text, len, &root, NULL) < 0)
		return GPU_MODE_NONE;
	value = json_member_string(root, "mode");
	if (!value || gpu_mode_parse(value, &mode) < 0 || mode != GPU_MODE_SHARE)
		return GPU_MODE_NONE;
	return mode;
}

void state_save(const char *dir, enum gpu_mode mode)
{
	char path[PATH_MAX], text[64];
	int r;

	state_path(dir, path, sizeof(path));
	snprintf(text, sizeof(text), "{\"mode\":\"%s\"}\n", gpu_mode_text(mode));
	r = fs_mkdir_parents(dir, 0755);
	if (r == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	if (r < 0)
		log_warning("cannot remember the mode in %s: %s", path, strerror(-r));
}
