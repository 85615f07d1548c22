"""A test module stands by itself: what it shares with another one is in a conftest.py (fixtures) or in a helper module."""
import ast
import collections
import pathlib

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
MODULES = sorted(TESTS.rglob("*.py"))
OF_PYTEST = [p for p in MODULES if p.stem.startswith(("test_", "conftest"))]
SHORT_FIXTURE = 5    # lines: a fixture that only enters a context manager may be written twice


def imported(tree):
    """(line, name of the module) of every import, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)


def is_fixture(node):
    return isinstance(node, ast.FunctionDef) and any("pytest.fixture" in ast.unparse(d) for d in node.decorator_list)


def imports_of_test_modules(text):
    return [line for line, name in imported(ast.parse(text)) if name.split(".")[-1].startswith("test_")]


def imports_of_fixtures(text):
    """Imports that are marked as unused, which a fixture from another module is; `import *` brings tests."""
    return [number for number, line in enumerate(text.splitlines(), 1)
            if "F401" in line.partition("# noqa")[2] and "import *" not in line]


def fixtures_of(text):
    return [node for node in ast.parse(text).body if is_fixture(node)]


def test_no_module_imports_a_test_module():
    assert not [f"{p}:{line}" for p in MODULES for line in imports_of_test_modules(p.read_text())]


def test_no_fixture_is_imported():
    assert not [f"{p}:{line}" for p in OF_PYTEST if p != pathlib.Path(__file__)
                for line in imports_of_fixtures(p.read_text())]


def test_fixtures_are_in_conftest_files_and_test_modules():
    assert not [f"{p}: {node.name}" for p in MODULES if p not in OF_PYTEST for node in fixtures_of(p.read_text())]


def test_a_fixture_of_two_modules_is_in_conftest():
    where = collections.defaultdict(list)
    for path in MODULES:
        for node in fixtures_of(path.read_text()):
            text = ast.unparse(node)
            if text.count("\n") >= SHORT_FIXTURE:
                where[path.parent, text].append(path.name)
    assert not [names for names in where.values() if len(names) > 1]


@pytest.mark.parametrize("find, text, found", [
    (imports_of_test_modules, "from test_run import machine", [1]),
    (imports_of_test_modules, "import os\nimport test_run as run", [2]),
    (imports_of_test_modules, "def f():\n    from test_run import BUILD", [2]),
    (imports_of_test_modules, "from component.test_run import BUILD", [1]),
    (imports_of_test_modules, "from latest_run import BUILD\nimport testimages", []),
    (imports_of_fixtures, "from x import tree  # noqa: F401 (fixture)", [1]),
    (imports_of_fixtures, "from x import *  # noqa: F401,F403 (the tests)", []),
    (imports_of_fixtures, "import json    # noqa: E402", []),
])
def test_the_lint_finds_what_it_is_for(find, text, found):
    assert find(text) == found
