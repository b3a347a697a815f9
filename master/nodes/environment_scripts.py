"""The scripts that ask an environment something: Python 3.6 and up (environments are older than Muster), and one piece
of sh. Each Python script gets the folder of the environment, and prints one line: MARK and a JSON object. `own` in it:
this Python is the environment's. In an environment that was moved or copied another Python may be found first."""

from __future__ import annotations

MARK = "\x1emuster:"
"""Begins the line that is the answer; an environment's own scripts may print what they like around it."""

_TELL = """import json, os, sys
def tell(**facts):
    place = sys.argv[1] if os.path.isdir(sys.argv[1]) else os.environ.get("CONDA_PREFIX", "")
    facts["own"] = os.path.realpath(sys.prefix) == os.path.realpath(place)
    print("\\n\\x1emuster:" + json.dumps(facts), flush=True)
"""

PYTHON = f"""{_TELL}
tell(version=sys.version.split()[0], executable=sys.executable, prefix=sys.prefix)
"""

TORCH = f"""{_TELL}
try:
    import torch
except ImportError as error:
    tell(installed=False, error=str(error))
else:
    available = bool(torch.cuda.is_available())
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if available else []
    tell(installed=True, version=str(torch.__version__), cuda=torch.version.cuda, available=available, gpus=names)
"""

TENSORFLOW = f"""{_TELL}
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import tensorflow as tf
except ImportError as error:
    tell(installed=False, error=str(error))
else:
    try:
        built = tf.sysconfig.get_build_info().get("cuda_version")
    except Exception:
        built = None
    try:
        found = [device.name for device in tf.config.list_physical_devices("GPU")]
    except AttributeError:
        found = ["gpu"] if tf.test.is_gpu_available() else []
    tell(installed=True, version=str(tf.__version__), cuda=built, available=bool(found), gpus=found)
"""

PACKAGES = f"""{_TELL}
def installed():
    try:
        from importlib.metadata import distributions
    except ImportError:
        import pkg_resources
        for one in pkg_resources.working_set:
            yield one.project_name, one.version
    else:
        for one in distributions():
            try:
                yield one.metadata["Name"], one.version
            except Exception:
                pass
found = {{}}
def note(name, version, by):
    found.setdefault(name.lower().replace("_", "-"), (name, version or "", by))
meta = os.path.join(sys.prefix, "conda-meta")
for name in os.listdir(meta) if os.path.isdir(meta) else []:
    parts = name[:-5].rsplit("-", 2) if name.endswith(".json") else []
    if len(parts) == 3:
        note(parts[0], parts[1], "conda")
try:
    for name, version in installed():
        if name:
            note(name, version, "pip")
except ImportError:
    pass
tell(packages=[found[key] for key in sorted(found)])
"""

LIST = r"""
for one in "$1" "$1"/envs/*; do
    [ -x "$one/bin/python" ] && printf '%s\000' "$one"
done
listed="$HOME/.conda/environments.txt"
[ -r "$listed" ] && while IFS= read -r one; do
    case "$one" in "$2"/*) [ -x "$one/bin/python" ] && printf '%s\000' "$one" ;; esac
done < "$listed"
exit 0
"""
"""$1: the conda prefix, $2: root. Environments beneath root that conda and similar programs recorded count too."""
