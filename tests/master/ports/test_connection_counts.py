"""Who gets a place, who has to make room, and whose bytes are kept."""

from __future__ import annotations

import msgspec
import pytest

from master.callers.peer import Peer
from master.config.settings import Caps
from master.ports.connection_counts import ALL_HELD, ALWAYS_OURS, ConnectionCounts

LIMITS = Caps(connections=64, connections_unidentified=8, connections_per_address=12, held_bytes=1000)
OURS = Peer("127.0.0.1", "ann", is_ours=True, is_here=True)


class Guest:
    """A connection. `places` is told when it is cut, as a real one does."""

    def __init__(self, places: ConnectionCounts, peer: Peer) -> None:
        self.peer = peer
        self.places = places
        self.why: str | None = None
        self.kept = self.of_answers = 0

    def keeps(self) -> int:
        """What is kept for it now, whatever it told of that."""
        return self.kept

    def unread(self) -> int:
        """So much of that are answers."""
        return self.of_answers

    def cut(self, why: str) -> None:
        """Remember why."""
        assert self.why is None, "nobody is given up twice"
        self.why = why
        self.places.leave(self)


class Hall:
    """Places, and whoever came."""

    def __init__(self, *, only_root: bool = False, descriptors: int = 4096, **limits: int) -> None:
        self.limits = msgspec.structs.replace(LIMITS, **limits)
        self.places = ConnectionCounts(lambda: self.limits, descriptors, only_root=only_root)
        self.guests: list[Guest] = []

    def comes(self, peer: Peer | str) -> Guest:
        """A new connection, which must be let in."""
        guest = Guest(self.places, Peer(peer) if isinstance(peer, str) else peer)
        self.guests.append(guest)
        self.refused = self.places.enter(guest)
        return guest

    def speaks(self, peer: Peer | str) -> Guest:
        """A new connection that shows what it is."""
        guest = self.comes(peer)
        self.refused = self.refused or self.places.settle(guest)
        if self.refused is not None:
            self.places.leave(guest)
        return guest

    def holds(self, guest: Guest, size: int) -> bool:
        """So much is kept for it, and it tells so."""
        guest.kept = size
        return self.places.hold(guest, size)

    @property
    def there(self) -> list[Guest]:
        """Those that were not given up."""
        return [guest for guest in self.guests if guest.why is None]


def test_of_one_address_the_oldest_silent_one_makes_room_and_others_do_not() -> None:
    hall = Hall()
    other, ours = hall.comes("10.0.0.2"), hall.comes(OURS)
    flood = [hall.comes("10.0.0.1") for _ in range(100)]
    assert [guest.why is None for guest in flood] == [False] * 92 + [True] * 8
    assert "more than 8 connections of 10.0.0.1 that have not said who they are" in (flood[0].why or "")
    assert other.why is ours.why is None


def test_one_address_has_only_so_many_sessions_and_the_next_is_refused() -> None:
    hall = Hall()
    for _ in range(12):
        hall.speaks("10.0.0.1")
        assert hall.refused is None
    refused = hall.speaks("10.0.0.1")
    assert "limits.connections_per_address" in str(hall.refused)
    hall.speaks("10.0.0.2")
    assert hall.refused is None
    hall.places.leave(hall.guests[0])
    hall.speaks("10.0.0.1")
    assert hall.refused is None
    assert refused.why is None, "it is told, by whoever asked"


def test_when_strangers_have_all_their_places_the_owner_and_newcomers_still_get_in() -> None:
    hall = Hall()
    for number in range(20):
        for _ in range(12):
            hall.speaks(f"10.0.1.{number}")
    assert hall.refused == hall.places.full
    taken = hall.places.taken
    assert taken == 56, "an eighth is kept"
    agents = [hall.comes(f"10.0.2.{number}") for number in range(4)]
    assert [agent.why for agent in agents] == [None] * 4, "they are listened to, and leave when they were heard"
    owners = [hall.speaks(OURS) for _ in range(4)]
    assert hall.refused is None
    assert {one.why for one in owners} == {None}


def test_who_has_most_silent_connections_makes_room_first() -> None:
    hall = Hall(connections=16)
    few = [hall.comes("10.0.0.2"), hall.comes("10.0.0.3")]
    flood = [hall.comes("10.0.0.1") for _ in range(8)]
    for number in range(10):
        hall.comes(f"10.0.3.{number}")
    assert all(guest.why is None for guest in few)
    assert [guest.why is None for guest in flood] != [True] * 8
    assert len(hall.there) <= 16


def test_a_stranger_who_finds_only_sessions_is_refused_and_the_owner_has_the_last_place() -> None:
    hall = Hall(descriptors=3)
    for number in range(2):
        hall.speaks(f"10.0.0.{number}")
    assert hall.refused is None
    hall.speaks("10.0.0.9")
    assert hall.refused == hall.places.full
    hall.speaks(OURS)
    assert hall.refused is None
    hall.speaks(OURS)
    assert hall.refused == hall.places.full


def test_a_limit_that_falls_closes_nobody_and_the_owner_can_still_come_to_raise_it() -> None:
    hall = Hall()
    sessions = [hall.speaks(f"10.0.0.{number}") for number in range(20)]
    hall.limits = Caps(connections=1, connections_unidentified=1, connections_per_address=1, held_bytes=100)
    hall.speaks("10.0.0.1")
    assert hall.refused == hall.places.full
    owners = [hall.speaks(OURS) for _ in range(ALWAYS_OURS)]
    assert hall.refused is None
    hall.speaks(OURS)
    assert hall.refused == hall.places.full
    assert [guest.why for guest in (*sessions, *owners)] == [None] * 36


