"""Settings of the scheduler and its limits: show them, and change them while the master runs.

Every key of `scheduler` and `limits` is a setting. A value that is set here holds from now on, also after restarts,
whatever conf.json says; --default returns to the value of conf.json. A limit that falls cuts nothing off: connections,
uploads and tasks that exist stay; new ones are refused. Everybody may read settings; only admins may change them."""

from __future__ import annotations

import argparse
import sys

from client.cli.arguments import setting_values
from client.cli.screen.terminal import terminal_width
from client.refusals import coded_error
from client.text.settings import change_line, setting_page, settings_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Setting

EXAMPLES = """examples:
  muster set                                    all settings
  muster set scheduler.reserve_after            one, and what it may be
  muster set scheduler.reserve_after 2h
  muster set scheduler.log_bytes=2g
  muster set limits.upload_bytes 32g
  muster set scheduler.keep_gpu_memory 10%
  muster set scheduler.max_tasks_per_gpu none
  muster set --default scheduler.reserve_after  what conf.json says, or the default"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a setting: scheduler.reserve_after")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="6h, 2g, 10%%, a number, a word, or none")
    parser.add_argument("--default", action="store_true", help="take back what was set")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.value is None and "=" in (options.name or ""):  # as `edit` has it
        options.name, _, options.value = options.name.partition("=")
    if options.default and (options.name is None or options.value is not None):
        parser.error("set --default: give one NAME, and no value")
    return options


def _found(context: Context, name: str) -> Setting:
    """The setting. Raises NotFoundError, with the name that was probably meant."""
    from wire.errors import NotFoundError

    try:
        return context.client.settings.get(name)
    except NotFoundError:
        from client.cli.arguments import nearest

        meant = nearest.keys(name, [one["name"] for one in context.client.settings.list()])
        if not meant:
            raise
        raise coded_error("not_found", "no_setting_but", name=name, meant=tuple(meant)) from None


def run(context: Context) -> int:
    """Do it."""
    options, settings = context.options, context.client.settings
    if options.name is None:
        found = settings.list()
        if context.json:
            context.print_json(found)
        else:
            sys.stdout.write(settings_table(found, terminal_width()))
        return 0
    before = _found(context, options.name)
    if options.value is None and not options.default:
        if context.json:
            context.print_json(before)
        context.say(setting_page(before))
        return 0
    if options.default:
        after = settings.reset(options.name)
    else:
        try:
            value = setting_values.read(options.value, before["unit"])
        except argparse.ArgumentTypeError as error:
            raise coded_error("bad_request", "setting_value_wrong", name=options.name, detail=str(error)) from None
        after = settings.set(options.name, value)
    if context.json:
        context.print_json(after)
    context.say(change_line(before, after))
    return 0
