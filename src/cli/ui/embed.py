#!/usr/bin/python3
"""embed.py page.html page.css page.js > page-files.c: the page as C strings, as the server sends it and as one file. In the one
file, the policy names the style and the script by their hashes."""
import base64
import hashlib
import pathlib
import sys

html, css, js = (pathlib.Path(path).read_text() for path in sys.argv[1:4])
for text, end in ((css, "</style"), (js, "</script")):
    if end in text.lower() or "<!--" in text:
        sys.exit(f"embed.py: a text that ends its own element: {end}")


def put(text, **parts):
    for name, part in parts.items():
        before, found, after = text.partition(f"<!-- {name} -->")
        if not found:
            sys.exit(f"embed.py: page.html has no <!-- {name} -->")
        text = before + part + after
    return text


def source(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def array(name, text):
    numbers = ",".join(map(str, text.encode()))
    return f"const char {name}[] = {{{numbers},0}};\nconst size_t {name}_len = sizeof({name}) - 1;\n"


served = put(html, policy="", style='<link rel="stylesheet" href="page.css">', script='<script src="page.js" defer></script>')
policy = f"default-src 'none'; script-src {source(js)}; style-src {source(css)}; img-src data:; base-uri 'none'; form-action 'none'"
marker = "\0"
whole = put(html, policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">', style=f"<style>{css}</style>",
            script=f'<script type="application/json" id="data">{marker}</script>\n<script>{js}</script>')
before, after = whole.split(marker)
print('#include "cli/ui/server.h"\n')
for name, text in (("ui_page_html", served), ("ui_page_css", css), ("ui_page_js", js), ("ui_file_before", before), ("ui_file_after", after)):
    print(array(name, text))
