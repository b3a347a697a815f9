"""What the repository says of itself is true: links lead somewhere, documents know every key, command and code."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest

from client.cli.commands import COMMANDS
from master.config.conf_file import ConfFile
from master.config.config import load_config
from master.nodes.registry import NodeConfig
from tests.cases import each_case
from wire import errors

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def headings(name: str) -> list[str]:
    """The levels of the headings, in order."""
    return re.findall(r"^(#+) ", _FENCE.sub("", text(name)), re.MULTILINE)


def test_links_between_documents_lead_to_files() -> None:
    assert DOCUMENTS
    broken = []
    for document in DOCUMENTS:
        links = _LINK.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))
        lost = [link for link in links if "://" not in link and not (document.parent / link).exists()]
        broken += [f"{document.name}: {link}" for link in lost]
    assert broken == []


def test_the_versions_that_ci_takes_name_each_package_that_we_do() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    named = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *project["optional-dependencies"]["demo"],
    ]
    wanted = {re.split(r"[>=;]", one)[0].strip() for one in named if ";" not in one}
    exact = dict(line.split("==") for line in text(".ci/versions.txt").splitlines())
    assert {canonical(name) for name in wanted} <= {canonical(name) for name in exact}


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


TRANSLATED = sorted(str(path.relative_to(ROOT)) for path in DOCUMENTS if path.name.endswith(".zh-CN.md"))
LANGUAGES = {"README", "getting-started", "commands", "deployment", "people"}
"""The pages that there must be in both."""


def commands(name: str) -> list[str]:
    """What a page has people type, without what is said about it."""
    blocks = "".join(_FENCE.findall(text(name)))
    return [re.split(r"\s+#", line)[0] for line in re.findall(r"^\$ (.*)$", blocks, re.MULTILINE)]


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_page_and_its_translation_have_the_same_parts_rows_and_commands(name: str) -> None:
    original = name.replace(".zh-CN", "")
    assert headings(name) == headings(original)
    assert commands(name) == commands(original)
    rows = [len(re.findall(r"^\|", _FENCE.sub("", text(page)), re.MULTILINE)) for page in (name, original)]
    assert rows[0] == rows[1]


def test_who_reads_chinese_is_led_from_page_to_page_in_chinese() -> None:
    assert {Path(name).name.removesuffix(".zh-CN.md") for name in TRANSLATED} >= LANGUAGES
    astray = []
    for name in TRANSLATED:
        folder, own = (ROOT / name).parent, Path(name).name.replace(".zh-CN", "")
        links = [link for link in _LINK.findall(_FENCE.sub("", text(name))) if link != own and ".zh-CN" not in link]
        astray += [
            f"{name}: {link}"
            for link in links
            if ".md" in link and (folder / link.replace(".md", ".zh-CN.md")).exists()
        ]
    assert astray == []


def slugs(document: Path) -> set[str]:
    """What its headings are called in links, as GitHub makes it: small letters, blanks as hyphens, no punctuation."""
    found = re.findall(r"^#+ (.*)$", _FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        for title in found
    }


def test_links_into_a_page_lead_to_a_heading() -> None:
    with each_case() as cases:
        for document in DOCUMENTS:
            with cases.case(document.name):
                assert lost_headings(document) == []


def lost_headings(document: Path) -> list[str]:
    """Return the links of a document that lead to no heading."""
    lost = []
    for page, heading in _ANCHOR.findall(_FENCE.sub("", document.read_text(encoding="utf-8"))):
        target = document.parent / page if page else document
        if "://" not in page and target.suffix == ".md" and heading not in slugs(target):
            lost.append(f"{page}#{heading}")
    return lost


def test_the_readmes_lead_to_where_one_begins() -> None:
    assert {"docs/getting-started.md", "docs/ARCHITECTURE.md"} <= set(_LINK.findall(text("README.md")))
    assert {"docs/getting-started.zh-CN.md", "docs/ARCHITECTURE.md"} <= set(_LINK.findall(text("README.zh-CN.md")))


def test_every_key_of_conf_json_is_documented() -> None:
    documented = text("docs/configuration.md")
    for field in msgspec.structs.fields(ConfFile):
        assert f"`{field.name}" in documented, field.name
        kinds = [field.type, *getattr(field.type, "__args__", ())]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                for inner in msgspec.structs.fields(kind):
                    assert re.search(rf"[`.\"]{inner.name}[`\"]", documented), f"{field.name}.{inner.name}"


def test_every_key_of_the_registry_is_documented() -> None:
    documented = text("docs/node-registry.md")
    assert [field.name for field in msgspec.structs.fields(NodeConfig) if f"`{field.name}`" not in documented] == []


def test_every_command_is_documented() -> None:
    documented = text("docs/commands.md")
    assert [name for name in COMMANDS if not re.search(rf"`{name}\b", documented)] == []


def test_the_error_codes_in_the_documents_are_those_of_the_code() -> None:
    table = text("docs/wire.md").split("## Errors")[1].split("## ")[0]
    told = set(re.findall(r"`([a-z_]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MusterError)]
    real = {kind.code for kind in kinds}
    only_at_a_start = {"config", "locked", "store_changed", "store_corrupt", "unreachable"}
    assert told | only_at_a_start >= real
    assert told <= real


@pytest.mark.real
def test_running_the_shipped_conf_json_writes_only_what_git_ignores() -> None:
    config = load_config(ROOT / "conf.json")
    written = [
        config.task_info / "wait_task.json",
        config.train_logs / "1.log",
        config.server_log,
        config.server_log.with_name(config.server_log.name + ".1"),
        config.psw,
    ]
    names = [str(path.relative_to(ROOT)) for path in written]
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == names, done.stderr


def test_the_distribution_names_what_the_code_needs() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert project["scripts"] == {"muster": "client.cli.begin:main"}
    everything = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    assert [name for name in everything if ">=" not in name] == [], "every dependency has a lower bound"


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## [Unreleased]" in text("CHANGELOG.md")


def test_the_shipped_json_files_are_laid_out_for_people() -> None:
    for name in ("conf.json", "gpu_slaver_info.json"):
        assert text(name) == json.dumps(json.loads(text(name)), indent=2, ensure_ascii=False) + "\n", name


def test_the_hook_for_commits_takes_subjects_of_the_form_that_contributing_asks_for() -> None:
    entry = re.search(r"id: subject\n.*?entry: '(.*?)'\n", text(".pre-commit-config.yaml"), re.DOTALL)
    assert entry
    hook = re.compile(entry[1], re.MULTILINE)
    longest = f"core: {'a' * 66}"
    good = ["core: plan gangs", "core, cli: plan gangs", longest, f"{longest}\n\nThe reason.\n", 'Revert "Whatever"']
    bad = [
        "",
        "Core: plan gangs",
        "core:plan gangs",
        "core: Plan gangs",
        f"{longest}a",
        "Plan gangs\ncore: plan",
        ": a",
    ]
    assert [subject for subject in good if not hook.search(subject)] == []
    assert [subject for subject in bad if hook.search(subject)] == []
