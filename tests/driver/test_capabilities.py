"""Which files of the driver a container gets, compared with what NVIDIA's own container toolkit finds in the same folder: its program
nvidia-ctk, which asks the simulated libnvidia-ml for the GPUs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import nvidia_libraries
from agent_fixture import NODE, World, wait_for

LAB = pathlib.Path(__file__).resolve().parents[2] / "lab"
sys.path.insert(0, str(LAB))
from rationlab import preflight, toolchain    # noqa: E402
from rationlab.errors import LabError    # noqa: E402

MODULE = pathlib.Path(__file__).parent / "toolkit"
TOOLKIT = "1.18.0"
FOLDER = "usr/lib/x86_64-linux-gnu"
VERSION = "515.105.01"    # of the simulated driver
LIBRARIES = """
libEGL_nvidia libGLESv1_CM_nvidia libGLESv2_nvidia libGLX_nvidia libcudadebugger libnvcuvid libnvidia-allocator libnvidia-api libnvidia-cbl
libnvidia-cfg libnvidia-compiler libnvidia-eglcore libnvidia-encode libnvidia-fatbinaryloader libnvidia-fbc libnvidia-glcore libnvidia-glsi
libnvidia-glvkspirv libnvidia-gpucomp libnvidia-gtk3 libnvidia-ifr libnvidia-ngx libnvidia-nscq libnvidia-nvvm libnvidia-opencl
libnvidia-opticalflow libnvidia-pkcs11 libnvidia-pkcs11-openssl3 libnvidia-present libnvidia-ptxjitcompiler libnvidia-rtcore
libnvidia-sandboxutils libnvidia-tileiras libnvidia-tls libnvidia-vksc-core libnvidia-vulkan-producer libnvidia-wayland-client libnvoptix
vdpau/libvdpau_nvidia
""".split()
OTHERS = """
libnvidia-egl-gbm.so.1.1.1 libnvidia-egl-wayland.so.1.1.13 xorg/modules/drivers/nvidia_drv.so
""".split()
CONFIGS = """
usr/share/glvnd/egl_vendor.d/10_nvidia.json usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json
usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json usr/share/nvidia/nvoptix.bin usr/share/vulkan/icd.d/nvidia_icd.json
etc/vulkan/implicit_layer.d/nvidia_layers.json usr/share/vulkan/icd.d/nvidia_icd.x86_64.json usr/share/X11/xorg.conf.d/10-nvidia.conf
""".split()
PROGRAMS = ["nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"]

# What the toolkit gives and ration does not, and why. In the toolkit's mode with CDI, which this is, it gives whatever has the driver's
# version in its name; its other mode, by capability, has none of the libraries here (libnvidia-container, src/nvc_info.c).
NOT_GIVEN = {
    "libnvidia-api": "for Windows programs", "libnvidia-gtk3": "for nvidia-settings", "libnvidia-wayland-client": "for nvidia-settings",
    "libnvidia-present": "for a desktop", "libnvidia-sandboxutils": "for the toolkit itself", "libnvidia-vksc-core": "for Vulkan SC",
    "nvidia_drv": "for an X server", "10-nvidia": "for an X server",
    "nvidia-debugdump": "for who cares for the machine", "nvidia-persistenced": "for who cares for the machine",
    "nvidia-cuda-mps-control": "MPS would go around the limits", "nvidia-cuda-mps-server": "MPS would go around the limits",
}


@pytest.fixture(scope="module")
def nvidia_ctk():
    """NVIDIA's program, built as its source is published."""
    def build(folder):
        source = folder / "source"
        shutil.copytree(MODULE, source)
        go, environment = toolchain.find_go(preflight.go_requirement(source / "go.mod"), nvidia_libraries.cache())
        nvidia_libraries.command(go, "build", "-o", folder / "nvidia-ctk", "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk",
                                 cwd=source, env=dict(os.environ, GOFLAGS="-mod=readonly -buildvcs=false", GOTOOLCHAIN="local", **environment))
    try:
        return nvidia_libraries.into_cache(f"toolkit-{TOOLKIT}", build) / "nvidia-ctk"
    except (nvidia_libraries.Unreachable, LabError) as error:
        return pytest.skip(f"nvidia-ctk {TOOLKIT}: {error}")


@pytest.fixture
def world():
    with World("1x16384MiB", labels={"ack.node.gpu.schedule": "cgpu"}, run_in_memory=True) as w:
        libraries = w.driver / FOLDER
        for name in LIBRARIES:
            file = libraries / f"{name}.so.{VERSION}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
            file.with_name(file.name.replace(VERSION, "1")).symlink_to(file.name)
        for path in [*(f"{FOLDER}/{name}" for name in OTHERS), *CONFIGS, *(f"usr/bin/{name}" for name in PROGRAMS)]:
            (w.driver / path).parent.mkdir(parents=True, exist_ok=True)
            (w.driver / path).write_text("")
            (w.driver / path).chmod(0o755)
        for path in (w.driver / "lib").iterdir():
            shutil.copy2(path, libraries / path.name, follow_symlinks=False)
        yield w.up(16)


