"""The command line of lab/lab."""

import argparse
import os
import signal
import subprocess
import sys

from . import binaries, layout, membership, preflight, state
from . import lab as labs
from .errors import LabError
from .progress import say

DEFAULT_NAME = "demo"
NODE_ARGUMENT = "NAME=GPUS[,MODE[,PLACEMENT]][,links=MACHINE]"
_NODES = """\
The NAME of a node ends in its address: cn-shanghai.192.168.6.104. GPUS gives number and size of its simulated GPUs:
4x16160MiB or 2x81559MiB+1x40960MiB, or 0 for a node without a GPU. MODE is the value of its label
ack.node.gpu.schedule (default: share; none: no label), PLACEMENT that of ack.node.gpu.placement. MACHINE connects eight
GPUs as in dgx1-v100, dgx-a100 or pcie-8.
"""
_FILES = """
Files: programs and images in $RATION_CACHE (else ~/.cache/ration), labs in $RATION_LABS
(else ~/.local/state/ration/labs), ration's build directory in $RATION_BUILD (else build).
"""
_EPILOGS = {"up": _NODES + "Without --node the lab has two nodes of mode share with one GPU of 16160 MiB each, as in ACK's documents.\n" + _FILES,
            "add-node": _NODES}


def _parser():
    parser = argparse.ArgumentParser(prog="lab/lab", description="Runs a real Kubernetes on this machine, whose nodes are Linux namespaces with simulated GPUs.",
                                     epilog=_EPILOGS["up"], formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name, text, function, named=True):
        command = commands.add_parser(name, help=text, description=text, epilog=_EPILOGS.get(name),
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        if named:
            command.add_argument("--name", metavar="LAB", default=os.environ.get("RATION_LAB", DEFAULT_NAME),
                                 help=f"the name of the lab (default: $RATION_LAB, else {DEFAULT_NAME})")
        command.set_defaults(function=function)
        return command

    command = add("up", "Start the lab, or finish starting it.", _up)
    command.add_argument("--node", action="append", metavar=NODE_ARGUMENT,
                         help="a node of the lab; may be repeated")
    command.add_argument("--no-charts", action="store_true", help="a bare cluster, without ration's own charts")
    command.add_argument("--default-scheduler", action="store_true",
                         help="the cluster's own kube-scheduler places GPU pods, beside ration-scheduler; this cannot be changed later")
    command.add_argument("--cgroup-driver", choices=layout.CGROUP_DRIVERS,
                         help=f"the cgroup driver of the kubelet and the container runtime (default: {layout.CGROUP_DRIVERS[0]}); systemd needs systemd and "
                         "cgroup v2, and one node")
    command.add_argument("--runtime", choices=layout.RUNTIMES, help=f"the nodes' container runtime (default: {layout.RUNTIMES[0]})")
    command.add_argument("--kubernetes", metavar="VERSION", help=f"the release of Kubernetes (default: {layout.KUBERNETES})")
    command.add_argument("--feature-gates", metavar="NAME=BOOL[,...]",
                         help="feature gates of all programs of Kubernetes but kube-proxy; this cannot be changed later")
    add("down", "End the lab and remove everything that it made.", _down)
    add("status", "Show which parts of the lab run.", _status)
    command = add("logs", "Show the log of a part of the lab (a program, such as kubelet@NODE), or list the parts.", _logs)
    command.add_argument("part", nargs="?", metavar="PART", help="e.g. kube-scheduler or kubelet@NODE")
    command.add_argument("-n", "--lines", type=int, default=0, help="show only the last N lines")
    add("env", "Print export lines for a shell: eval \"$(lab/lab env)\".", _env)
    command = add("kubectl", "Run kubectl with the lab's configuration.", _kubectl)
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS")
    command = add("ctr", "Run containerd's ctr on a node.", _ctr)
    command.add_argument("node", metavar="NODE")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS")
    command = add("enter", "Run a command in a node's namespaces (default: a shell).", _enter)
    command.add_argument("node", metavar="NODE")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGS")
    command = add("restart", "End a part and start it again.", _restart)
    command.add_argument("part", metavar="PART[@NODE]", help="e.g. kube-apiserver or kubelet@NODE")
    command.add_argument("--kill", action="store_true", help="end it by SIGKILL, like a crash, instead of SIGTERM")
    command = add("reboot", "Kill all processes of a node at once, like a power cut, and start it again.", _reboot)
    command.add_argument("node", metavar="NODE")
    command = add("add-node", "Add a node to the running lab.", _add_node)
    command.add_argument("node", metavar=NODE_ARGUMENT)
    command = add("remove-node", "Kill all processes of a node at once, and delete its Node object.", _remove_node)
    command.add_argument("node", metavar="NODE")
    command.add_argument("--drain", action="store_true", help="run kubectl drain first")
    command = add("build", "Build the programs of Kubernetes into the cache, and start nothing.", _build, named=False)
    command.add_argument("--runtime", choices=layout.RUNTIMES, help="also build this container runtime")
    command.add_argument("--kubernetes", metavar="VERSION", help=f"the release of Kubernetes (default: {layout.KUBERNETES})")
    return parser


def _own_arguments(arguments):
    """What follows `--`, or everything when there is none."""
    return arguments[1:] if arguments[:1] == ["--"] else arguments


def _up(options):
    specs = layout.parse_nodes(options.node) if options.node else None
    kubernetes = layout.check_kubernetes(options.kubernetes) if options.kubernetes else None
    gates = layout.check_feature_gates(options.feature_gates) if options.feature_gates else None
    asked = layout.Setup(kubernetes, options.default_scheduler, options.cgroup_driver, options.runtime, gates)
    labs.up(options.name, specs, asked, not options.no_charts)
    suffix = "" if options.name == DEFAULT_NAME else f" --name {options.name}"
    say(f'next: eval "$(lab/lab env{suffix})"; kubectl get nodes')
    return 0


def _down(options):
    existed = labs.down(options.name)
    say(f"lab {options.name} is gone" if existed else f"there was no lab {options.name}")
    return 0


def _build(options):
    preflight.ensure_packages(options.runtime)
    binaries.build(layout.check_kubernetes(options.kubernetes or layout.KUBERNETES), options.runtime)
    say("all programs are built")
    return 0


def _status(options):
    """Exit 0 when every part runs, 3 when one does not, as systemctl status has it."""
    lab = labs.Lab.existing(options.name)
    print(f"lab {lab.name}: Kubernetes {lab.kubernetes}, {lab.runtime}, {lab.pki.server()}, files in {lab.folder}")
    for node in lab.nodes:
        labels = ", ".join(f"{key}={value}" for key, value in node.spec.labels().items()) or "no labels"
        print(f"node {node.spec.name}: {node.spec.cards or 'no GPUs'}; {labels}")
    running = True
    for part in lab.parts():
        pid = part.pid()
        running = running and pid is not None
        print(f"  {part.name:<50} {'pid ' + str(pid) if pid else 'not running'}")
    return 0 if running else 3


def _logs(options):
    lab = labs.Lab.existing(options.name)
    if options.part is None:
        for part in lab.parts():
            print(part.name)
        return 0
    part = lab.find_part(options.part)
    if not part.log_file.exists():
        raise LabError(f"{part.name} has written nothing yet")
    with open(part.log_file, encoding="utf-8", errors="replace") as handle:
        lines = handle.readlines()
    sys.stdout.writelines(lines[-options.lines:] if options.lines > 0 else lines)
    return 0


def _env(options):
    lab = labs.Lab.existing(options.name)
    print(f"export KUBECONFIG='{lab.pki.kubeconfig('admin')}'")
    print(f"export PATH='{lab.path_variable()}'")
    print(f"export RATION_LAB='{lab.name}'")
    # Where a proxy is set, kubectl must not send the lab's address to it.
    print("export NO_PROXY=\"${NO_PROXY:+$NO_PROXY,}198.18.0.0/15\"")
    return 0


def _kubectl(options):
    lab = labs.Lab.existing(options.name)
    command = lab.kubectl(*_own_arguments(options.arguments))
    os.execve(command[0], command, lab.environment())


def _in_node(options, command):
    preflight.check_root()
    return subprocess.run(command, check=False).returncode


def _ctr(options):
    node = labs.Lab.existing(options.name).find_node(options.node)
    return _in_node(options, node.ctr(*_own_arguments(options.arguments)))


def _enter(options):
    node = labs.Lab.existing(options.name).find_node(options.node)
    return _in_node(options, node.enter(_own_arguments(options.arguments) or ["bash"]))


def _restart(options):
    preflight.check_root()
    with state.lock(layout.check_lab_name(options.name)):
        labs.restart(labs.Lab.existing(options.name), options.part,
                     signal.SIGKILL if options.kill else signal.SIGTERM)
    say(f"{options.part} runs again")
    return 0


def _reboot(options):
    preflight.check_root()
    with state.lock(layout.check_lab_name(options.name)):
        labs.reboot(labs.Lab.existing(options.name), options.node)
    say(f"{options.node} runs again")
    return 0


def _add_node(options):
    membership.add(layout.check_lab_name(options.name), layout.parse_node(options.node, f"node {options.node}"))
    return 0


def _remove_node(options):
    membership.remove(layout.check_lab_name(options.name), options.node, options.drain)
    return 0


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        return options.function(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; the same command goes on from here, lab/lab down removes everything", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
