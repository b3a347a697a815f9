"""How indices and sweeps are read, and what becomes of `{name}` in a command, whatever the values are."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.verbs.array_spec import Template, check_sweep, points_of, read_indices
from wire.errors import BadRequestError


@pytest.mark.parametrize(
    ("text", "indices", "cap"),
    [
        ("0-3", [0, 1, 2, 3], None),
        ("0-9:3%2", [0, 3, 6, 9], 2),
        ("7,1, 5-6", [7, 1, 5, 6], None),
        ("4", [4], None),
    ],
)
def test_indices_are_read_as_slurm_has_them(text: str, indices: list[int], cap: int | None) -> None:
    assert read_indices(text, 100) == (indices, cap)


@pytest.mark.parametrize(
    "text",
    ["", "a", "3-1", "0-9:0", "1,,2", "0-9%0", "0-9%", "-1", "1,1", "0-5,3", "0-100", "0-9999999999", "٣", "1-2-3"],
)
def test_what_is_no_array_is_refused_before_it_is_made(text: str) -> None:
    with pytest.raises(BadRequestError):
        read_indices(text, 100)


def test_a_sweep_is_the_product_of_all_and_is_counted_before_it_is_made() -> None:
    sweep = {"lr": ["0.1", "0.01"], "bs": ["32", "64"]}
    assert check_sweep(sweep, 4) == 4
    assert list(points_of(sweep))[1] == {"lr": "0.1", "bs": "64"}
    bad: list[dict[str, list[str]]] = [{"a b": ["1"]}, {"x": []}, {"x": ["1", "1"]}, {"index": ["1"]}, {"x": ["\0"]}]
    for wrong in bad:
        with pytest.raises(BadRequestError):
            check_sweep(wrong, 10)
    with pytest.raises(BadRequestError):
        check_sweep({f"n{number}": list(map(str, range(1000))) for number in range(32)}, 200_000)


def test_words_get_values_as_they_are_and_other_braces_stay() -> None:
    template = Template(["sh", "--lr={lr}", "{other}", "${lr}", "{}"], {"lr": ["$(id) {bs}", "b"], "bs": ["1"]})
    assert template.filled({"lr": "$(id) {bs}", "bs": "1", "index": "0"}) == [
        "sh",
        "--lr=$(id) {bs}",
        "{other}",
        "${lr}",
        "{}",
    ]


@pytest.mark.parametrize(
    "value", ["a b", "$(id)", "`id`", "x;y", "'", '"', "a\nb", "*", "~", "!", "\\", "#", "{a}", "é"]
)
def test_a_text_for_bash_takes_no_value_that_could_mean_something_to_it(value: str) -> None:
    with pytest.raises(BadRequestError, match="MUSTER_SWEEP_x"):
        Template("echo {x}", {"x": ["1", value]})
    assert Template("echo ${x}", {"x": [value]}).filled({"x": value}) == "echo ${x}"


@pytest.mark.real
@given(st.text(alphabet="aZ09_.,:/+@%=-", max_size=12))
def test_what_it_takes_bash_reads_as_it_stands_in_quotes_or_without(value: str) -> None:
    command = Template("printf '[%s]' x{v} \"{v}\" '{v}'; cat <<E\n{v}\nE", {"v": [value]}).filled({"v": value})
    assert isinstance(command, str)
    said = subprocess.run(["/bin/bash", "-c", command], capture_output=True, check=True, text=True).stdout
    assert said == f"[x{value}][{value}][{value}]{value}\n"
