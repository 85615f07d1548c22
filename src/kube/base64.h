/* base64.h - decodes the *-data members of a kubeconfig. */
#pragma once

/* base64_decode() - decodes RFC 4648 to a text; blanks and line ends are allowed. -EINVAL if the input is
 * invalid, contains a NUL or decodes to nothing. The caller frees *ret_text. */
int base64_decode(const char *text, char **ret_text);
