"""Each change of ./check mutants still fits the source, and the tests that must notice it are there."""
import collections
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("mutants_run", ROOT / "tests/mutants/run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)


def is_there(test):
    if run.is_unit(test):
        return f"['{test}'," in (ROOT / "tests/unit/meson.build").read_text()
    path, _, name = test.partition("::")
    source = ROOT / path
    return source.exists() and re.search(rf"^def {re.escape(name.partition('[')[0])}\(", source.read_text(), re.M)


@pytest.mark.parametrize("mutant", run.mutants(), ids=lambda mutant: mutant["name"])
def test_each_change_applies_once_and_its_tests_exist(mutant):
    text = (ROOT / mutant["file"]).read_text()
    assert run.changed(mutant, text) != text
    assert set(mutant) <= run.KEYS
    assert mutant["tests"] and all(is_there(test) for test in mutant["tests"])


def test_no_two_changes_have_the_same_name():
    counts = collections.Counter(mutant["name"] for mutant in run.mutants())
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("more, text", [
    ({}, "int f(void)\n{\n\treturn 2;\n}\n"),                                      # it is not there
    ({}, "int f(void)\n{\n\treturn 1;\n}\nint g(void)\n{\n\treturn 1;\n}\n"),      # it is there twice
    ({"function": "h"}, "int f(void)\n{\n\treturn 1;\n}\n"),
])
def test_a_change_that_does_not_fit_is_told(more, text):
    with pytest.raises(run.DoesNotApply):
        run.changed({"file": "x.c", "line": "return 1;", "replacement": "return 0;", **more}, text)


def test_a_change_is_made_in_the_function_that_it_names():
    text = "int f(void)\n{\n\treturn 1;\n}\nint g(void);\nint g(void)\n{\n\treturn 1;\n}\n"
    mutant = {"file": "x.c", "line": "return 1;", "function": "g", "replacement": "return 0;"}
    assert run.changed(mutant, text) == "int f(void)\n{\n\treturn 1;\n}\nint g(void);\nint g(void)\n{\n\treturn 0;\n}\n"
