"""The verbs about settings, as `settings` of `client.api.Client`: what admins set while the master runs."""

from __future__ import annotations

from client.answers import clear_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.caller import Caller
    from client.shapes import Setting


@clear_errors
class Settings:
    """The calls of a Client about settings. Values are numbers in the setting's unit, words, or None for none."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> list[Setting]:
        """All that can be set while the master runs."""
        settings: list[Setting] = self._caller.call("setting.list", {})
        return settings

    def get(self, name: str) -> Setting:
        """One, by its name (`scheduler.reserve_after`)."""
        setting: Setting = self._caller.call("setting.list", {"name": name})[0]
        return setting

    def set(self, name: str, value: float | str | None) -> Setting:
        """Let it have this value from now on, over restarts and whatever conf.json says. For admins."""
        setting: Setting = self._caller.call("setting.set", {"name": name, "value": value})
        return setting

    def reset(self, name: str) -> Setting:
        """Let conf.json say again what it is, or where that says nothing the default hold. For admins."""
        setting: Setting = self._caller.call("setting.reset", {"name": name})
        return setting
