"""Searching logs as people do, on a real master: the last errors of a long log, in colour nowhere but on a terminal."""

from __future__ import annotations

import json

from tests.system.lab import Lab


def test_the_lines_that_matter_are_found_and_what_is_not_there_is_told(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit(
            "for n in $(seq 3); do echo epoch $n; printf '\\033[2J训练 %s\\n' $n; done; echo over >&2"
        )
        client.wait([task_id])
    which = str(task_id)
    done = lab.muster("logs", which, "--search", "EPOCH", "-i")
    assert (done.returncode, done.stdout) == (0, "epoch 1\nepoch 2\nepoch 3\n")
    assert lab.muster("logs", which, "--search", "epoch", "-n", "1").stdout == "epoch 3\n"
    assert lab.muster("logs", which, "--search", r"ep.+[12]$", "--regex").stdout == "epoch 1\nepoch 2\n"
    assert lab.muster("logs", which, "--search", "训练 2").stdout == "\\x1b[2J训练 2\n"
    nothing = lab.muster("logs", which, "--search", "nan")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == f"no line of the log of task {which} has 'nan'\n"
    (match,) = json.loads(lab.muster("logs", which, "--search", "over", "--json").stdout)["matches"]
    assert (match["text"], match["begin"], match["end"], match["cut"]) == ("over", 0, 4, False)
    wrong = lab.muster("logs", which, "--search", "(", "--regex")
    assert wrong.returncode == 1
    assert "no regular expression" in wrong.stderr
    for words in (["-i"], ["--regex"], ["--search", "x", "-f"], ["--search", ""], ["--search", "x", "--collapse"]):
        assert lab.muster("logs", which, *words).returncode == 2, words


def test_the_api_goes_on_until_all_is_searched(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit("seq 3000")
        client.wait([task_id])
        found = [match["text"] for match in client.search_log(task_id, "1")]
        assert found == [str(number) for number in range(1, 3001) if "1" in str(number)]
        last = client.search_log(task_id, "^2", regex=True, backwards=True, most=2)
        assert [match["text"] for match in last] == ["2999", "2998"]
