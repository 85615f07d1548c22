#include "scheduler/event-log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/log/record.h"
#include "core/log/state.h"
#include "kube/json-archive.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/decision-json.h"
#include "scheduler/scheduler.h"

#define SEGMENT_BYTES (3u << 20)
#define LINE_BYTES_MAX (1u << 20) /* after a longer line the log starts again */
#define ANSWER_BYTES_MAX (256u << 20)
#define CHILD_SECONDS_MAX 60
#define PIECE_BYTES (1u << 20)
#define AGAIN_NS (10 * NS_PER_S) /* after a state or a line that could not be written */
/* The fastest level suffices, because a state is mostly names that repeat. */
#define GZIP_MODE "wb1"

struct segment {
	int state; /* a file in memory with the compressed state at the segment's beginning; -1: none */
	bool whole;
	size_t state_bytes;
	struct strbuf lines;
};

/* A child process that writes into a file. */
struct child {
	struct event_log *log;
	pid_t pid;
	int pidfd, file;
	struct loop_io *io;
	void (*done)(struct event_log *log, bool ok);
};

struct event_log {
	struct scheduler *scheduler;
	struct segment older,
		newer; /* events are written to the newer one; both are empty before the core is ready */
	bool begun;
	int64_t not_before_ns; /* no segment begins earlier */
	struct strbuf line;
	struct child state, answer;
	struct http_call *call; /* the call that waits for the answer; NULL: none */
	bool answering;		/* a child is writing the answer, or this process is reading it */
	/* The answer as far as it has been read. It is read in pieces, because filter must not wait for all
	 * of it. */
	struct loop_timer *timer;
	char *text;
	size_t text_len, text_size;
};

/* ---- children ---- */

static void child_clear(struct child *child)
{
	loop_io_remove(child->io);
	if (child->pidfd >= 0)
		close(child->pidfd);
	child->io = NULL;
	child->pid = 0;
	child->pidfd = -1;
}

static void child_kill(struct child *child)
{
	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	child_clear(child);
	close(child->file);
}

