"""The verbs `env.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.nodes.environments import Framework, Packages, Python
from master.verbs import envs
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "env.list": Verb(envs.ListEnvs, envs.EnvList, envs.list_envs, "viewer", "read", "none", "env", repeatable=True),
    "env.check": Verb(envs.OneEnv, Python, envs.check, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.python": Verb(envs.OneEnv, Python, envs.python, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.cuda": Verb(envs.Cuda, Framework, envs.cuda, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.packages": Verb(
        envs.OneEnv, Packages, envs.packages, "user", "submit", "none", "env", repeatable=True, quiet=True
    ),
}
