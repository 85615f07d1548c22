"""Each function that the shim hooks is called by a test: as `library.NAME`, by its name in a string, or in C as `NAME(`.

A name that a script composes, such as f"cuMemset{bits}{suffix}", counts for all hooks of that form. test_shim_copies.py compares the names
that it has called with the hooks by itself. Tables of calls count, lists of names without arguments do not."""
import ast
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARES_ITSELF = r"cuMem(set|cpy(?!Batch|3DBatch|WithAttributes|3DWithAttributes))"    # test_shim_copies.py
TABLES = {"charge_order": ("ROWS", "UNDER_WAY"), "passed_on": ("CALLS",)}
# What these tests do with a name is not a call with arguments that mean anything.
NO_CALLS = {"test_shim_before_init.py", "test_shim_old_drivers.py", "test_unknown_functions.py"}
NAME = r"(?:cu|nvml)[A-Z]\w*"
COMPOSED = rf"{NAME}(?:\w*\{{\w+\}}\w*)+"
LIBRARIES = r"(?:cu|cuda|ml|n|nvml|real|lib|library)"


def in_script(text):
    """A string of a test: a name, a name that is composed, or a script."""
    text = re.sub(r"(^|\s)#.*", "", text)
    if re.fullmatch(NAME, text):
        return {text}
    if re.fullmatch(COMPOSED, text):
        return {re.sub(r"\{\w+\}", r"\\w*", text)}
    found = re.findall(rf"\b{LIBRARIES}\.({NAME})\b", text) + re.findall(rf"""["']({NAME})["']""", text)
    return set(found).union(*map(in_script, re.findall(rf"""f["']({COMPOSED})["']""", text)))


def called_in(text, suffix):
    """The names, and regular expressions of composed ones."""
    if suffix != ".py":
        return set(re.findall(rf"\b({NAME})\(", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
    called, nodes = set(), list(ast.walk(ast.parse(text)))
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}    # documentation
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            left_out |= set(map(id, node.values))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            called |= in_script(node.value)
        elif isinstance(node, ast.JoinedStr):
            called |= in_script("".join(part.value if isinstance(part, ast.Constant) else "{x}" for part in node.values))
        elif isinstance(node, ast.Attribute) and re.fullmatch(LIBRARIES, getattr(node.value, "id", "")) and re.fullmatch(NAME, node.attr):
            called.add(node.attr)
    return called


def loaded(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(module):
    calls = loaded(f"tests/component/{module}.py")
    return {key.partition(":")[0] for name in TABLES[module] for key in getattr(calls, name)}


def not_called(hooks, called):
    plain = {name for name in called if re.fullmatch(r"\w+", name)}
    composed = [re.compile(name) for name in called - plain]
    return sorted(name for name in hooks - plain if not any(form.fullmatch(name) for form in composed))


def test_each_hook_is_called_by_a_test():
    hooks = {name for _, name, kind, _ in loaded("src/shim/hook_rows.py").read() if kind != "DENY"}
    assert len(hooks) > 200
    called = set().union(*map(table, TABLES))
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".py", ".c") and "lint" not in path.parts and path.name not in NO_CALLS:
            called |= called_in(path.read_text(), path.suffix)
    missing = [name for name in not_called(hooks, called) if not re.match(COMPARES_ITSELF, name)]
    assert not missing, "hooks that no test calls; tests/component/passed_on.py is the shortest way"


@pytest.mark.parametrize("text, suffix, found", [
    ("ok(cu.cuNew(1))", ".py", {"cuNew"}), ('call("cuNew", 1)', ".py", {"cuNew"}), ("    # cu.cuNew(1)", ".py", set()),
    ("x = 1    # cu.cuNew(1)", ".py", set()), ('"""As cu.cuNew\n(1)."""', ".py", set()), ("cuNew", ".py", set()), ('script("""ok(cu.cuNew(1))  # cu.cuOld(1)""")', ".py", {"cuNew"}),
    ('getattr(cu, f"cuNew{bits}_v{n}")', ".py", {r"cuNew\w*_v\w*"}), ("r = cuNew(1);", ".c", {"cuNew"}), ("/* cuNew(1) */", ".c", set())])
def test_the_lint_finds_calls(text, suffix, found):
    assert called_in(text, suffix) == found


def test_the_lint_tells_what_is_not_called():
    assert not_called({"cuOne", "cuTwo_v2", "cuThree"}, {"cuOne", r"cuTwo\w*"}) == ["cuThree"]
