/* log.h - one line per event on stderr: time, level, text. Programs log OR return an error, never both. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* log_open() - sets the program's name for each line, and the highest level that is printed. Thread-safe
 * afterwards. */
void log_open(const char *program, enum log_level max);

/* log_level_parse() - "error", "warning", "info", "debug"; -EINVAL for anything else. */
int log_level_parse(const char *text, enum log_level *ret_level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
