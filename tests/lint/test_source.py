"""What a reviewer would otherwise have to look at every time."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(p for top in ("src", "sim", "tests", "bench") for p in (ROOT / top).rglob("*.[ch]"))

# Who may include whom, from ARCHITECTURE.md.
MAY_USE = {
    "base": {"base"},
    "model": {"base", "model"},
    "core": {"base", "model", "core"},
    "node": {"base", "model", "node"},
    "net": {"base", "net"},
    "kube": {"base", "model", "core", "net", "kube"},
    "plan": {"base", "model", "core", "kube", "plan"},
    "nvml": {"base", "nvml"},
    "cuda": {"cuda"},
    "shim": {"cuda", "grant", "shim"},
    "run": {"base", "grant", "model", "nvml", "run"},
    "grant": {"grant"},
    "scheduler": {"base", "model", "core", "net", "kube", "scheduler"},
    "agent": {"base", "model", "node", "net", "kube", "nvml", "grant", "agent"},
    "cli": {"base", "model", "core", "net", "kube", "plan", "nvml", "grant", "cli"},
}
# The longest that were left after a look; new ones need a reason too.
LONG_FUNCTIONS_ALLOWED = 80
LONG_FILES_ALLOWED = 600
# Files that do not say yet what they are for. None may be added.
NO_PURPOSE_ALLOWED = {
    "src/agent/container/delivery.c", "src/agent/container/isolation.c", "src/agent/container/resized.c", "src/cli/cordon-command.c",
    "src/cli/inspect-command.c", "src/core/gang/gang-attempt.c",
}


def test_c_code_is_formatted():
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, SOURCES)], cwd=ROOT,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000] + "\nRun: clang-format -i FILE"


def test_includes_follow_the_direction_of_dependency():
    wrong = []
    for path in (ROOT / "src").rglob("*.[ch]"):
        part = path.relative_to(ROOT / "src").parts[0]
        for target in re.findall(r'^#include "([a-z]+)/', path.read_text(), re.M):
            if target not in MAY_USE[part]:
                wrong.append(f"{path.relative_to(ROOT)} includes {target}/")
    assert not wrong, wrong


def test_every_source_file_says_what_it_is_for():
    """Each header begins with a comment, and so does each other file without a header of its own name."""
    without = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.[ch]")
               if not p.read_text().startswith("/* ") and (p.suffix == ".h" or not p.with_suffix(".h").exists())}
    assert without <= NO_PURPOSE_ALLOWED, f"begin with a comment that says what the file is for: {sorted(without - NO_PURPOSE_ALLOWED)}"


def test_what_decides_is_pure():
    """No I/O, no clock: what model/, node/, core/ and plan/ may not call."""
    forbidden = re.compile(r"\b(open|fopen|read|write|socket|time|clock_gettime|\w+time_ns|monotonic_ns|getenv|rand|random|printf|log_\w+)\(")
    wrong = [f"{p.name}: {m.group(0)}" for top in ("model", "node", "core", "plan") for p in (ROOT / "src" / top).rglob("*.c")
             for m in forbidden.finditer(re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S))]
    assert not wrong, wrong


def test_functions_and_files_stay_small():
    out = subprocess.run(["ctags", "-f", "-", "--languages=C", "--c-kinds=f", "--fields=+ne", "--output-format=json",
                          *[str(p) for p in SOURCES if p.suffix == ".c" and "tests" not in p.parts]],
                         capture_output=True, text=True, check=True).stdout
    long_functions = [f"{t['path']}:{t['name']} {t['end'] - t['line'] + 1}" for t in map(json.loads, out.splitlines())
                      if "end" in t and t["end"] - t["line"] + 1 > LONG_FUNCTIONS_ALLOWED]
    long_files = [f"{p} {n}" for p in SOURCES if (n := len(p.read_text().splitlines())) > LONG_FILES_ALLOWED
                  and "tests" not in p.parts]
    assert not long_functions and not long_files, (long_functions, long_files)


def test_what_is_cleaned_up_has_a_value_before_each_return():
    """A `_cleanup_` variable that is returned past before it has one frees whatever lay on the stack; gcc does not tell."""
    wrong = []
    for path in SOURCES:
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            declared = re.match(r"\t+_cleanup_\w+ [^=]*?\*?(\w+);$", line)
            for next_line in lines[at + 1:] if declared else ():
                if re.search(rf"&{declared[1]}\b|\b{declared[1]} =", next_line) or next_line.startswith("}"):
                    break
                if re.search(r"\b(return|goto)\b", next_line):
                    wrong.append(f"{path}:{at + 1}: {declared[1]}")
                    break
    assert not wrong


def test_nothing_of_one_machine_is_in_the_project():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    # Split so that this file does not find itself.
    pattern = re.compile("|".join(["/wo" + "rk/", "/tmp/" + "bash_jobs", "\\.\\./sha" + "red"]))
    wrong = []
    for name in filter(None, listed):
        path = ROOT / name
        if path.suffix == ".sum" or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if pattern.search(text):
            wrong.append(name)
    assert not wrong, wrong


# The largest circle of files that include each other, a source and its header being one. Three is what a person can keep in mind;
# the others are as they were found, and only become smaller.
CIRCLES = {"src/agent/kubelet": 10, "src/agent/container": 4, "src/shim": 5}


def circles(graph):
    """The strongly connected parts of a graph {node: its neighbours}, by two passes (Kosaraju)."""
    backwards, order, seen = {node: set() for node in graph}, [], set()
    for node, neighbours in graph.items():
        for other in neighbours:
            backwards[other].add(node)

    def collect(edges, start, into):
        stack = [(start, iter(edges[start]))]
        seen.add(start)
        while stack:
            node, others = stack[-1]
            other = next((o for o in others if o not in seen), None)
            if other is None:
                into.append(node)
                stack.pop()
            else:
                seen.add(other)
                stack.append((other, iter(edges[other])))
    for node in graph:
        if node not in seen:
            collect(graph, node, order)
    seen.clear()
    found = []
    for node in reversed(order):
        if node not in seen:
            found.append([])
            collect(backwards, node, found[-1])
    return found


def test_files_include_each_other_in_small_circles_only():
    assert sorted(map(sorted, circles({1: {2}, 2: {3}, 3: {1, 4}, 4: set(), 5: {4}}))) == [[1, 2, 3], [4], [5]]
    graph = {}
    for path in (ROOT / "src").rglob("*.[ch]"):
        included = {ROOT / "src" / name for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)}
        graph.setdefault(path.with_suffix(""), set()).update(i.with_suffix("") for i in included if i.exists())
    for names in circles({unit: {o for o in others if o in graph} for unit, others in graph.items()}):
        common = os.path.commonpath([n.parent for n in names])
        limit = CIRCLES.get(str(pathlib.Path(common).relative_to(ROOT)), 3)
        assert len(names) <= limit, (limit, sorted(str(n.relative_to(ROOT)) for n in names))


# Files of the agent that may include the struct of the whole agent. Those beside it put the agent together; a part in a folder is given what
# it needs instead. A file that no longer includes it must leave the list, so that the list only becomes shorter.
KNOWS_THE_AGENT = {
    "agent.c", "main.c", "pages.c", "reconcile.c"}


def test_only_these_files_know_the_struct_of_the_whole_agent():
    knows = {str(p.relative_to(ROOT / "src/agent")) for p in (ROOT / "src").rglob("*.[ch]") if '#include "agent/agent.h"' in p.read_text()}
    assert knows == KNOWS_THE_AGENT


# Headers of each folder of the agent that the other folders include. One each is the aim; the lists only become shorter.
HEADERS_FOR_OTHERS = {
    "container": {"allotment.h", "delivery.h", "driver.h", "images.h", "leftovers.h", "runtime.h"},
    "gpu": {"health.h", "looks.h"},
    "kubelet": {"podresources.h"},
    "node": {"pod-read.h"}}


def test_a_folder_of_the_agent_shows_few_headers_to_the_others():
    shown = {}
    for path in (ROOT / "src/agent").glob("*/*.[ch]"):
        for folder, header in re.findall(r'^#include "agent/([a-z]+)/([^"/]+)"', path.read_text(), re.M):
            if folder != path.parent.name:
                shown.setdefault(folder, set()).add(header)
    assert shown == HEADERS_FOR_OTHERS


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md",
                                  "LICENSE", "demo", "check", ".ci/run"])
def test_the_front_door_is_complete(name):
    assert (ROOT / name).exists()


def test_the_policy_guards_every_placement_key_of_the_header():
    """A chart is used from a checkout, without a build: its list is written down, and held to the header here."""
    header = (ROOT / "src/kube/names.h").read_text()
    section = re.search(r"/\* Placement keys: .*?\*/\n(.*?)\n\n", header, re.S)[1]
    keys = re.findall(r'^#define ANNOTATION_\w+ "([^"]+)"', section, re.M)
    policy = (ROOT / "deploy/charts/ack-co-scheduler/templates/placement-keys.yaml").read_text()
    listed = re.findall(r'"([^"]+)"', re.search(r"{{- \$keys := list\n(.*?) }}", policy, re.S)[1])
    assert len(keys) > 8 and listed == keys


def test_command_lines_are_parsed_by_the_table_only():
    """src/base/options.h; the simulated nvidia-smi has NVIDIA's options, not ours."""
    parsing = {str(p.relative_to(ROOT)) for top in ("src", "sim") for p in (ROOT / top).rglob("*.[ch]")
               if re.search(r"<getopt\.h>|getopt_long\(", re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S))}
    assert parsing == {"src/base/options.c", "sim/nvidia-smi/main.c"}


