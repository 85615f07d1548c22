/* base64.h - the *-data members of a kubeconfig. */
#pragma once

/* base64_decode() - RFC 4648, blanks and line ends allowed between, to a text: -EINVAL if it is none, holds a
 * NUL or decodes to nothing. The caller frees. */
int base64_decode(const char *text, char **ret_text);
