"""Comments, messages and documents in plain words: patterns that are nearly always hard to read do not become more.

python3 tests/lint/test_words.py [--show FOLDER...] prints the counts of each folder, or each place.
"""
import collections
import pathlib
import re
import subprocess
import sys
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A pattern, and what to write instead. Texts are matched with each run of white space as one blank.
PATTERNS = {
    r"\b(nobody|anybody|everybody|somebody|whoever)\b": "name the subject: the process, the pod, the thread, the user",
    r"\bwho may\b": "name the subject",
    r"\b(by|to|from|for|with|beside) who\b": "name the subject",
    r"(?:^|[.;] )Who [^?.]*(?:$|\.)": "begin with the subject; Who is for questions",
    r"\bwho (he|it) is\b": "authentication, or the identity of the process",
    r"(?<!there )(?<!There )\bis none\b(?! of)": "is invalid, is not a ..., or does not exist",
    r"(?<!there )(?<!There )\bis no (whole )?(text|number|object|list|string|boolean|file|folder|name)\b(?! (that|of|in) )":
        "is not a ...",
    r"\b(none|nothing) any more\b": "no longer has ...",
    r"\bso much of\b": "say how much of what",
    r"\b(come|comes|came) about\b": "has started",
    r"\b[Ii]t is to be\b": "it must be",
    r"\bwhat else you find\b": "name it",
    r"\b(what|all) there is\b(?! to )": "name it",
    r"\bto be had\b": "is available, can be opened, ...",
    r"\bthat there is\b(?= (of|when)\b|[.,;:])": "that exists",
    r"\bheld to (its|it|a|no|their|what)\b": "limited to ..., without a limit",
    r"\b(is|are|was|were) told (of|that|so|by|what)\b": "say who reports what: ... reports, ... knows",
    r"\b(scheduler|replica|pair|one) (that|who|which) leads\b": "the leading replica",
    r"(?<!lab )\bof ours\b": "of ration, of the agent, of this process",
    r"\bpast the scheduler\b": "without ration-scheduler",
    r"\bmade anew\b": "created again",
    r"\b(of|and|or|say|says|know|knows|tell|tells) who\b(?! may\b)": "name the subject: which process, pod, agent",
    r"\bso many\b(?! that)": "name the number: N of them, that many",
}
# The field's word is GPU. What remains in a finished folder is a key of JSON, the name of a file, or an option.
TERMS = {r"\b[Cc]ards?\b": "GPU"}