def test_every_table_of_options_reaches_the_pages_and_the_completions():
    """What is in docs/options/dump.c is in both (tests/component/test_options.py)."""
    tables = {name for path in [*(ROOT / "src").rglob("option-table.c"), *(ROOT / "sim").rglob("option-table.c")]
              for name in re.findall(r"^const struct option_table (\w+) =", path.read_text(), re.M)}
    dumped = re.findall(r"^\t&(\w+),", (ROOT / "docs/options/dump.c").read_text(), re.M)
    assert len(tables) > 20 and sorted(dumped) == sorted(tables)


def test_every_event_of_the_agent_is_in_its_man_page():
    text = "\n".join(p.read_text() for p in (ROOT / "src/agent").rglob("*.c"))
    reasons = set(re.findall(r'"(GPU[A-Z][A-Za-z]+)"', text))
    events = (ROOT / "docs/man/ration-agent.8.scd").read_text().split("# EVENTS")[1].split("\n# ")[0]
    assert len(reasons) > 10
    assert {r for r in reasons if f"*{r}*" not in events} == set()


@pytest.mark.parametrize("documents, least", [("ARCHITECTURE.md", 11), ("docs/adr/*.md", 40)])
def test_functions_and_files_that_the_architecture_names_exist(documents, least):
    text = "\n".join(p.read_text() for p in ROOT.glob(documents))
    sources = "\n".join(p.read_text() for top in ("src", "sim") for p in (ROOT / top).rglob("*.[ch]"))
    functions = set(re.findall(r"`([a-z_]+)\(\)`", text))
    assert len(functions) >= least
    assert not [f for f in functions if not re.search(rf"\b{f}\(", sources)]
    files = set(re.findall(r"`((?:src|sim|deploy|tests|docs|lab)/[\w./-]+)`", text))
    assert not [f for f in files if not (ROOT / f).exists()]


