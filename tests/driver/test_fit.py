"""The real drivers as newer ones: a shim that lacks functions of theirs gets their names, and passes them on."""
import random
import re
import subprocess

import pytest

import fake_driver
import hook_rows
from probes import BUILD, SHIM, SONAMES, WAYS, compared, environment, exported

PREFIX = {"libcuda.so.1": "cu", "libnvidia-ml.so.1": "nvml"}


def hidden(soname, driver, count):
    """Functions of the driver that no hook answers."""
    hooked = {name for _, name, _, _ in hook_rows.read()}
    known = exported(driver.library(soname)) & set(fake_driver.symbols(soname)) - hooked
    return set(random.Random(soname).sample(sorted(known), min(count, len(known))))


def without(names, soname, folder):
    """A copy of the shim that does not have these names: in its place each has one that nothing asks for."""
    data = (SHIM / soname).read_bytes()
    begin = data.index(b"\0ration_spare_")    # the table of names lies before all else that holds names
    begin, end = data.rindex(b"\0\0", 0, begin), data.index(b"\0\0", begin)
    table = data[begin:end]
    for name in names:
        old = b"\0" + name.encode() + b"\0"
        assert table.count(old) == 1
        table = table.replace(old, old.replace(b"\0cu", b"\0qq").replace(b"\0nvml", b"\0qqqq"))
    folder.mkdir(exist_ok=True)
    target = folder / soname
    target.write_bytes(data[:begin] + table + data[end:])
    target.chmod(0o755)
    return target


@pytest.fixture
def older(driver, tmp_path):
    """{soname: names}, and a folder with shims that lacked 200 functions of this driver until they were fit to it."""
    names = {soname: hidden(soname, driver, 200) for soname in SONAMES}
    for soname in SONAMES:
        copy = without(names[soname], soname, tmp_path / "shim")
        assert not names[soname] & exported(copy)
        exported.cache_clear()
        said = subprocess.run([BUILD / "tests/driver/fit-shim", copy, driver.library(soname), PREFIX[soname]], check=True,
                              capture_output=True, text=True).stdout
        assert int(said) >= len(names[soname]) > 150
    return names, tmp_path / "shim"


def test_every_function_of_the_driver_is_there_and_passed_on(driver, older, tmp_path):
    names, folder = older
    for soname in SONAMES:
        assert exported(driver.library(soname)) - exported(folder / soname) == set()
        exported.cache_clear()
        env = environment(driver, "grant", tmp_path) | {"LD_LIBRARY_PATH": str(folder)}
        for value in 0, 4096:
            lines, count = compared(driver, env, "calls", soname, value, names=sorted(names[soname]))
            assert count >= len(names[soname])
            assert [line for line in lines if " = Segmentation fault  |" not in line or "absent" in line] == []


LINKED = """
#include <stdio.h>
extern int %s(void *);
int main(void) { printf("%%d", %s(NULL)); return 0; }
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_is_linked_with_one_starts(driver, older, way, tmp_path):
    names, folder = older
    # These refuse NULL, or say that the driver is not initialized.
    suitable = r"cu(Event|Stream|Ctx)(Query|GetFlags|Synchronize|GetId|Destroy)"
    name = next(n for n in sorted(names["libcuda.so.1"]) if re.fullmatch(suitable, n))
    (tmp_path / "linked.c").write_text(LINKED % (name, name))
    program = tmp_path / "linked"
    subprocess.run(["cc", "-w", "-o", program, tmp_path / "linked.c", driver.library("libcuda.so.1"),
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True)
    run = lambda env: subprocess.run([program], env=env, capture_output=True, text=True, timeout=60)
    env = environment(driver, way, tmp_path)
    old = {key: value.replace(str(SHIM), str(tmp_path / "old")) for key, value in env.items()}
    for soname in SONAMES:
        without(names[soname], soname, tmp_path / "old")
    expected = run(environment(driver, None, tmp_path))
    assert expected.returncode == 0 and expected.stdout not in ("0", "801"), expected.stderr
    found = run({key: value.replace(str(SHIM), str(folder)) for key, value in env.items()})
    assert (found.returncode, found.stdout) == (0, expected.stdout), found.stderr
    assert "undefined symbol: " + name in run(old).stderr
