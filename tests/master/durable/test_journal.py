"""The journal's lines: read back, cut where torn, refused where damaged; and commits that a disk refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.durable.disk import SyncFailedError
from master.durable.journal import Journal, Record, decode_record, encode_record, read_journal
from tests.faults import refusing
from tests.master.durable.simulated_disk import SimulatedDisk
from wire.errors import StoreCorruptError, StoreUnavailableError

PATH = Path("t/journal.jsonl")


def lines(*records: tuple[int, int]) -> list[bytes]:
    return [encode_record(seq, synced, b'{"n":%d}' % seq) for seq, synced in records]


def test_a_record_comes_back_as_it_was_written() -> None:
    record = decode_record(encode_record(7, 5, '{"名": " a  b "}'.encode()).removesuffix(b"\n"))
    assert record == Record(7, 5, '{"名": " a  b "}'.encode())


def test_cut_at_every_byte_gives_the_whole_records_before_it() -> None:
    written = lines((1, 0), (2, 1), (3, 2))
    data = b"".join(written)
    for size in range(len(data)):
        reading = read_journal(data[:size], PATH, 0)
        whole = sum(size >= len(b"".join(written[:count])) for count in (1, 2, 3))
        assert [record.seq for record in reading.records] == [1, 2, 3][:whole]
        assert reading.size == len(b"".join(written[:whole]))


def test_a_flipped_byte_before_a_later_commit_is_refused_with_file_and_line() -> None:
    first, second, third = lines((1, 0), (2, 1), (3, 2))
    for position in range(len(second) - 1):
        damaged = bytearray(second)
        damaged[position] ^= 0x55
        with refusing(StoreCorruptError, "journal_line_wrong", path=str(PATH), line=2):
            read_journal(first + bytes(damaged) + third, PATH, 0)


def test_a_flipped_byte_in_the_first_line_is_refused() -> None:
    first, second, third = lines((5, 4), (6, 5), (7, 6))
    for base in (4, 5, 6, 7):
        with refusing(StoreCorruptError, "journal_line_wrong", line=1):
            read_journal(b"X" + first[1:] + second + third, PATH, base)


def test_a_hole_in_the_last_commit_is_torn_though_its_end_arrived() -> None:
    first, second, third, fourth = lines((1, 0), (2, 1), (3, 1), (4, 1))
    reading = read_journal(first + bytes(len(second)) + third + fourth, PATH, 0)
    assert [record.seq for record in reading.records] == [1]
    assert read_journal(bytes(len(first)) + b"".join(lines((2, 0))), PATH, 0).records == []


@pytest.mark.parametrize("seqs", [(1, 3), (1, 1), (2, 1)])
def test_records_out_of_order_are_refused(seqs: tuple[int, ...]) -> None:
    with pytest.raises(StoreCorruptError):
        read_journal(b"".join(lines(*((seq, seq - 1) for seq in seqs))), PATH, 1)


@pytest.mark.parametrize("base", [2, 9])
def test_a_journal_that_does_not_join_the_other_files_is_refused(base: int) -> None:
    with refusing(StoreCorruptError, "records_elsewhere", known=base):
        read_journal(b"".join(lines((4, 3), (5, 4))), PATH, base)


def journal(disk: SimulatedDisk) -> Journal:
    return Journal(disk, PATH, seq=0, size=0)


def test_a_commit_is_one_write_and_one_sync() -> None:
    disk = SimulatedDisk()
    opened = journal(disk)
    disk.log.clear()
    for _ in range(3):
        opened.append(b"{}")
    opened.commit()
    opened.commit()
    assert [entry.split()[0] for entry in disk.log] == ["write", "sync"]
    assert opened.size == disk.size(PATH)


def test_a_full_disk_takes_nothing_in_half_and_everything_later() -> None:
    disk = SimulatedDisk()
    opened = journal(disk)
    opened.append(b"{}")
    opened.commit()
    before = disk.read(PATH)
    opened.append(b'{"long":"%b"}' % (b"x" * 100))
    disk.capacity = len(before) + 50
    with refusing(StoreUnavailableError, "journal_unwritable", detail="No space left on device"):
        opened.commit()
    assert disk.read(PATH) == before
    disk.capacity = None
    opened.append(b"{}")
    opened.commit()
    assert [record.seq for record in read_journal(disk.read(PATH), PATH, 0).records] == [1, 2, 3]


def test_a_sync_that_fails_is_not_tried_again() -> None:
    disk = SimulatedDisk()
    opened = journal(disk)
    opened.append(b"{}")
    disk.broken_sync = True
    with pytest.raises(SyncFailedError):
        opened.commit()
    assert opened.synced == 0
