/* page-files.h - the files of the page, which embed.py puts into the program: as the server sends them, and
 * what is written before and after the data in one self-contained file. */
#pragma once

#include <stddef.h>

extern const char ui_page_html[], ui_page_css[], ui_page_js[], ui_file_before[], ui_file_after[];
extern const size_t ui_page_html_len, ui_page_css_len, ui_page_js_len, ui_file_before_len, ui_file_after_len;
