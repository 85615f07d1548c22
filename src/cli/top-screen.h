/* top-screen.h - a terminal that repeatedly shows the present version of a text. */
#pragma once

#include <stdbool.h>

struct top_screen;

/* top_screen_open() - takes over the terminal at standard input and output: typed characters are not shown.
 * top_screen_close() restores it, also after a signal that ends this process. */
int top_screen_open(struct top_screen **ret_screen);
void top_screen_close(struct top_screen *screen); /* accepts NULL */

/* top_screen_show() - shows as many lines, and as much of each, as there is room for. */
void top_screen_show(const struct top_screen *screen, const char *text);

/* top_screen_wait() - waits for this time; true: "q" was typed, or this process must end. */
bool top_screen_wait(struct top_screen *screen, int ms);
