"""Who may read logs besides the master's user: as the accounts and groups of this machine say."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from master.config.config import load_config
from master.edited_files.ownership import user_name
from master.secrets import log_rights
from tests.master.setup.deploy.deploy_lab import write_lab


def account(name: str, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", 1000, gid, "", "/", "/bin/sh"))


@pytest.mark.parametrize("key", [None, "logs"])
def test_who_is_in_the_group_of_the_log_folder_in_either_way_is_told_but_the_master_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    keys: dict[str, Any] = {} if key is None else {"log_group": key}
    config = load_config(write_lab(tmp_path, **keys))
    config.train_logs.mkdir(parents=True, exist_ok=True)
    gid, ours = config.train_logs.stat().st_gid, user_name(os.geteuid())
    group = grp.struct_group(("logs", "x", gid, ["pcs", ours]))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    accounts = [account(ours, gid), account("backup", gid), account("li", gid + 1), account("root", gid)]
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    found = log_rights.readers(config)
    assert (found.group, found.others, found.is_named) == ("logs", ("backup", "pcs"), key is not None)
