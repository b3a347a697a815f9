"""Queue a command and print its id. The answer means that the task is on the master's disk.

The words after `--` stay the words of the command, as an argument list; for pipes and the like use
`-- bash -c '…'`, --script or --batch.
"""

from __future__ import annotations

from client.cli.arguments import submitting
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster submit --gpus 1 -- python3 train.py --lr 0.1
  muster submit --gpus 2 --env torch --time-limit 12h --name bert -- python3 train.py
  muster submit --after 17 -- python3 evaluate.py       (after 17 ended well; 17:any, 17:fail)
  muster submit --script train.sh                       (with lines like `#MUSTER --gpus 2`)
  muster submit --gpus 1 --batch sweep.txt              (one command a line)
  muster submit --gpus 1 --array 0-9%2 -- python3 train.py --seed {index}
  muster submit --gpus 1 --sweep lr=0.1,0.01 --sweep bs=32,64 -- python3 train.py --lr {lr} --batch {bs}
  muster submit --in exp --gpus 1 -- python3 train.py   (on GPUs that `muster alloc exp` holds)
  muster submit --token submit -- ./search.sh           (its own `muster submit` is yours)
  muster submit --dry-run --gpus 8 -- true              (where would it run?)
  muster wait $(muster submit -- make data)"""
TOKEN = submitting.TOKEN


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    submitting.arguments(parser, batch=True)
    parser.add_argument("--dry-run", action="store_true", help="queue nothing; say where it would run, or why not now")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line and, if there is one, the script."""
    options = submitting.parse(parser, argv)
    options.many = submitting.array_of(parser, options)
    if options.many and (options.batch is not None or options.dry_run):
        parser.error("--array and --sweep go with one command, and not with --batch or --dry-run")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    spec = submitting.complete_spec(context)
    if options.batch is not None:
        return _batch(context, spec)
    if options.many:
        submitting.tell_faults(context, spec, [options.command])
        return _tell(context, context.client.submit_array(options.command, **options.many, **spec))
    notes = submitting.tell_faults(context, spec, [options.command])
    noted = {"notes": notes} if notes else {}
    if options.dry_run:
        return _dry_run(context, spec, noted)
    task_id = context.client.submit(options.command, **spec)
    context.done.append(f"task {task_id} was queued")
    if context.json:
        context.print_json({"id": task_id, **noted})
    context.say(str(task_id))
    return 0


def _batch(context: Context, spec: dict[str, object]) -> int:
    path = context.options.batch
    commands = submitting.batch_commands(path)
    if not commands:
        raise coded_error("bad_request", "no_command_in_lines", path=path)
    if context.options.dry_run:
        raise coded_error("bad_request", "dry_run_of_one")
    submitting.tell_faults(context, spec, list(commands))
    return _tell(context, context.client.submit_batch(commands, **spec))


def _tell(context: Context, ids: list[int]) -> int:
    told = str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"
    context.done.append(f"{'task' if len(ids) == 1 else 'tasks'} {told} {'was' if len(ids) == 1 else 'were'} queued")
    if context.json:
        context.print_json([{"id": task_id} for task_id in ids])
    context.say(told)
    return 0


def _dry_run(context: Context, spec: dict[str, object], noted: dict[str, Any]) -> int:
    from wire.harmless import harmless

    answer = context.client.check(context.options.command, **spec)
    parts = answer.get("placements") or [part for part in [answer.get("placement")] if part]
    if context.json:
        context.print_json({**answer, **noted})
    if not answer.get("possible", True):
        context.note(f"error: impossible: {harmless(answer['reason'])}")
        return 1
    if context.json:
        return 0
    if parts:
        told = (
            f"node {harmless(part['node'])}" + (f" on GPU {','.join(map(str, part['gpus']))}" if part["gpus"] else "")
            for part in parts
        )
        context.say(f"would start now: {'; '.join(told)}")
    else:
        context.say(f"would not start now: {harmless(answer.get('reason') or 'the master gave no reason')}")
    return 0
