"""Each hook that charges is in the table of tests/component/charge_order.py, so its order is tested: the charge comes first."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIM = ROOT / "src/shim"
CHARGES = {"memory_enter", "memory_try_enter", "memory_charge", "memory_charge_once", "memory_try_charge", "memory_recharge",
           "account_charge", "account_try", "account_enter_tried", "account_enter_charged"}
# Charges what the driver has taken before, for calls that had to pay for it. Calls that give back do this, too.
SETTLES = {"pools_settle", "growth_catch_up"}
KINDS = {"CONTEXT", "ALLOC", "SHARED"}    # of hooks.def: what may make the driver take memory


def loaded(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table():
    return loaded("tests/component/charge_order.py")


def hook_rows():
    """[(library, symbol, kind, parameters or None)] of CUDA."""
    return [row for row in loaded("src/shim/hook_rows.py").read() if row[0] == "CUDA"]


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def functions_of(text):
    """{name: (whether it is static, whether it is a hook, the names that it calls or hands on)}. A function begins in the first column."""
    pattern = r"^(HOOK )?(static )?(?:inline )?\w[\w \n*]*?\*?\b(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}"
    return {name: (bool(static), bool(hook), set(re.findall(r"\b[a-z]\w+(?=\()|(?<=[(,] )[a-z]\w+(?=[,)])", body)))
            for hook, static, name, _, body in re.findall(pattern, without_comments(text), re.M | re.S)}


def charging_hooks(texts):
    """Of {file: C text}: the hooks from which a function of CHARGES is called, however many functions are between."""
    functions = {file: functions_of(text) for file, text in texts.items()}
    shared = {name: file for file, found in functions.items() for name, (static, _, _) in found.items() if not static}

    def reaches(file, name, seen):
        if name in CHARGES:
            return True
        file = file if name in functions[file] else shared.get(name)
        if file is None or name in SETTLES or (file, name) in seen:
            return False
        seen.add((file, name))
        return any(reaches(file, called, seen) for called in functions[file][name][2])

    return {name for file, found in functions.items() for name, (_, hook, _) in found.items()
            if hook and reaches(file, name, set())}


def sources():
    return {path.name: path.read_text() for path in SHIM.glob("*.c")}


def faults(charging, may_allocate, hooks, charged, under_way, nothing):
    listed = charged | under_way | nothing
    return ([f"{name} charges, and is not in ROWS" for name in sorted(charging - charged)] +
            [f"{name} is in ROWS, and its code charges nothing" for name in sorted(charged - charging)] +
            [f"{name} may allocate, and is neither in ROWS, UNDER_WAY nor NOTHING" for name in sorted(may_allocate - listed)] +
            [f"{name} is listed, and there is no such hook" for name in sorted(listed - hooks)] +
            [f"{name} is listed twice" for name in sorted(charged & under_way | charged & nothing | under_way & nothing)])


def test_each_hook_that_charges_is_in_the_table_of_charges():
    order, texts, rows = table(), sources(), hook_rows()
    hooks = {name for _, name, _, _ in rows}
    found = {name for text in texts.values() for name, (_, hook, _) in functions_of(text).items() if hook}
    lost = sorted({name for _, name, _, parameters in rows if parameters is None} - found)
    assert not lost, f"hooks whose functions this test does not find: {lost}"
    wrong = faults(charging_hooks(texts), {name for _, name, kind, _ in rows if kind in KINDS}, hooks,
                   {order.first_of(key) for key in order.ROWS}, set(order.UNDER_WAY), set(order.NOTHING))
    assert not wrong, wrong


def test_each_difference_has_a_reason():
    """What the driver meets is what the call takes, or the table says why not."""
    order = table()
    assert not [key for key, row in order.ROWS.items()
                if not row.why and (not row.charged or row.after not in (None, row.charged) or row.when_full != order.REFUSED)]
    assert not [name for name, reason in order.NOTHING.items() if len(reason.split()) < 2]


A_HOOK = "HOOK CUresult cuNew(CUdeviceptr *p)\n{\n\treturn %s;\n}\n"
BETWEEN = "static CUresult take(int n)\n{\n\treturn memory_enter(0, n);\n}\n\n"


@pytest.mark.parametrize("texts, found", [
    ({"a.c": A_HOOK % "memory_enter(0, 1)"}, {"cuNew"}),
    ({"a.c": BETWEEN + A_HOOK % "take(1)"}, {"cuNew"}),
    ({"a.c": A_HOOK % "take(1)", "b.c": BETWEEN.replace("static ", "")}, {"cuNew"}),
    ({"a.c": A_HOOK % "take(1)", "b.c": BETWEEN}, set()),    # static: another function of this name
    ({"a.c": A_HOOK % "change(1, take, p)", "b.c": BETWEEN.replace("static ", "")}, {"cuNew"}),
    ({"a.c": A_HOOK % "pools_settle()", "b.c": "bool pools_settle(void)\n{\n\tmemory_charge(0, 1);\n}\n"}, set()),
    ({"a.c": A_HOOK % "DRIVER(cuNew)(p) /* memory_enter(0, 1) */"}, set()),
])
def test_the_lint_finds_hooks_that_charge(texts, found):
    assert charging_hooks(texts) == found


@pytest.mark.parametrize("change, fault", [
    ({"charging": {"a", "b"}, "hooks": {"a", "b"}}, "b charges, and is not in ROWS"),
    ({"charging": set()}, "a is in ROWS, and its code charges nothing"),
    ({"may_allocate": {"b"}, "hooks": {"a", "b"}}, "b may allocate, and is neither in ROWS, UNDER_WAY nor NOTHING"),
    ({"nothing": {"b"}}, "b is listed, and there is no such hook"),
    ({"under_way": {"a"}}, "a is listed twice"),
])
def test_the_lint_tells_what_is_not_listed(change, fault):
    good = {"charging": {"a"}, "may_allocate": {"a"}, "hooks": {"a"}, "charged": {"a"}, "under_way": set(), "nothing": set()}
    assert faults(**good) == []
    assert faults(**good | change) == [fault]
