"""What is run in an environment to ask it something: Python 3.6 and up (environments are older than we are), and one
piece of sh. Each Python script prints one line: MARK and a JSON object."""

from __future__ import annotations

MARK = "\x1emuster:"
"""Begins the line that is the answer; an environment's own scripts may print what they like around it."""

_TELL = 'import json, sys\ndef tell(**facts): print("\\n\\x1emuster:" + json.dumps(facts), flush=True)\n'

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
import os
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
import os
found = {{}}
meta = os.path.join(sys.prefix, "conda-meta")
for name in os.listdir(meta) if os.path.isdir(meta) else []:
    parts = name[:-5].rsplit("-", 2) if name.endswith(".json") else []
    if len(parts) == 3:
        found[parts[0].lower()] = (parts[0], parts[1], "conda")
try:
    from importlib.metadata import distributions
    pairs = [(one.metadata["Name"], one.version) for one in distributions()]
except ImportError:
    import pkg_resources
    pairs = [(one.project_name, one.version) for one in pkg_resources.working_set]
for name, version in pairs:
    if name and name.lower() not in found:
        found[name.lower()] = (name, version or "", "pip")
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
"""$1: the conda prefix, $2: root. What conda and its like wrote down beneath root counts too."""