static void on_child_ended(void *userdata, int fd, uint32_t events)
{
	struct child *child = userdata;
	int status = 0;
	pid_t pid = child->pid;

	pid = waitpid(pid, &status, WNOHANG);
	if (pid == 0)
		return;
	child_clear(child);
	child->done(child->log, pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Runs in the child. The child has this process's memory, but it must write only to the file. */
static void child_run(struct event_log *log, int file, int (*write_to)(struct event_log *log, int file))
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	alarm(CHILD_SECONDS_MAX);
	_exit(write_to(log, file) < 0);
}

/* Calls `write_to` in a child, then `done` in this process. child->file is the child's file then, and done()
 * takes it over. */
static int child_start(struct event_log *log, struct child *child,
	int (*write_to)(struct event_log *log, int file), void (*done)(struct event_log *log, bool ok))
{
	int file = memfd_create("ration-history", MFD_CLOEXEC);
	pid_t pid = file < 0 ? -1 : fork();

	if (pid == 0)
		child_run(log, file, write_to);
	if (pid < 0) {
		if (file >= 0)
			close(file);
		return -errno;
	}
	*child = (struct child){.log = log,
		.pid = pid,
		.file = file,
		.done = done,
		.pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
	if (child->pidfd >= 0 && loop_add_io(log->scheduler->loop, child->pidfd, EPOLLIN, on_child_ended,
					 child, &child->io) == 0)
		return 0;
	child_kill(child);
	return -ENOMEM;
}

/* ---- the state at the beginning of a segment ---- */

static int add_state_line(void *userdata, const struct strbuf *line)
{
	gzFile file = userdata;

	return gzwrite(file, line->data, (unsigned)line->len) == (int)line->len && gzputc(file, '\n') == '\n'
		       ? 0
		       : -EIO;
}

static int write_state(struct event_log *log, int fd)
{
	gzFile file = gzdopen(fd, GZIP_MODE);
	int r = file ? core_write_state(&log->scheduler->core, &json_archive, add_state_line, file) : -ENOMEM;

	return file && gzclose(file) != Z_OK ? -EIO : r;
}

static void segment_clear(struct segment *segment)
{
	if (segment->state >= 0)
		close(segment->state);
	strbuf_release(&segment->lines);
	*segment = (struct segment){.state = -1};
	strbuf_init(&segment->lines, 2 * SEGMENT_BYTES);
}

static void on_state_written(struct event_log *log, bool ok)
{
	struct segment *segment = &log->newer;
	struct stat stat = {0};

	segment->state = log->state.file;
	segment->whole = ok && fstat(segment->state, &stat) == 0;
	segment->state_bytes = (size_t)stat.st_size;
	if (segment->whole)
		return;
	log_warning("the state of the scheduler cannot be recorded for `ration history`, trying again");
	log->not_before_ns = monotonic_ns() + AGAIN_NS;
}

/* What was recorded before cannot be continued. The cause may return at once, so the next segment waits. */
static void begin_anew(struct event_log *log)
{
	child_kill(&log->state);
	segment_clear(&log->older);
	segment_clear(&log->newer);
	strbuf_clear(&log->line);
	log->begun = false;
	log->not_before_ns = monotonic_ns() + AGAIN_NS;
}

static void begin_segment(struct event_log *log)
{
	/* If the state of a segment could not be written, its events are dropped. The older events cannot be
	 * continued without them. */
	segment_clear(&log->older);
	if (log->newer.whole) {
		log->older = log->newer;
		log->newer = (struct segment){.state = -1};
	}
	segment_clear(&log->newer);
	log->not_before_ns = 0;
	log->begun = child_start(log, &log->state, write_state, on_state_written) == 0;
	if (log->begun)
		return;
	begin_anew(log);
}

/* ---- events ---- */

/* False: nothing is recorded now. Otherwise the caller must call line_end(). */
static bool line_begin(struct event_log *log, struct archive *archive)
{
	if (!log->begun || log->line.failed)
		return false;
	strbuf_clear(&log->line);
	archive_to_write(archive, &json_archive, &log->line);
	archive_begin(archive);
	return true;
}

static void line_end(struct event_log *log, struct archive *archive)
{
	archive_end(archive);
	if (log->line.failed) /* an incomplete log is useless: event_log_follow() starts it again */
		return;
	strbuf_add(&log->line, "\n", 1);
	strbuf_add(&log->newer.lines, log->line.data, log->line.len);
}

static void on_event(void *userdata, const struct core *core, const struct core_event *event)
{
	struct archive archive;

	if (!line_begin(userdata, &archive))
		return;
	record_event(&archive, event);
	line_end(userdata, &archive);
}

static void on_output(void *userdata, const struct core_output *output)
{
	struct archive archive;

	if (!line_begin(userdata, &archive))
		return;
	record_output(&archive, output);
	line_end(userdata, &archive);
}

/* ---- the answer ---- */

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n <= 0)
			return -EIO;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Runs in the child, so moving the position in the file affects no other code. */
static int add_unpacked(int state, int out)
{
	char buf[65536];
	gzFile file;
	int n, r = 0;

	if (lseek(state, 0, SEEK_SET) < 0 || !(file = gzdopen(state, "rb")))
		return -EIO;
	while (r == 0 && (n = gzread(file, buf, sizeof(buf))) > 0)
		r = write_all(out, buf, (size_t)n);
	return n < 0 ? -EIO : r;
}

static int add_end_line(void *userdata, const struct strbuf *line)
{
	int out = *(int *)userdata;
	int r = write_all(out, line->data, line->len);

	return r < 0 ? r : write_all(out, "\n", 1);
}

static int write_answer(struct event_log *log, int out)
{
	const struct segment *first = log->older.whole ? &log->older : &log->newer;
	_cleanup_strbuf_ struct strbuf head;
	char time[TIME_TEXT_SIZE];
	int r;

	strbuf_init(&head, 4096);
	strbuf_addf(&head,
		"{\"history\":4,\"scheduler\":\"" RATION_VERSION "\",\"time\":\"%s\",\"clock\":%lld}\n",
		time_text(realtime_ns(), time), (long long)(realtime_ns() - monotonic_ns()));
	r = write_all(out, head.data, head.len);
	if (r == 0)
		r = add_unpacked(first->state, out);
	if (r == 0 && first == &log->older)
		r = write_all(out, strbuf_cstr(&first->lines), first->lines.len);
	if (r == 0)
		r = write_all(out, strbuf_cstr(&log->newer.lines), log->newer.lines.len);
	if (r == 0)
		r = write_all(out, "{\"end\":true}\n", 13);
	return r == 0 ? core_write_state(&log->scheduler->core, &json_archive, add_end_line, &out) : r;
}

static void refuse(struct http_call *call, const char *text)
{
	http_call_reply(call, 503, "text/plain; charset=utf-8", strdup(text));
}

static void end_answer(struct event_log *log, bool ok)
{
	struct http_call *call = TAKE_PTR(log->call);

	log->answering = false;
	close(log->answer.file);
	if (ok) {
		http_call_reply(call, 200, "application/x-ndjson", TAKE_PTR(log->text));
		return;
	}
	free(TAKE_PTR(log->text));
	refuse(call, "the history cannot be written, try again\n");
}

/* Reads the next piece of what the child has written. */
static void on_piece(void *userdata)
{
	struct event_log *log = userdata;
	size_t left = log->text_size - log->text_len;
	ssize_t n = pread(log->answer.file, log->text + log->text_len,
		left < PIECE_BYTES ? left : PIECE_BYTES, (off_t)log->text_len);

	if (n > 0)
		log->text_len += (size_t)n;
	log->text[log->text_len] = '\0';
	if (n > 0 && log->text_len < log->text_size)
		loop_timer_set(log->timer, 0);
	else
		end_answer(log, log->text_len == log->text_size);
}

static void on_answer_written(struct event_log *log, bool ok)
{
	struct stat stat = {0};

	ok = ok && fstat(log->answer.file, &stat) == 0 && stat.st_size <= ANSWER_BYTES_MAX;
	log->text_len = 0;
	log->text_size = (size_t)stat.st_size;
	log->text = ok ? malloc(log->text_size + 1) : NULL;
	if (log->text)
		loop_timer_set(log->timer, 0);
	else
		end_answer(log, false);
}

/* The call waits for event_log_follow(). Inside an event, or with orders that are not carried out, the state
 * is not one that a replay can reach. */
void event_log_answer(struct event_log *log, struct http_call *call)
{
	if (log->call)
		refuse(call, "another history is being written, try again in a second\n");
	else if (!log->older.whole && !log->newer.whole)
		refuse(call, "nothing is recorded yet, try again in a second\n");
	else
		log->call = call;
}

void event_log_stop(struct event_log *log)
{
	if (!log || !log->call)
		return;
	loop_timer_stop(log->timer);
	if (log->answer.pid)
		child_kill(&log->answer);
	else if (log->answering)
		close(log->answer.file);
	log->answering = false;
	free(TAKE_PTR(log->text));
	refuse(TAKE_PTR(log->call), "ration-scheduler ends\n");
}

static void start_answer(struct event_log *log)
{
	if (log->older.whole || log->newer.whole) {
		log->answering = child_start(log, &log->answer, write_answer, on_answer_written) == 0;
		if (log->answering)
			return;
	}
	refuse(TAKE_PTR(log->call), "the history cannot be written, try again in a second\n");
}

void event_log_follow(struct event_log *log)
{
	if (!log)
		return;
	if (log->newer.lines.failed || log->line.failed)
		begin_anew(log);
	if (log->call && !log->answering)
		start_answer(log);
	if (log->state.pid || !core_is_ready(&log->scheduler->core) ||
		(log->not_before_ns && monotonic_ns() < log->not_before_ns))
		return;
	if (!log->begun || log->newer.lines.len > SEGMENT_BYTES || !log->newer.whole)
		begin_segment(log);
}

/* ---- beginning and end ---- */

int event_log_new(struct scheduler *scheduler, struct event_log **ret_log)
{
	struct event_log *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	if (loop_add_timer(scheduler->loop, on_piece, log, &log->timer) < 0) {
		free(log);
		return -ENOMEM;
	}
	signal(SIGCHLD, SIG_DFL); /* the parent process may have set it to ignored; then the exit status of a
				     child would be lost */
	log->scheduler = scheduler;
	log->older.state = log->newer.state = -1;
	segment_clear(&log->older);
	segment_clear(&log->newer);
	strbuf_init(&log->line, LINE_BYTES_MAX);
	scheduler->core.log = (struct core_log){.event = on_event, .output = on_output, .userdata = log};
	*ret_log = log;
	return 0;
}

void event_log_free(struct event_log *log)
{
	if (!log)
		return;
	event_log_stop(log);
	log->scheduler->core.log = (struct core_log){0};
	child_kill(&log->state);
	loop_timer_remove(log->timer);
	segment_clear(&log->older);
	segment_clear(&log->newer);
	strbuf_release(&log->line);
	free(log);
}

size_t event_log_bytes(const struct event_log *log)
{
	return log->older.lines.len + log->newer.lines.len + log->older.state_bytes + log->newer.state_bytes;
}