# How many matches of PATTERNS and of TERMS each folder has. Numbers may only become smaller; 0: the folder is finished.
RECORDED = {
    ".": (0, 1),
    "bench": (0, 2),
    "completions": (0, 0),
    "deploy": (0, 0),
    "docs": (0, 40),
    "examples": (0, 5),
    "lab": (1, 1),
    "sim": (0, 14),
    "src/agent": (0, 2),
    "src/base": (0, 0),
    "src/cli": (0, 9),
    "src/core": (0, 0),
    "src/cuda": (0, 0),
    "src/grant": (0, 0),
    "src/kube": (0, 6),
    "src/model": (0, 0),
    "src/net": (0, 0),
    "src/node": (0, 0),
    "src/nvml": (0, 0),
    "src/run": (0, 4),
    "src/scheduler": (0, 5),
    "src/shim": (0, 0),
    "tests": (385, 469),
}
NOT_OURS = {"LICENSE"}
TEXTS = {".md", ".scd", ".txt"}
C = {".c", ".h", ".def", ".inc", ".tpl"}
HASH = {".yaml", ".yml", ".toml", ".build", ".sh", ".syms"}
C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PYTHON_TOKEN = re.compile(r"#[^\n]*|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
ANY = re.compile("|".join([*PATTERNS, *TERMS]))


def of_c(text):
    for token in C_TOKEN.finditer(text):
        found = token.group()
        if found.startswith("/"):
            yield token.start(), re.sub(r"^/\*+|\*/$|^//|\n[ \t]*\*(?!/)", " ", found)
        elif found.startswith('"'):
            yield token.start(), found.strip('"').replace("\\n", "\n").replace('\\"', '"')


def of_python(text):
    for token in PYTHON_TOKEN.finditer(text):
        yield token.start(), token.group().strip("#\"'")


def of_hash(text):
    for found in re.finditer(r"(?:^|\s)(#[^\n]*(?:\n[ \t]*#[^\n]*)*)", text):
        yield found.start(1), re.sub(r"(^|\n)[ \t]*#", " ", found[1])


def of_document(text):
    start = 0
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*[|#-]))", text):
        yield start, paragraph
        start += len(paragraph)


def texts_of(path, text):
    """(offset, text) of each comment and message of a program, or of each paragraph of a document."""
    reader = (of_c if path.suffix in C else of_python if path.suffix == ".py" else of_hash if path.suffix in HASH else
              of_document if path.suffix in TEXTS else None)
    for start, found in reader(text) if reader else ():
        yield start, " ".join(found.split())


def matches(text, patterns):
    return [(pattern, found.group()) for pattern in patterns for found in re.finditer(pattern, text)]


def folder_of(name):
    parts = pathlib.PurePath(name).parts
    return "." if len(parts) == 1 else "/".join(parts[:2]) if parts[0] == "src" and len(parts) > 2 else parts[0]


def count():
    """{folder: ([place of each match of PATTERNS], [of TERMS])}"""
    places = collections.defaultdict(lambda: ([], []))
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        path = ROOT / name
        if name in NOT_OURS or path == pathlib.Path(__file__).resolve() or not path.is_file():
            continue
        if path.suffix not in C | HASH | TEXTS | {".py"}:
            continue
        whole, lists = path.read_text(errors="replace"), places[folder_of(name)]
        for start, text in texts_of(path, whole):
            for places_of, patterns in zip(lists, (PATTERNS, TERMS)) if ANY.search(text) else ():
                places_of += [f"{name}:{whole.count(chr(10), 0, start) + 1}: \"{found}\": {patterns[pattern]}"
                              for pattern, found in matches(text, patterns)]
    return places


def test_no_folder_has_more_of_what_is_hard_to_read():
    places, more, fewer = count(), [], []
    for folder in sorted(places.keys() | RECORDED.keys()):
        recorded_here = zip(places[folder], RECORDED.get(folder, (0, 0)), ("matches of PATTERNS", "matches of TERMS"))
        for found, recorded, what in recorded_here:
            if len(found) > recorded:
                more += [f"{folder} has {len(found)} {what}; at most {recorded} are allowed:", *found[:40]]
            elif len(found) < recorded:
                fewer.append(f"{folder} has {len(found)} {what} and no longer {recorded}")
    assert not more, "\n".join(more)
    if fewer:
        warnings.warn("lower these numbers of RECORDED in tests/lint/test_words.py: " + "; ".join(fewer), stacklevel=1)


@pytest.mark.parametrize("text", [
    "Whoever keeps the others waiting", "Who waits looks this often.", "X: V is none: it must be a number", "\"links\" is no list",
    "Nothing is free; it is to be refused", "The memory that there is.", "one that is not to be had", "read by who waits",
    "a container held to its memory", "the pod was told so", "the scheduler that leads", "a pod of ours", "bound past the scheduler",
    "the Node object is made anew", "the text of who has what", "stop after so many"])
def test_what_is_hard_to_read_is_found(text):
    assert matches(text, PATTERNS) or matches(text.lower(), PATTERNS)


@pytest.mark.parametrize("text", [
    "Returns NULL if there is none.", "There is no list of pods.", "Who owns a slot?", "a reader who sees the number",
    "the file is not a list", "It must be freed.", "the pod that there is no room for", "memory is held for the pod",
    "so many that they do not fit", "The agent told the kubelet.", "anew"])
def test_plain_english_is_not(text):
    assert not matches(text, PATTERNS)


def test_only_comments_and_messages_of_programs_count():
    code = 'int nobody; /* whoever\n * asks */\nprintf("anybody\\n"); // somebody\n'
    assert [text for _, text in texts_of(pathlib.Path("a.c"), code)] == ["whoever asks", "anybody", "somebody"]
    assert [text for _, text in texts_of(pathlib.Path("a.py"), 'nobody = "who" # whom\n')] == ["who", "whom"]


def main():
    places = count()
    for folder in sorted(places):
        if "--show" not in sys.argv:
            print(f'    "{folder}": ({len(places[folder][0])}, {len(places[folder][1])}),')
        elif folder in sys.argv:
            print(*places[folder][0], *places[folder][1], sep="\n")


if __name__ == "__main__":
    main()
