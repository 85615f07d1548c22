"""The fixtures of the component tests. What they make is in the modules that are imported here."""
import contextlib

import pytest

pytest.register_assert_rewrite("driver_cases", "driver_cases_clients", "driver_cases_memory", "driver_cases_work")

import cuda_clients
import driver_cases
import grants
import shim_through
import sim_cuda
from agent_fixture import World
from doctor_host import healthy_node
from driver_tree import NEWEST, RATION_SIM, Tree, hold, temporary_tree
from explanations import Person
from fake_apiserver import FakeApiServer, wait_for
from listings import Cluster
from plan_cluster import Agents
from planning import Planner
from run_machine import temporary_machine
from run_programs import compile_loader
from scheduler_fixture import READY_TIMEOUT, Scheduler
from shares import Run
from shim_memory import granted_cards
from ui_server import machine_with_programs


# --- the scheduler ---

@pytest.fixture
def api():
    """An API server without objects."""
    with FakeApiServer() as server:
        yield server


@pytest.fixture
def start(api):
    """start(*options) starts a ration-scheduler that has read the objects of `api`; ready=False: that has begun to."""
    started = []

    def factory(*options, ready=True):
        scheduler = Scheduler(api, *options)
        started.append(scheduler)
        if ready:
            wait_for(scheduler.ready, READY_TIMEOUT)
        return scheduler
    yield factory
    with contextlib.ExitStack() as ends:    # each of them is stopped, whatever has become of another one
        for scheduler in started:
            ends.callback(scheduler.end)


# --- the command line ---

@pytest.fixture
def person(tmp_path, api):
    """Somebody who runs `ration` with a kubectl that knows the pods of `api`."""
    return Person(tmp_path, api)


@pytest.fixture
def agents(api):
    """The agents of all nodes, as far as they cordon GPUs."""
    with Agents(api) as running:
        yield running


@pytest.fixture
def planner(api, start, tmp_path):
    """planner() starts a scheduler, which has read the objects of `api` by then; its result runs `ration plan`."""
    def begin(*options):
        return Planner(api, start(*options), tmp_path)
    return begin


@pytest.fixture
def cluster(tmp_path):
    """A kubectl that serves the nodes and pods that a test sets, for `kubectl inspect cgpu`."""
    return Cluster(tmp_path)


@pytest.fixture
def few_runs(tmp_path):
    """A `ration` that shows programs of a machine that a test writes, for `ration ui --runs`."""
    return machine_with_programs(tmp_path)


@pytest.fixture
def host(tmp_path):
    """A healthy node for `ration doctor --node`: containerd 2.1, driver 535, an agent that served, a pod with its grant."""
    return healthy_node(tmp_path)


# --- the agent ---

@pytest.fixture
def world():
    """A node with two GPUs of 16 units each, whose agent serves. A test of another node has a `world` of its own."""
    with World() as w:
        yield w.up(32)


# --- the simulated driver ---

@pytest.fixture
def tree(tmp_path):
    """The folder of a simulated driver; tree.up() makes it."""
    with temporary_tree(tmp_path) as tree:
        yield tree


@pytest.fixture
def card(tree):
    """A driver with a GPU of 16160 MiB, 300 of which a context takes."""
    tree.sim = RATION_SIM
    tree.up_file({"driverVersion": NEWEST, "gpus": [{"memoryMiB": 16160, "contextMiB": 300}]})
    return tree


@pytest.fixture
def two_cards(tree):
    """A driver with GPUs of 16160 and 40960 MiB."""
    tree.sim = RATION_SIM
    tree.up_file({"driverVersion": NEWEST,
                  "gpus": [{"memoryMiB": 16160, "contextMiB": 300}, {"memoryMiB": 40960, "contextMiB": 400}]})
    return tree


@pytest.fixture
def h100(tree):
    tree.sim = RATION_SIM
    tree.up_file({"driverVersion": "580.65.06", "gpus": [{"memoryMiB": 81559, "contextMiB": 500}]})
    return tree


@pytest.fixture
def holders():
    """holders(tree, card, mib) starts a process that holds memory until the test ends."""
    started = []

    def start(tree, card, mib):
        started.append(hold(tree, card, mib))
        return started[-1]

    yield start
    for process in started:
        died = process.returncode is None and process.poll() is not None
        process.kill()
        _, said = process.communicate()
        assert not died, f"a holder has ended by itself, with {process.returncode}: {said}"


# --- the shim ---

@pytest.fixture
def granted(tree, tmp_path):
    """Two GPUs of 16160 MiB with 2154 MiB (2 of 15) and 1024 MiB granted."""
    return granted_cards(tree, tmp_path)


@pytest.fixture
def through_the_shim(monkeypatch):
    """The tests of driver_cases*.py pass through the shim, with a grant of whole GPUs."""
    made, start_plain, environment_plain = {}, sim_cuda.start, cuda_clients.environment

    def grant_of(path):
        if path not in made:
            made[path] = shim_through.Grant(Tree(path))
        return made[path]

    def start(tree, script, *args, **env):
        grant = grant_of(tree.path)
        return start_plain(grant, script, *args, RATION_GRANT=str(grant.folder / "grant"), **env)

    def environment(folder, **more):
        grant = grant_of(folder.parent)
        return environment_plain(grant.path / "lib", RATION_GRANT=str(grant.folder / "grant"), **more)

    monkeypatch.setattr(cuda_clients, "environment", environment)
    monkeypatch.setattr(sim_cuda, "start", start)
    monkeypatch.setattr(driver_cases, "start", start)
    yield
    for grant in made.values():
        died = grant.keeper.poll()
        grant.keeper.kill()
        grant.keeper.wait()
        assert died is None, f"the keeper has ended by itself, with {died}"


@pytest.fixture
def counted_power(monkeypatch):
    """The grants of through_the_shim control computing power: whole GPUs, for which a program never waits."""
    class Counted(shim_through.Grant):
        def __init__(self, tree):
            super().__init__(tree)
            for index in range(8):
                grants.set_core(self.folder / "grant", index, grants.CORE_WHOLE)

    monkeypatch.setattr(shim_through, "Grant", Counted)


# --- ration run ---

@pytest.fixture
def machine(request):
    """A machine for `ration run`, with the options of `ration-sim up` that a test gives as an indirect parameter."""
    with temporary_machine(*getattr(request, "param", [])) as made:
        yield made


@pytest.fixture
def programs(machine):
    """programs(name, *flags) compiles load-driver.c; what it makes can be read by every user."""
    return compile_loader(machine)


@pytest.fixture
def start_run(machine):
    """start_run(*options) starts a program under `ration run` that lives until the test ends."""
    runs = []

    def begin(*args, **more):
        runs.append(Run(machine, *args, **more))
        return runs[-1]
    yield begin
    for run in runs:
        run.end()
