"""Queue a command and print its id. The answer means that the task is on the master's disk.

The words after `--` stay the words of the command, as an argument list; for pipes and the like use
`-- bash -c '…'`, --script or --batch.
"""

from __future__ import annotations

import argparse

from client.cli.arguments import submitting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster submit --gpus 1 -- python3 train.py --lr 0.1
  muster submit --gpus 2 --env torch --time-limit 12h --name bert -- python3 train.py
  muster submit --after 17 -- python3 evaluate.py       (after 17 ended well; 17:any, 17:fail)
  muster submit --script train.sh                       (with lines like `#MUSTER --gpus 2`)
  muster submit --gpus 1 --batch sweep.txt              (one command a line)
  muster submit --dry-run --gpus 8 -- true              (where would it run?)
  muster wait $(muster submit -- make data)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    submitting.arguments(parser, batch=True)
    parser.add_argument("--dry-run", action="store_true", help="queue nothing; say where it would run, or why not now")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line and, if there is one, the script."""
    return submitting.parse(parser, argv)


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    spec = submitting.complete_spec(context)
    if options.batch is not None:
        return _batch(context, spec)
    if options.dry_run:
        return _dry_run(context, spec)
    task_id = context.client.submit(options.command, **spec)
    if context.json:
        context.print_json({"id": task_id})
    context.say(str(task_id))
    return 0


def _batch(context: Context, spec: dict[str, object]) -> int:
    from wire.errors import BadRequestError

    path = context.options.batch
    lines = [line.strip() for line in submitting.read_text(path).splitlines()]
    commands = [line for line in lines if line and not line.startswith("#")]
    if not commands:
        raise BadRequestError(f"{path}: no line holds a command")
    if context.options.dry_run:
        raise BadRequestError("--dry-run looks at one command: use it with `-- CMD …` or --script")
    ids = context.client.submit_batch(commands, **spec)
    if context.json:
        context.print_json([{"id": task_id} for task_id in ids])
    context.say(str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}")
    return 0


def _dry_run(context: Context, spec: dict[str, object]) -> int:
    from wire.harmless import harmless

    answer = context.client.check(context.options.command, **spec)
    placement = answer.get("placement")
    if context.json:
        context.print_json(answer)
    if not answer.get("possible", True):
        context.note(f"error: impossible: {harmless(answer['reason'])}")
        return 1
    if context.json:
        return 0
    if placement:
        gpus = placement.get("gpus") or []
        on = f" on GPU {','.join(map(str, gpus))}" if gpus else ""
        context.say(f"would start now: node {harmless(str(placement.get('node')))}{on}")
    else:
        context.say(f"would not start now: {harmless(answer.get('reason') or 'the master gave no reason')}")
    return 0
