"""What may happen to the records of attempts in an agent's state folder while no agent runs. Each takes the folder
`attempts`.

Owns the damage only; what must hold then is for the tests and for the chaos run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

Fault = Callable[[Path], None]


def removes_all(attempts: Path) -> None:
    for claim in attempts.iterdir():
        shutil.rmtree(claim) if claim.is_dir() else claim.unlink()


def removes_the_folder(attempts: Path) -> None:
    shutil.rmtree(attempts)


def renames_the_folder(attempts: Path) -> None:
    attempts.rename(attempts.with_name("attempts.old"))


def puts_an_older_copy_back(attempts: Path) -> None:
    shutil.rmtree(attempts)
    attempts.mkdir()


def removes_claims(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        shutil.rmtree(record.parent)


def removes_records(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        record.unlink()


def empties_records(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        os.truncate(record, 0)


def fills_records_with_zeros(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        with record.open("r+b") as file:
            file.write(bytes(record.stat().st_size))


def replaces_records(attempts: Path) -> None:
    """With empty ones, which no shim has open."""
    for record in attempts.glob("*/record"):
        record.unlink()
        record.touch()


def cuts_records_in_the_claim(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        os.truncate(record, min(20, record.stat().st_size))


def cuts_records_in_the_start(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        claim, end, start = record.read_bytes().partition(b"\n")
        os.truncate(record, len(claim) + len(end) + min(20, len(start)))


def puts_folders_in_their_place(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        record.unlink()
        record.mkdir()


def puts_files_in_their_place(attempts: Path) -> None:
    for record in attempts.glob("*/record"):
        shutil.rmtree(record.parent)
        record.parent.touch()


FAULTS: list[Fault] = [
    removes_all,
    empties_records,
    removes_claims,
    replaces_records,
    cuts_records_in_the_start,
    removes_the_folder,
    renames_the_folder,
    puts_an_older_copy_back,
    removes_records,
    fills_records_with_zeros,
    cuts_records_in_the_claim,
    puts_folders_in_their_place,
    puts_files_in_their_place,
]


def ended(attempts: Path) -> int:
    """How many attempts have their end in a record that nobody has acknowledged: it goes with the record."""
    return sum(b'"is":"exit"' in record.read_bytes() for record in attempts.glob("*/record"))
