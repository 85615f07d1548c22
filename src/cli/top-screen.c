#include "cli/top-screen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"

#define FRAME_MAX (1u << 20)

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};

struct top_screen {
	struct termios before;
	sigset_t blocked_before;
	struct sigaction actions_before[ARRAY_SIZE(signals)];
};

/* The signals are blocked except while top_screen_wait() waits. So no signal is lost between two checks of
 * these flags. */
static volatile sig_atomic_t has_ended, has_continued;

static void note_signal(int number)
{
	if (number == SIGCONT)
		has_continued = 1;
	else if (number != SIGWINCH)
		has_ended = 1;
}

static void catch_signals(struct top_screen *screen)
{
	struct sigaction action = {.sa_handler = note_signal};
	sigset_t blocked;

	sigemptyset(&action.sa_mask);
	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&blocked, signals[i]);
	has_ended = has_continued = 0;
	sigprocmask(SIG_BLOCK, &blocked, &screen->blocked_before);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, &screen->actions_before[i]);
}

/* Called again after a stop, because the shell has used the terminal meanwhile. */
static void take_terminal(const struct top_screen *screen)
{
	struct termios raw = screen->before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

int top_screen_open(struct top_screen **ret_screen)
{
	struct top_screen *screen = calloc(1, sizeof(*screen));

	if (!screen)
		return -ENOMEM;
	if (tcgetattr(STDIN_FILENO, &screen->before) < 0) {
		free(screen);
		return -errno;
	}
	catch_signals(screen);
	take_terminal(screen);
	/* Switches to the alternate screen, without a cursor; the former content returns afterwards. */
	fputs("\x1b[?1049h\x1b[?25l", stdout);
	fflush(stdout);
	*ret_screen = screen;
	return 0;
}

void top_screen_close(struct top_screen *screen)
{
	if (!screen)
		return;
	fputs("\x1b[?25h\x1b[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &screen->actions_before[i], NULL);
	sigprocmask(SIG_SETMASK, &screen->blocked_before, NULL);
	free(screen);
}

void top_screen_show(const struct top_screen *screen, const char *text)
{
	struct winsize size = {0};
	_cleanup_strbuf_ struct strbuf frame;
	unsigned rows, columns;

	(void)screen;
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	rows = size.ws_row ? size.ws_row : 24;
	columns = size.ws_col ? size.ws_col : 80;
	strbuf_init(&frame, FRAME_MAX);
	strbuf_adds(&frame, "\x1b[H");
	for (unsigned row = 0; *text && row < rows; row++) {
		size_t len = strcspn(text, "\n");

		strbuf_addf(&frame, "%s%.*s\x1b[K", row ? "\r\n" : "", (int)(len < columns ? len : columns),
			text);
		text += len + (text[len] == '\n');
	}
	strbuf_adds(&frame, "\x1b[J");
	fputs(strbuf_cstr(&frame), stdout);
	fflush(stdout);
}

/* True for "q", and if the terminal is gone. */
static bool quits(void)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
	       (n > 0 && (memchr(keys, 'q', (size_t)n) || memchr(keys, 'Q', (size_t)n)));
}

bool top_screen_wait(struct top_screen *screen, int ms)
{
	int64_t until = monotonic_ns() + ms * NS_PER_MS, left;

	while ((left = until - monotonic_ns()) > 0) {
		struct timespec patience = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
		fd_set keys;
		int n;

		FD_ZERO(&keys);
		FD_SET(STDIN_FILENO, &keys);
		n = pselect(STDIN_FILENO + 1, &keys, NULL, NULL, &patience, &screen->blocked_before);
		if (has_continued)
			take_terminal(screen);
		has_continued = 0;
		if (has_ended || (n < 0 && errno != EINTR) || (n > 0 && quits()))
			return true;
	}
	return false;
}
