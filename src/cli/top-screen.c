#include "cli/top-screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"

#define FRAME_MAX (1u << 20)

struct top_screen {
	struct termios before;
	sigset_t signals, blocked_before;
	int signals_fd;
};

/* Again after a stop: the shell has had the terminal meanwhile. */
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
	screen->signals_fd = -1;
	if (tcgetattr(STDIN_FILENO, &screen->before) < 0) {
		free(screen);
		return -errno;
	}
	sigemptyset(&screen->signals);
	sigaddset(&screen->signals, SIGINT);
	sigaddset(&screen->signals, SIGTERM);
	sigaddset(&screen->signals, SIGHUP);
	sigaddset(&screen->signals, SIGWINCH);
	sigaddset(&screen->signals, SIGCONT);
	sigprocmask(SIG_BLOCK, &screen->signals, &screen->blocked_before);
	screen->signals_fd = signalfd(-1, &screen->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen->signals_fd < 0) {
		int r = -errno;

		top_screen_close(screen);
		return r;
	}
	take_terminal(screen);
	/* The other screen, without a cursor: what was there before is there afterwards. */
	fputs("\x1b[?1049h\x1b[?25l", stdout);
	fflush(stdout);
	*ret_screen = screen;
	return 0;
}

void top_screen_close(struct top_screen *screen)
{
	if (!screen)
		return;
	if (screen->signals_fd >= 0) {
		fputs("\x1b[?25h\x1b[?1049l", stdout);
		fflush(stdout);
		close_ptr(&screen->signals_fd);
	}
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
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

static bool ends(struct top_screen *screen)
{
	struct signalfd_siginfo info;

	while (read(screen->signals_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCONT)
			take_terminal(screen);
		else if (info.ssi_signo != SIGWINCH)
			return true;
	}
	return false;
}

/* True for "q", and where the terminal is gone. */
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
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = screen->signals_fd, .events = POLLIN}};

	while ((left = until - monotonic_ns()) > 0) {
		int n = poll(fds, 2, (int)(left / NS_PER_MS) + 1);

		if (n < 0 && errno != EINTR)
			return true;
		if (n > 0 && ((fds[1].revents && ends(screen)) || (fds[0].revents && quits())))
			return true;
	}
	return false;
}