def toolkits(nvidia_ctk, root):
    """Paths in the container."""
    done = subprocess.run([nvidia_ctk, "cdi", "generate", "--mode", "nvml", "--driver-root", root, "--format", "json",
                           "--nvidia-cdi-hook-path", "/usr/bin/true"], capture_output=True, text=True, check=False, timeout=60,
                          env=dict(os.environ, LD_LIBRARY_PATH=str(root / FOLDER)))
    assert done.returncode == 0, done.stderr
    return {mount["containerPath"] for mount in json.loads(done.stdout)["containerEdits"]["mounts"]}


def rations(world, name, capabilities):
    """Paths in the container of a pod with this NVIDIA_DRIVER_CAPABILITIES. Its other folders of libraries have the same files."""
    env = [] if capabilities is None else [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": capabilities}]
    pod = world.api.create_pod(name, node=NODE, annotations=world.placement(0, main=1), spec={"containers": [
        {"name": "main", "image": "example", "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}, "env": env}]})
    world.kubelet.admit(pod)
    file = world.kubelet.cdi_dir / f"ration-{pod['metadata']['uid']}.json"
    mounts = {m["containerPath"] for d in json.loads(file.read_text())["devices"] for m in d["containerEdits"]["mounts"]}
    world.api.delete("pods", name)
    return {path for path in mounts if path.startswith((f"/{FOLDER}/", "/etc/", "/usr/share/", "/usr/bin/"))}


def stem(path):
    return path.rpartition("/")[2].split(".")[0]


@pytest.mark.long(60)    # to build it, the first time
def test_all_capabilities_are_what_nvidias_toolkit_gives(nvidia_ctk, world):
    theirs, ours = toolkits(nvidia_ctk, world.driver), rations(world, "all", "all")
    missing = {path for path in theirs - ours if stem(path) not in NOT_GIVEN}
    assert not missing, sorted(missing)
    assert {stem(path) for path in theirs} >= set(NOT_GIVEN), "NOT_GIVEN names what the toolkit does not give either"
    # Links are made by a hook of the toolkit; here they are mounted.
    links = {path for path in ours - theirs if path.endswith((".so", ".so.1"))}
    assert ours - theirs - links == {"/etc/ld.so.preload"}


@pytest.mark.parametrize("capabilities, more", [
    (None, ()), ("compute,utility", ()), ("video", ("libnvcuvid", "libnvidia-encode", "libnvidia-opticalflow", "libvdpau_nvidia")),
    ("ngx", ("libnvidia-ngx",)),
    ("graphics", ("libEGL_nvidia", "libGLESv1_CM_nvidia", "libGLESv2_nvidia", "libGLX_nvidia", "libnvidia-cbl", "libnvidia-egl-gbm",
                  "libnvidia-egl-wayland", "libnvidia-eglcore", "libnvidia-fbc", "libnvidia-glcore", "libnvidia-glsi", "libnvidia-glvkspirv",
                  "libnvidia-ifr", "libnvidia-rtcore", "libnvidia-tls", "libnvidia-vulkan-producer", "libnvoptix",
                  *(stem(path) for path in CONFIGS if stem(path) not in NOT_GIVEN)))], ids=str)
def test_each_capability_is_what_libnvidia_container_gives(world, capabilities, more):
    """Its lists: src/nvc_info.c and, for graphics, the toolkit's internal/discover/graphics.go."""
    compute_and_utility = {"libcuda", "libcudadebugger", "libnvidia-allocator", "libnvidia-cfg", "libnvidia-compiler",
                           "libnvidia-fatbinaryloader", "libnvidia-gpucomp", "libnvidia-ml", "libnvidia-nscq", "libnvidia-nvvm",
                           "libnvidia-opencl", "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3", "libnvidia-ptxjitcompiler",
                           "libnvidia-tileiras", "nvidia-smi"}
    given = {stem(path) for path in rations(world, "p", capabilities)} - {"ld"}    # ld.so.preload is ours
    assert given == compute_and_utility | set(more)


def test_a_name_that_is_no_capability_is_told_to_the_pods_owner(world):
    assert any(path.endswith("/libnvcuvid.so.1") for path in rations(world, "p", "video,compat32"))
    said = wait_for(lambda: world.api.events("GPUDriverCapabilityUnknown"), 5)
    assert said[0]["involvedObject"]["name"] == "p" and '"compat32"' in said[0]["message"]
