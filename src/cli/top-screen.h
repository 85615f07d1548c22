/* top-screen.h - a terminal that shows the same text again and again, as it is now. */
#pragma once

#include <stdbool.h>

struct top_screen;

/* top_screen_open() - takes the terminal at standard input and output: what is typed is not shown, and
 * top_screen_close() gives it back as it was, also after a signal that ends us. */
int top_screen_open(struct top_screen **ret_screen);
void top_screen_close(struct top_screen *screen); /* accepts NULL */

/* top_screen_show() - lines, as many and as much of each as there is room for. */
void top_screen_show(const struct top_screen *screen, const char *text);

/* top_screen_wait() - so long; true: "q" was typed, or we are to end. */
bool top_screen_wait(struct top_screen *screen, int ms);
