/* images.h - what an image's environment sets NVIDIA_DRIVER_CAPABILITIES to. The pod does not say it, the
 * container runtime does, once the image is there: the kubelet has it when it calls PreStartContainer
 * (kuberuntime_container.go startContainer(), 1.36.3).
 */
#pragma once

#include <stddef.h>

struct grpc_client;
struct images;

/* images_new() - cri must outlive it; answered() is called after each answer. */
int images_new(struct grpc_client *cri, void (*answered)(void *userdata), void *userdata,
	struct images **ret_images);
void images_free(struct images *images); /* accepts NULL */

/* images_capabilities() - of the image of this name. 0, and *ret_text, valid until the next call; NULL where
 * the image does not set it, or the runtime cannot tell. -EBUSY: the runtime is being asked, about this image
 * or another one: ask again when it has answered. An answer is good for a few seconds, since another image
 * may get the name. */
int images_capabilities(struct images *images, const char *name, const char **ret_text);

/* images_read() - the same by what ImageStatus answers as "info": JSON with imageSpec.config.Env. To be
 * freed; NULL: it is not set. Pure. */
char *images_read(const char *info, size_t len);
