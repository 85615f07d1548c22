"""ration-agent with everything around it: a fake kubelet and runtime, a fake API server, a simulated driver."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

from fake_apiserver import FakeApiServer, wait_for
from fake_kubelet import FakeKubelet

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
NODE = "n1"
SANITIZED = "RATION_SANITIZE" in os.environ     # memory and time are then not the program's own
FULL = "RATION_FULL" in os.environ


def assert_within(times, limit_ms, beside_others=False):
    """In `./check full`, where tests that are `alone` run one at a time, all times but one are within the limit. Elsewhere three of them run
    at a time, or this one runs beside others: there half of the times are within four times the limit, and the tail is within what a lost
    wake-up or a time-out, which are seconds, would exceed. That is no more than a smoke test."""
    times, ours = sorted(times), FULL and not SANITIZED and not beside_others
    slack = 10 if SANITIZED else 1
    assert statistics.median(times) <= limit_ms * (1 if ours else 4) * slack, times
    assert times[-2] <= (limit_ms if ours else 500 * slack), times


def allocate_times(w):
    """ms of Allocate for 110 pods on eight cards: as the kubelet sees it, sorted; and the agent's time of a processor for one pod, with all
    that it hears of it."""
    pods = [w.pod(f"p{i}", 1, card=i % 8) for i in range(110)]
    time.sleep(0.5)
    times, before = [], w.cpu_seconds()
    call = w.kubelet.plugin.call

    def timed(method, *arguments, **more):
        begin = time.monotonic()
        answer = call(method, *arguments, **more)
        if method == "Allocate":
            times.append((time.monotonic() - begin) * 1000)
        return answer
    w.kubelet.plugin.call = timed
    for i, pod in enumerate(pods):
        w.kubelet.admit(pod)
        env = w.kubelet.run(pod, "main").env
        assert env["ALIYUN_COM_GPU_MEM_IDX"] == str(i % 8)
    return sorted(times), (w.cpu_seconds() - before) / len(pods) * 1000


def mounts_below(folder):
    """Where something is mounted below the folder, the innermost first."""
    points = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    return [pathlib.Path(p) for p in reversed(points) if p.startswith(f"{folder}/")]


def unmount_leftovers():
    """Of sessions that were killed: what an agent mounts outlives it and the test."""
    for point in mounts_below(tempfile.gettempdir()):
        owner = re.match(r"ration-agent-([0-9]+)-", point.relative_to(tempfile.gettempdir()).parts[0])
        if owner and not pathlib.Path("/proc", owner.group(1)).exists():
            subprocess.run(["umount", "-l", point], check=False)


class World:
    """One node. cards: the SPEC of `ration-sim up`; None: no driver; links: of which machine. run_in_memory: as /run is on a node; times of
    writes are then not those of a disk."""

    def __init__(self, cards="2x16384MiB", cdi=True, labels=None, unit=None, tls=False, options=(),
                 run_in_memory=False, links=None):
        unmount_leftovers()
        self.tmp = tempfile.TemporaryDirectory(prefix=f"ration-agent-{os.getpid()}-")
        self.dir = pathlib.Path(self.tmp.name)
        self.driver, self.state = self.dir / "driver", self.dir / "state"
        cdi_dir = self.dir / "cdi"
        if run_in_memory and os.geteuid() == 0:
            run = self.dir / "run"
            run.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "run", run], check=True)
            self.state, cdi_dir = run / "ration", run / "cdi"
        self.log, self.unit, self.options = self.dir / "agent.log", unit, options
        self.agent, self.agents = None, []    # the last one, and all that were started
        self.statuses = {0}    # with which an agent may end; a test that wants another one adds it
        self.sent = {signal.SIGKILL}    # to workers
        self.shim, self.wrapper = BUILD / "src/shim", []
        if cards:
            self.sim("up", "--gpus", cards, *(["--links", links] if links else []))
        self.api = (FakeApiServer(tls=True, token="secret") if tls else FakeApiServer()).start()
        self.kubelet = FakeKubelet(self.dir, cdi=cdi, cdi_dir=cdi_dir)
        self.api.create_node(NODE, labels={"ack.node.gpu.schedule": "share"} if labels is None else labels)
        self.kubeconfig = self.api.kubeconfig()

    def __enter__(self):
        return self

    def __exit__(self, raised, *_):
        died = self.died()
        for agent in self.agents:
            if agent.poll() is None:
                self.stop_agent(agent)
        self.kubelet.stop_all()
        self.api.stop()
        self.unmount_all()
        logged = self.logged() if self.agents else ""
        self.tmp.cleanup()
        if not raised:
            self.judge(died, logged)

    def judge(self, died, logged):
        """How each process has ended: died are the agents of which the test did not know that they had."""
        end = f":\n{logged[-3000:]}"
        assert not died, f"the agent has ended by itself, with {died[0].returncode}{end}"
        wrong = {agent.returncode for agent in self.agents} - self.statuses
        assert not wrong, f"the agent has ended with {wrong}{end}"
        assert "ERROR: " not in logged and "runtime error" not in logged, logged    # sanitizers
        # Its supervisor starts another one, so that nothing else shows it.
        ends = set(re.findall(r"the worker (was killed by signal \d+|ended with status \d+)", logged))
        ends -= {f"was killed by signal {signo}" for signo in self.sent}
        assert not ends, f"a worker {ends}{end}"

    def unmount_all(self):
        """What the agent mounts stays when it ends."""
        for point in mounts_below(self.dir):
            self.unmount(point)

    @staticmethod
    def unmount(point):
        subprocess.run(["umount", "-l", point], check=True)

    def sim(self, command, *arguments):
        subprocess.run([BUILD / "sim/ration-sim", command, self.driver, *map(str, arguments)], check=True,
                       stdout=subprocess.DEVNULL)

    def change_driver(self, source):
        """Functions in C in front of those of its management library, which dlsym(RTLD_NEXT, ...) finds."""
        library = (self.driver / "lib/libnvidia-ml.so.1").resolve()
        own = library.with_name("libnvidia-ow.so.1")    # of another name inside, too: the linker goes by that
        own.write_bytes(library.read_bytes().replace(b"\0libnvidia-ml.so.1\0", b"\0libnvidia-ow.so.1\0"))
        library.unlink()
        (self.dir / "driver.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Wl,--no-as-needed", f"-Wl,-rpath,{library.parent}",
                        "-o", library, self.dir / "driver.c", own], check=True)

    def died(self):
        """The agents that have ended without the test's knowledge."""
        return [agent for agent in self.agents if agent.returncode is None and agent.poll() is not None]

    def start_agent(self):
        assert not (died := self.died()), f"the agent has ended by itself, with {died[0].returncode}:\n{self.logged()[-3000:]}"
        # Else a test could take the devices of the agent before for those of this one.
        if self.agent and self.agent.returncode is not None:
            wait_for(lambda: not self.kubelet.has_healthy_devices(), what="the kubelet has noticed that its agent is gone")
        command = [*self.wrapper, BUILD / "src/agent/ration-agent", "--node-name", NODE, "--driver-root", self.driver,
                   "--host-driver-root", "/host/driver", "--plugin-dir", self.kubelet.plugin_dir,
                   "--pod-resources-socket", self.kubelet.pod_resources_socket,
                   "--cri-socket", self.kubelet.cri_socket, "--cdi-dir", self.kubelet.cdi_dir,
                   "--state-dir", self.state, "--kubelet-dir", self.dir, "--shim-dir", self.shim, "--metrics", "127.0.0.1:0", "--kubeconfig", self.kubeconfig, "--log-level", "debug"]
        if self.unit:
            command += ["--unit", self.unit]
        command += self.options
        with open(self.log, "ab") as log:
            # As the chart does: libcurl brings in GnuTLS without using it.
            self.agent = subprocess.Popen(command, stderr=log, env={**os.environ, "GNUTLS_NO_IMPLICIT_INIT": "1"})
        self.agents.append(self.agent)

    def stop_agent(self, agent=None, patient=False):
        """patient: it may take the 2 s in which it serves what is on its way."""
        agent = agent or self.agent
        agent.send_signal(signal.SIGTERM)
        if not patient:
            # A worker that has only just been started ends without a word.
            wait_for(lambda: "stopping (signal" in self.logged() or agent.poll() is not None)
            time.sleep(0.05)
            agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0, self.logged()

    def kill_agent(self):
        """The supervisor, as a container that is killed; its worker goes with it."""
        worker = self.worker()
        self.statuses.add(-signal.SIGKILL)
        self.agent.kill()
        self.agent.wait()
        wait_for(lambda: not worker or not pathlib.Path(f"/proc/{worker}").exists())

    def worker(self):
        """The process that does the work; the first one only holds the kubelet's connections."""
        pid = self.agent.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None

    def inotify_instances(self):
        """Of the worker."""
        links = []
        for fd in pathlib.Path(f"/proc/{self.worker()}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):    # it was closed meanwhile
                links.append(os.readlink(fd))
        return links.count("anon_inode:inotify")

    def kill_worker(self, signo=signal.SIGKILL):
        """Its process id. Right after its end there is no worker for a moment."""
        pid = wait_for(self.worker, what="the next worker")
        self.sent.add(signo)
        os.kill(pid, signo)
        return pid

    def up(self, units):
        """Kubelet and agent run, so many units are advertised, and the agent has seen its node and pods."""
        self.kubelet.start()
        self.start_agent()
        self.kubelet.wait_devices(units)
        wait_for(lambda: self.api.watches("nodes", "pods") >= 2)
        return self

    def has_read_node(self):
        """An agent has dealt with what has happened to the Node object so far: it puts back what a later event spoils."""
        def held():
            return self.api.node(NODE)["metadata"]["annotations"].get("ration.dev/held")
        before = held()
        self.api.patch("nodes", NODE, {"metadata": {"annotations": {"ration.dev/held": "{="}}})
        wait_for(lambda: held() == before, what="the watch of nodes")

    def logged(self):
        return self.log.read_text(errors="replace")

    def cards(self):
        return json.loads(wait_for(lambda: self.api.node(NODE)["metadata"]["annotations"].get("ration.dev/gpus")))

    def condition(self):
        """GPUSharingProblem of the node, or None."""
        found = [c for c in self.api.node(NODE)["status"]["conditions"] if c["type"] == "GPUSharingProblem"]
        return found[0] if found else None

    def uuid(self, index):
        return self.cards()[index]["uuid"]

    def placement(self, card, **units):
        """Annotations of a pod whose containers are all on one card."""
        return {"ration.dev/placement": json.dumps({
            "unit": 1024, "containers": {name: [{"uuid": self.uuid(card), "units": n}]
                                         for name, n in units.items()}}),
                "ration.dev/unit": "1024"}

    def pod(self, name, units, card=None, **more):
        """A bound pod with one container; card None: nobody placed it."""
        annotations = {} if card is None else self.placement(card, main=units)
        return self.api.create_pod(name, gpu_mem=units, node=NODE, annotations=annotations, **more)

    def pod_of(self, name, containers, init=(), card=0, sidecars=()):
        """A bound pod with several containers: name -> units."""
        def entry(n, units, more=None):
            limits = {"aliyun.com/gpu-mem": str(units)} if units else {}
            return {"name": n, "image": "example", "resources": {"limits": limits}, **(more or {})}
        spec = {"initContainers": [entry(n, u, {"restartPolicy": "Always"} if n in sidecars else None)
                                   for n, u in dict(init).items()],
                "containers": [entry(n, u) for n, u in containers.items()]}
        placed = {n: u for n, u in {**dict(init), **containers}.items() if u}
        return self.api.create_pod(name, node=NODE, spec=spec,
                                   annotations=self.placement(card, **placed) if card is not None else {})

    @contextlib.contextmanager
    def answered_late(self, asked, other, seconds):
        """The kubelet admits `other`, whose GPU is over its total with it, so that the agent asks for the pod of the name `asked`.
        The answer shows that one as it is now, and comes so much later. Yields the admission, a future, meanwhile."""
        self.api.clear_requests()
        self.api.inject("GET", f"/pods/{asked}$", late=seconds)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            admission = pool.submit(self.kubelet.admit, other, preferred=False)
            wait_for(lambda: self.api.requests_for("GET", f"/pods/{asked}$"))
            yield admission
            wait_for(admission.done)

    def rss_kib(self):
        """Of both processes, without what the simulated driver maps into us: pages that both have count once, and
        the libraries' pages are the worker's."""
        return self.pages_kib(self.worker(), "Rss") + self.pages_kib(self.agent.pid, "Private_Dirty")

    def pages_kib(self, pid, *kinds):
        total, ours = 0, True
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                ours = str(self.driver) not in line
            elif ours and line.split(":")[0] in kinds:
                total += int(line.split()[1])
        return total

    def cpu_seconds(self):
        total = 0
        for pid in (self.agent.pid, self.worker()):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")