def test_every_folder_of_the_source_has_a_short_readme_that_names_only_files_that_exist():
    """A name in backticks is looked for beside the README, or from the root of the repository; it may have a *."""
    wrong = []
    for folder in sorted({p.parent for p in SOURCES if p.is_relative_to(ROOT / "src")}):
        readme = folder / "README.md"
        text = readme.read_text() if readme.is_file() else ""
        if not text.startswith("# ") or len(text.splitlines()) > 40:
            wrong.append(f"{readme.relative_to(ROOT)}: must exist, begin with '# ' and have at most 40 lines")
        wrong += [f"{readme.relative_to(ROOT)}: no file {name}" for name in re.findall(r"`([\w*][\w./*-]*\.[ch])`", text)
                  if not any(folder.glob(name)) and not any(ROOT.glob(name))]
    assert not wrong, wrong


def test_every_sequence_of_the_kubelet_is_a_case_of_the_simulation_or_names_the_test_that_it_is():
    text = re.sub(r'"\s*"', "", (ROOT / "tests/simulation/cases.c").read_text())
    rows = dict(re.findall(r'{"row-([0-9]{2})-[a-z0-9-]+",\s*"([^"]*)"', text))
    assert sorted(rows) == [f"{i:02}" for i in range(1, 25)]
    elsewhere = {row: why for row, why in rows.items() if why.startswith("not simulated")}
    for row, why in elsewhere.items():
        named = re.search(r"\((test_\w+\.py): (test_\w+)\)", why)
        if named:
            files = list((ROOT / "tests").rglob(named[1]))
            assert files and f"def {named[2]}(" in files[0].read_text(), (row, why)
        else:
            assert "not offered yet" in why, (row, why)


def go_versions(folder):
    """module -> the version that this folder of lab/go is built with."""
    text = (ROOT / "lab/go" / folder / "go.mod").read_text()
    required = dict(re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", text, re.M))
    return required | dict(re.findall(r"^\t(\S+) => \S+ (v\S+)$", text, re.M))


# What a program needs in its own version: its own modules, and what Kubernetes has too old for it.
OWN_MODULES = {"etcd": ("go.etcd.io/etcd/",), "helm": (),
               "runtime": ("github.com/containerd/", "github.com/opencontainers/selinux", "github.com/sirupsen/logrus", "k8s.io/cri-api")}


@pytest.mark.parametrize("folder", OWN_MODULES)
def test_what_the_lab_compiles_for_kubernetes_it_does_not_compile_again_for_another_program(folder):
    """A cold build is most of ./demo's time."""
    kube, own = go_versions("kube"), go_versions(folder)
    common = {name for name in own if name in kube and not name.startswith(OWN_MODULES[folder])}
    assert len(common) > 20
    assert {name: (own[name], kube[name]) for name in common if own[name] != kube[name]} == {}


def push(*arguments):
    return subprocess.run([ROOT / "deploy/push", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_of_push_has_all_its_options(option):
    done = push(option)
    assert done.returncode == 0 and not done.stderr and done.stdout.startswith("usage: deploy/push [--plain-http] DIR REGISTRY\n")
    options = set(re.findall(r'" = (--\S+) \]', (ROOT / "deploy/push").read_text())) - {"--help"}
    assert options == set(re.findall(r"^  (--\S+)", done.stdout, re.M)) == {"--plain-http"}


@pytest.mark.parametrize("arguments", [[], ["release"], ["release", ""], ["release", "registry.example.com", "more"], ["--plain-http", "release"]])
def test_push_refuses_other_arguments_with_its_usage(arguments):
    done = push(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: deploy/push [--plain-http] DIR REGISTRY\n")


def test_push_refuses_a_folder_that_is_not_a_release(tmp_path):
    done = push(tmp_path, "registry.example.com")
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(f"push: {tmp_path} is not a release: deploy/package")