def test_what_was_kept_before_the_limit_fell_may_be_kept_until_it_is_less() -> None:
    hall = Hall()
    large, small = hall.speaks("10.0.0.1"), hall.speaks("10.0.0.2")
    assert hall.holds(large, 900)
    hall.limits = msgspec.structs.replace(hall.limits, held_bytes=100)
    assert hall.holds(large, 950)
    assert not hall.holds(small, 101)
    assert hall.holds(large, 50)
    assert not hall.holds(large, 101)


def test_a_machine_with_a_whole_ipv6_network_is_one() -> None:
    hall = Hall()
    flood = [hall.comes(f"2001:db8:0:1::{number:x}") for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8
    assert hall.comes("2001:db8:0:2::1").why is None
    assert hall.comes("fe80::1%eth0").why is None


@pytest.mark.parametrize("uid", [None, 4301])
def test_an_account_of_this_machine_is_one_whichever_address_it_takes(uid: int | None) -> None:
    hall = Hall()
    ours, other = hall.comes(OURS), hall.comes(Peer("127.0.0.1", is_here=True, uid=4302))
    flood = [hall.comes(Peer(f"127.0.{number}.1", is_here=True, uid=uid)) for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8
    assert ours.why is other.why is None


def test_an_ipv4_address_in_ipv6_clothes_is_the_same_address() -> None:
    hall = Hall()
    flood = [hall.comes("::ffff:10.0.0.1" if number % 2 else "10.0.0.1") for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8


def test_who_has_too_much_kept_is_cut_and_frees_it() -> None:
    hall = Hall()
    first, second = hall.speaks("10.0.0.1"), hall.speaks("10.0.0.1")
    other, ours = hall.speaks("10.0.0.2"), hall.speaks(OURS)
    assert hall.holds(first, 900)
    assert hall.holds(first, 600)
    assert hall.holds(second, 400)
    assert not hall.holds(second, 401)
    assert "limits.held_bytes" in (second.why or "")
    assert hall.holds(second, 500), "it has gone, and nothing is counted any more"
    assert hall.holds(first, 1000)
    assert hall.holds(other, 1000)
    assert hall.holds(ours, 10_000_000)
    for guest in hall.guests:
        hall.places.leave(guest)
    assert hall.places.is_empty


def test_what_was_read_meanwhile_counts_no_more_though_nobody_told_so() -> None:
    hall = Hall()
    first, second = hall.speaks("10.0.0.1"), hall.speaks("10.0.0.1")
    assert hall.holds(first, 900)
    first.kept = 100
    assert hall.holds(second, 900)
    assert not hall.holds(second, 901)
    others = [hall.speaks(f"10.0.0.{number + 2}") for number in range(ALL_HELD)]
    for other in others:
        assert hall.holds(other, 1000)
        other.kept = 0
    assert hall.holds(first, 1000)
    assert all(hall.holds(other, 700) for other in others)
    for guest in hall.guests:
        hall.places.leave(guest)
    assert hall.places.is_empty


def test_one_answer_may_be_longer_than_the_share_and_the_next_is_too_much() -> None:
    hall = Hall(held_bytes=10_000)
    first, second, third = (hall.speaks("10.0.0.1") for _ in range(3))
    first.of_answers = second.of_answers = 30_000
    assert hall.holds(first, 30_000)
    assert hall.holds(first, 30_500), "it says something, too"
    assert hall.holds(third, 9), "little is nobody's harm"
    assert not hall.holds(third, 10)
    assert not hall.holds(second, 30_000)
    first.of_answers = 0
    assert not hall.holds(first, 30_501), "what it sent counts whole"


def test_many_addresses_together_have_a_bound_too() -> None:
    hall = Hall()
    guests = [hall.speaks(f"10.0.0.{number}") for number in range(10)]
    assert [hall.holds(guest, 1000) for guest in guests] == [True] * ALL_HELD + [False] * (10 - ALL_HELD)


@pytest.mark.parametrize("most", [1, 2, 5, 16])
def test_nobody_who_left_is_counted(most: int) -> None:
    hall = Hall(connections=most)
    for number in range(200):
        guest = hall.speaks(OURS if number % 7 == 0 else f"10.0.{number % 3}.1")
        if number % 2:
            hall.places.leave(guest)
    for guest in hall.guests:
        hall.places.leave(guest)
    assert hall.places.is_empty


def test_a_connection_of_the_console_is_the_users_for_whom_it_calls() -> None:
    hall = Hall(connections_per_user=4)
    console = [hall.comes(OURS) for _ in range(6)]
    for guest in console:
        assert hall.places.settle(guest, "web", is_service=True) is None
    refused = [hall.places.settle(guest, "ann", is_relayed=True) for guest in console]
    assert [why is None for why in refused] == [True] * 4 + [False] * 2
    assert "ann" in str(refused[-1])
    assert hall.places.settle(console[0], "ann", is_relayed=True) is None, "a token is shown again now and then"
    assert not hall.holds(console[1], 1001), "what is kept for it is counted, too"
    for guest in hall.guests:
        hall.places.leave(guest)
    assert hall.places.is_empty
