"""A lab's own certificate in its two files: read at the start, followed while the master runs."""

from __future__ import annotations

import json
import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from master.config.config import load_config
from master.tls.brought import Brought
from master.tls.certificates import OwnCertificates
from master.tls.policy import Tls
from master.tls.watch import AGAIN, CertificateWatch, Reminders
from tests.certificates import Made, authority, made
from tests.faults import fault_in
from tests.waiting import until
from wire.console import TlsFiles
from wire.message import Message
from wire.pinning import fingerprint

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = authority("Lab CA", days=(-4000, 4000))
STRANGER = authority("Another CA", days=(-4000, 4000))


def leaf(days: tuple[float, float] = (-1, 90), by: Made | None = ROOT) -> Made:
    return made("queue", by, ["queue"], days, now=NOW)


def lay(folder: Path, *chain: Made, key: Made | None = None) -> None:
    """Put a pair where conf.json says, as careful people do: each file whole, by a rename."""
    for name, data in (("cert.pem", b"".join(one.pem for one in chain)), ("key.pem", (key or chain[0]).key_pem)):
        draft = folder / f"{name}.new"
        draft.write_bytes(data)
        draft.chmod(0o600)
        draft.replace(folder / name)


def brought(folder: Path) -> Brought:
    return Brought(folder / "cert.pem", folder / "key.pem", folder / "tls", ["queue"], roots=lambda: b"")


def begun(folder: Path, *chain: Made) -> Brought:
    lay(folder, *chain)
    one = brought(folder)
    assert one.begin(NOW) == ()
    return one


def keys(problems: tuple[Message, ...]) -> list[str]:
    return [one.key for one in problems]


def test_a_good_pair_is_taken_and_its_key_is_written_nowhere(tmp_path: Path) -> None:
    pair = leaf()
    one = begun(tmp_path, pair, ROOT)
    assert one.shown is not None
    assert (one.shown.authority.encode(), one.problems(NOW)) == (ROOT.pem, ())
    assert one.kept.read_bytes() == pair.pem + ROOT.pem
    assert (stat.S_IMODE(one.kept.stat().st_mode), stat.S_IMODE(one.kept.parent.stat().st_mode)) == (0o600, 0o700)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_may_read_is_refused_with_the_command_that_closes_it(tmp_path: Path, mode: int) -> None:
    lay(tmp_path, leaf(), ROOT)
    (tmp_path / "key.pem").chmod(mode)
    one = brought(tmp_path)
    assert one.begin(NOW) == (Message("tls_key_open", file=f"{tmp_path}/key.pem"),)
    assert one.shown is None


def test_what_is_not_there_is_told_with_its_file(tmp_path: Path) -> None:
    (told,) = brought(tmp_path).begin(NOW)
    assert told == Message("tls_unreadable", file=f"{tmp_path}/cert.pem", why="No such file or directory")


