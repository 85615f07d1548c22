"""Reads the rows of hooks.def, for programs and tests that need the list of hooks."""
import pathlib
import re

PATH = pathlib.Path(__file__).resolve().parent / "hooks.def"
# Macros whose rows generate the hook: the kind of the hook, and the suffix of its second variant.
ROWS = {"WORK_V1": ("WORK", ""), "WORK_V1_ASYNC": ("WORK", ""), "WORK_SYNC": ("WORK", "_ptds"), "WORK_ASYNC": ("WORK", "_ptsz"),
        "CAPTURE_BEGIN": ("CAPTURE", "_ptsz"), "CAPTURE_END": ("CAPTURE", "_ptsz"), "CHANGE": ("CHANGE", "")}


def read(text=None):
    """[(library, symbol, kind, parameters)]. library: CUDA or NVML. parameters: None if the hook is a function in a C file."""
    hooks = []
    rows = re.findall(r"^([A-Z][A-Z0-9_]*)\((\w+)(?:, [VP]\w+)?(?:, (\w+))?\)?(?:,\s+\(([^)]*)\))?",
                      PATH.read_text() if text is None else text, re.M)
    for row, symbol, kind, parameters in rows:
        if row in ROWS:
            kind, variant = ROWS[row]
            hooks += [("CUDA", name, kind, re.sub(r"\s+", " ", parameters)) for name in sorted({symbol, symbol + variant})]
        else:
            how, library = row.split("_")
            hooks.append((library, symbol, kind if how == "HOOK" else how, None))
    return hooks
