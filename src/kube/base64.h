/* base64.h - decodes the *-data members of a kubeconfig, and []byte members of Go's JSON. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* base64_decode_bytes() - decodes RFC 4648; blanks and line ends are allowed. -EINVAL if the input is invalid
 * or decodes to nothing. The caller frees *ret_bytes, which has a NUL behind its end. */
int base64_decode_bytes(const char *text, uint8_t **ret_bytes, size_t *ret_len);

/* base64_decode() - the same to a text: -EINVAL also if it contains a NUL. */
int base64_decode(const char *text, char **ret_text);
