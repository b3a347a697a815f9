"""The verbs `setting.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import settings
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "setting.list": Verb(
        settings.ListSettings,
        list[settings.SettingView],
        settings.list_settings,
        "viewer",
        "read",
        "none",
        repeatable=True,
    ),
    "setting.set": Verb(
        settings.SetSetting, settings.SettingView, settings.set_setting, "admin", "admin", "none", repeatable=True
    ),
    "setting.reset": Verb(
        settings.OneSetting, settings.SettingView, settings.reset, "admin", "admin", "none", repeatable=True
    ),
}