def test_nothing_is_read_again_before_a_file_changes(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    os.chmod(tmp_path, 0o700)  # noqa: PTH101
    shown = one.shown
    assert not one.look(NOW + timedelta(days=1))
    assert one.shown is shown


def test_a_new_pair_of_the_same_authority_is_taken(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    before = one.shown
    between = authority("Lab CA 2", ROOT, days=(-4000, 4000))
    later = leaf((-1, 300), between)
    lay(tmp_path, later, between, ROOT)
    assert one.look(NOW)
    assert one.shown is not None
    assert before is not None
    assert one.shown.context is not before.context
    assert (one.shown.authority, one.shown.ends) == (before.authority, later.certificate.not_valid_after_utc)
    assert one.problems(NOW) == ()
    assert one.kept.read_bytes() == later.pem + between.pem + ROOT.pem


def test_the_same_pair_written_anew_is_no_news(tmp_path: Path) -> None:
    pair = leaf()
    one = begun(tmp_path, pair, ROOT)
    lay(tmp_path, pair, ROOT)
    assert not one.look(NOW)


def test_a_bad_pair_is_told_the_old_one_stays_and_the_cure_ends_it(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    shown = one.shown
    lay(tmp_path, leaf(), ROOT, key=leaf())
    assert not one.look(NOW)
    assert one.shown is shown
    (told,) = one.problems(NOW)
    assert told.key == "tls_refused"
    key, cert = f"{tmp_path}/key.pem", f"{tmp_path}/cert.pem"
    other = Message("tls_key_of_another", key=key, subject="CN=queue", cert=cert)
    assert told.args == {"ends": "2026-05-30 00:00 UTC", "because": (other,)}
    lay(tmp_path, leaf((-1, 300)), ROOT)
    assert one.look(NOW)
    assert one.problems(NOW) == ()


def test_files_that_are_taken_away_for_a_while_change_nothing(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    shown = one.shown
    aside = tmp_path / "aside"
    (tmp_path / "cert.pem").rename(aside)
    assert not one.look(NOW)
    assert keys(one.problems(NOW)) == ["tls_refused"]
    aside.rename(tmp_path / "cert.pem")
    assert not one.look(NOW)
    assert (one.problems(NOW), one.shown) == ((), shown)


def test_a_pair_of_tomorrow_is_taken_tomorrow(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    lay(tmp_path, leaf((1, 90)), ROOT)
    assert not one.look(NOW)
    assert one.look(NOW + timedelta(days=1, seconds=1))


def test_another_authority_would_lock_everybody_out_so_it_waits_for_the_old_ones_end(tmp_path: Path) -> None:
    one = begun(tmp_path, leaf(), ROOT)
    lay(tmp_path, leaf((-1, 300), STRANGER), STRANGER)
    assert not one.look(NOW)
    (told,) = one.problems(NOW)
    assert fingerprint(ROOT.pem.decode()) in str(told)
    assert f"--ca-fingerprint {fingerprint(STRANGER.pem.decode())}" in str(told)
    assert one.look(NOW + timedelta(days=91))  # nobody is let in by the old one any more
    assert one.shown is not None
    assert one.shown.authority.encode() == STRANGER.pem
    assert keys(one.problems(NOW)) == ["tls_authority_changed"]


def test_a_start_with_another_authority_is_taken_and_told(tmp_path: Path) -> None:
    begun(tmp_path, leaf(), ROOT)
    (told,) = begun(tmp_path, leaf(by=STRANGER), STRANGER).problems(NOW)
    assert told.args == {"old": fingerprint(ROOT.pem.decode()), "new": fingerprint(STRANGER.pem.decode())}
    assert begun(tmp_path, leaf(by=STRANGER), STRANGER).problems(NOW) == ()


def test_who_pinned_the_masters_own_authority_must_be_told_of_the_labs(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path / "tls", ["queue"])
    own.ensure(NOW)
    (told,) = begun(tmp_path, leaf(), ROOT).problems(NOW)
    assert told.key == "tls_authority_changed"
    assert told.args["old"] == fingerprint(own.authority.read_text(encoding="ascii"))


def test_where_the_authority_cannot_be_remembered_the_pair_is_not_used(tmp_path: Path) -> None:
    lay(tmp_path, leaf(), ROOT)
    one = brought(tmp_path)
    (tmp_path / "tls").touch()  # nothing can be written beneath it
    (told,) = one.begin(NOW)
    assert (told.key, one.shown) == ("tls_unreadable", None)


def test_a_key_that_openssl_finds_too_weak_is_told(tmp_path: Path) -> None:
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505  (that is the point)
    pair = made("queue", ROOT, ["queue"], now=NOW, key=weak)
    lay(tmp_path, pair, ROOT)
    (told,) = brought(tmp_path).begin(NOW)
    assert told.key == "tls_no_certificate"
    assert "KEY_TOO_SMALL" in str(told)


# -- conf.json ------------------------------------------------------------------------------------------------


def config(folder: Path, **keys_: Any) -> Any:
    ports = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
    (folder / "conf.json").write_text(json.dumps({"socket_info": ports, **keys_}), encoding="utf-8")
    (folder / "task_info").mkdir(exist_ok=True)
    return load_config(folder / "conf.json")


def ours(folder: Path, days: tuple[float, float] = (-1, 90)) -> Made:
    """One that holds at the present moment."""
    pair = made("queue", ROOT, ["queue"], days)
    lay(folder, pair, ROOT)
    return pair


def test_the_paths_in_conf_json_start_from_its_folder(tmp_path: Path) -> None:
    ours(tmp_path)
    tls = Tls.of(config(tmp_path, tls={"cert": "cert.pem", "key": "key.pem"}))
    assert tls.fingerprint() == fingerprint(ROOT.pem.decode())
    told = tls.told(datetime.now(UTC))
    assert (told.mode, told.authority) == ("brought", tls.fingerprint())
    assert isinstance(config(tmp_path, tls={"cert": "a", "key": "b"}).tls, TlsFiles)


def test_a_pair_that_cannot_be_used_stops_the_start_with_conf_json_file_and_cure(tmp_path: Path) -> None:
    ours(tmp_path, (-30, -1))
    tls = Tls.of(config(tmp_path, tls={"cert": "cert.pem", "key": "key.pem"}))
    fault = fault_in(tmp_path / "conf.json", tls.context)
    assert fault.key == "tls_faults"
    faults = fault.args["faults"]
    assert isinstance(faults, tuple)
    assert [one.key for one in faults if isinstance(one, Message)] == ["tls_ended"]


# -- the watch ------------------------------------------------------------------------------------------------


def test_what_is_the_matter_is_said_when_it_arises_and_then_once_a_day() -> None:
    said = Reminders()
    one, other = (Message("tls_key_open", file=name) for name in ("a", "b"))
    assert said.due([one], NOW) == [one]
    assert said.due([one, other], NOW + timedelta(hours=1)) == [other]
    assert said.due([one, other], NOW + AGAIN - timedelta(seconds=1)) == []
    assert said.due([one, other], NOW + AGAIN) == [one]
    assert said.due([], NOW + AGAIN) == []
    assert said.due([one], NOW + AGAIN + timedelta(seconds=1)) == [one]


def test_the_end_of_a_certificate_is_in_the_log_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours(tmp_path)
    tls = Tls.of(config(tmp_path, tls={"cert": "cert.pem", "key": "key.pem"}))
    tls.context()
    ends = tls.told(NOW).ends
    assert ends is not None
    watch = CertificateWatch(tls, look_s=3600.0)
    watch.close()
    watch.thread.join()  # its own look, at what is now, is over
    for minutes in range(0, 2 * 24 * 60, 30):
        watch.look(ends - timedelta(days=20, hours=1) + timedelta(minutes=minutes))
    said = [record.getMessage() for record in caplog.records if "ends on" in record.getMessage()]
    assert len(said) == 3
    assert "20 days" in said[0]


def test_the_watch_takes_a_replaced_pair_by_itself_and_ends_when_it_is_told(tmp_path: Path) -> None:
    ours(tmp_path)
    tls = Tls.of(config(tmp_path, tls={"cert": "cert.pem", "key": "key.pem"}))
    before = tls.context()
    watch = CertificateWatch(tls, look_s=0.01)
    ours(tmp_path, (-1, 200))
    until("the new pair is shown", lambda: tls.context() is not before)
    watch.close()
    watch.thread.join()
    shutil.rmtree(tmp_path / "task_info")
