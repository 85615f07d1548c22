#include "agent/container/driver-files.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

const char *const driver_library_folders[] = {"", "vdpau", "gbm"};
const size_t n_driver_library_folders = ARRAY_SIZE(driver_library_folders);

static const struct {
	const char *name; /* without what stands behind ".so" */
	int needs;
	const char *folder;
} libraries[] = {
	{"libcuda.so", 0, ""},
	{"libcudadebugger.so", 0, ""},
	{"libnvidia-allocator.so", 0, ""},
	{"libnvidia-cfg.so", 0, ""},
	{"libnvidia-compiler.so", 0, ""},
	{"libnvidia-fatbinaryloader.so", 0, ""},
	{"libnvidia-gpucomp.so", 0, ""},
	{"libnvidia-ml.so", 0, ""},
	{"libnvidia-nscq.so", 0, ""},
	{"libnvidia-nvvm.so", 0, ""},
	{"libnvidia-opencl.so", 0, ""},
	{"libnvidia-pkcs11.so", 0, ""},
	{"libnvidia-pkcs11-openssl3.so", 0, ""},
	{"libnvidia-ptxjitcompiler.so", 0, ""},
	{"libnvidia-tileiras.so", 0, ""},

	{"libnvcuvid.so", DRIVER_VIDEO, ""},
	{"libnvidia-encode.so", DRIVER_VIDEO, ""},
	{"libnvidia-opticalflow.so", DRIVER_VIDEO, ""},
	{"libvdpau_nvidia.so", DRIVER_VIDEO, "vdpau"},
	{"libvdpau_nvidia.so", DRIVER_VIDEO, ""},

	{"libEGL_nvidia.so", DRIVER_GRAPHICS, ""},
	{"libGLESv1_CM_nvidia.so", DRIVER_GRAPHICS, ""},
	{"libGLESv2_nvidia.so", DRIVER_GRAPHICS, ""},
	{"libGLX_nvidia.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-cbl.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-egl-gbm.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-egl-wayland.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-eglcore.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-fbc.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-glcore.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-glsi.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-glvkspirv.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-ifr.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-rtcore.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-tls.so", DRIVER_GRAPHICS, ""},
	{"libnvidia-vulkan-producer.so", DRIVER_GRAPHICS, ""},
	{"libnvoptix.so", DRIVER_GRAPHICS, ""},
	{"nvidia-drm_gbm.so", DRIVER_GRAPHICS, "gbm"},

	{"libnvidia-ngx.so", DRIVER_NGX, ""},
};

const struct driver_config driver_configs[] = {
	{"glvnd/egl_vendor.d/10_nvidia.json", DRIVER_GRAPHICS, false},
	{"egl/egl_external_platform.d/10_nvidia_wayland.json", DRIVER_GRAPHICS, false},
	{"egl/egl_external_platform.d/15_nvidia_gbm.json", DRIVER_GRAPHICS, false},
	{"nvidia/nvoptix.bin", DRIVER_GRAPHICS, false},
	{"vulkan/icd.d/nvidia_icd.json", DRIVER_GRAPHICS, true},
	{"vulkan/icd.d/nvidia_layers.json", DRIVER_GRAPHICS, true},
	{"vulkan/implicit_layer.d/nvidia_layers.json", DRIVER_GRAPHICS, true},
#if defined(__aarch64__)
	{"vulkan/icd.d/nvidia_icd.aarch64.json", DRIVER_GRAPHICS, true},
#else
	{"vulkan/icd.d/nvidia_icd.x86_64.json", DRIVER_GRAPHICS, true},
#endif
};
const size_t n_driver_configs = ARRAY_SIZE(driver_configs);

int driver_library_needs(const char *folder, const char *file)
{
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		size_t len = strlen(libraries[i].name);

		if (strcmp(libraries[i].folder, folder) == 0 && strncmp(file, libraries[i].name, len) == 0 &&
			(file[len] == '\0' || file[len] == '.'))
			return libraries[i].needs;
	}
	return -1;
}

int driver_capabilities(const char *text, char *ret_unknown, size_t size)
{
	static const struct {
		const char *name;
		int bits;
	} names[] = {
		{"all", DRIVER_VIDEO | DRIVER_GRAPHICS | DRIVER_NGX},
		{"compute", 0},
		{"display", DRIVER_GRAPHICS},
		{"graphics", DRIVER_GRAPHICS},
		{"ngx", DRIVER_NGX},
		{"utility", 0},
		{"video", DRIVER_VIDEO},
	};
	int bits = 0;

	ret_unknown[0] = '\0';
	for (const char *at = text ? text : ""; *at; at += strspn(at, ", ")) {
		size_t len = strcspn(at, ", "), i = 0;

		while (i < ARRAY_SIZE(names) &&
			(strlen(names[i].name) != len || strncmp(names[i].name, at, len) != 0))
			i++;
		if (i < ARRAY_SIZE(names))
			bits |= names[i].bits;
		else if (len && !ret_unknown[0])
			snprintf(ret_unknown, size, "%.*s", (int)len, at);
		at += len;
	}
	return bits;
}
