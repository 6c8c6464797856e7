# SPDX-License-Identifier: Apache-2.0
"""`load_config`: file and overrides over each other, the place of each value, and all faults in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.runs.config import given, resolve_config

NEEDED = ("rl.reward=gsm8k", "rl.group_size=8")


def faults_of(path: Path | None, *overrides: str) -> list[str]:
    """The faults of a config, one a line, the file's folder left out."""
    with pytest.raises(RewardConfigError, match="is not valid:\n  ") as caught:
        load_config(path, overrides)
    folder = f"{path.parent}/" if path is not None else "nothing"
    return [line.strip() for line in str(caught.value).replace(folder, "").splitlines()[1:]]


TOML = """
[rl]
reward = "gsm8k"
group_size = 4

[rl.data]
path = "a.jsonl"
seed = 3

[rl.reward_stage.weights]
gsm8k = 2
"length.chars" = -0.5
"""

YAML = """
rl:
  reward: gsm8k
  group_size: 4
  data:
    path: a.jsonl
    seed: 3
  reward_stage:
    weights:
      gsm8k: 2
      length.chars: -0.5
"""


@pytest.mark.parametrize("name", ["run.toml", "run.yaml", "run.yml", "RUN.TOML"])
def test_both_formats_give_the_same_config(written: Callable[..., Path], name: str) -> None:
    """The suffix decides, in either case of letters."""
    config = load_config(written(name, TOML if name.lower().endswith("toml") else YAML))
    assert config == load_config(
        None,
        [
            *("rl.reward=gsm8k", "rl.group_size=4", "rl.data.path=a.jsonl", "rl.data.seed=3"),
            "rl.reward_stage.weights={gsm8k: 2, length.chars: -0.5}",
        ],
    )
    assert dict(config.reward_stage.weights) == {"gsm8k": 2.0, "length.chars": -0.5}


def test_a_byte_order_mark_and_windows_line_ends_are_fine(written: Callable[..., Path]) -> None:
    """Files from other editors are read."""
    for name, text in (("run.toml", TOML), ("run.yaml", YAML)):
        content = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
        assert load_config(written(name, content)).group_size == 4


def test_an_override_wins_over_the_file_and_a_later_one_over_an_earlier(written: Callable[..., Path]) -> None:
    """Left to right, whatever the file says; a value that is overridden is not even checked."""
    path = written("run.toml", 'rl.reward = "gsm8k"\nrl.group_size = "four"\n')
    config = load_config(path, ["rl.group_size=no", "rl.data.seed=1", "rl.group_size=8", "rl.data.seed=2"])
    assert (config.group_size, config.data.seed) == (8, 2)


def test_a_section_sets_the_keys_that_it_holds(written: Callable[..., Path]) -> None:
    """A section in braces is short for its keys: the others keep what they have."""
    path = written("run.toml", f"{TOML}\n[rl.validation]\nn_generation = 4\n")
    config = load_config(path, ["rl.validation={enabled: true, interval: 50}", "rl={group_size: 6}"])
    assert (config.validation.enabled, config.validation.n_generation, config.validation.interval) == (True, 4, 50)
    assert (config.group_size, config.reward) == (6, ("gsm8k",))


def test_weights_are_set_term_by_term_or_replaced_as_a_whole(written: Callable[..., Path]) -> None:
    """What stands behind `weights.` is one term, dots included; a mapping takes the place of all."""
    path = written("run.toml", TOML)

    def weights(*overrides: str) -> dict[str, float]:
        return dict(load_config(path, overrides).reward_stage.weights)

    assert weights("rl.reward_stage.weights.length.chars=1", "rl.reward_stage.weights.style=3") == {
        "gsm8k": 2.0,
        "length.chars": 1.0,
        "style": 3.0,
    }
    assert weights("rl.reward_stage.weights={style: 3}") == {"style": 3.0}
    assert weights("rl.reward_stage.weights={}") == {}
    assert weights("rl.reward_stage={weights: {style: 3}}") == {"style": 3.0}


def test_null_takes_a_value_away(written: Callable[..., Path]) -> None:
    """Null means the default, as if the key had been left out: of a key, a section, one weight, all weights."""
    path = written("run.toml", TOML)
    assert load_config(path, ["rl.data.seed=null"]).data.seed == 0
    assert load_config(path, ["rl.data=null"]).data == load_config(None, NEEDED).data
    assert dict(load_config(path, ["rl.reward_stage.weights.gsm8k=null"]).reward_stage.weights) == {
        "length.chars": -0.5
    }
    assert dict(load_config(path, ["rl.reward_stage.weights=null"]).reward_stage.weights) == {}
    bare = load_config(written("run.yaml", "rl:\n  reward: gsm8k\n  group_size: 8\n  data:\n  run: ~\n"))
    assert bare == load_config(None, NEEDED)
    assert faults_of(path, "rl.group_size=null")[0].startswith("rl.group_size: missing; expected a whole number")


def test_flags_win_over_everything(written: Callable[..., Path]) -> None:
    """What a command's flags gave comes last, and says so."""
    flags = {"rl.group_size": given(16, "--group-size"), "rl.reward": given(["a", "b"], "--reward")}
    resolved = resolve_config(written("run.toml", TOML), ["rl.group_size=8"], flags)
    assert (resolved.config.group_size, resolved.config.reward) == (16, ("a", "b"))
    assert resolved.origins["rl.group_size"] == "--group-size"


def test_every_value_knows_where_it_came_from(written: Callable[..., Path]) -> None:
    """File and line, the override's text, or nothing where the default holds."""
    path = written("run.toml", TOML)
    origins = resolve_config(path, ["rl.run.name=first", "rl.reward_stage.weights.gsm8k=1"]).origins
    assert origins == {
        "rl.reward": f"{path}:3",
        "rl.group_size": f"{path}:4",
        "rl.data.path": f"{path}:7",
        "rl.data.seed": f"{path}:8",
        "rl.data.source": "default for this path",
        "rl.reward_stage.weights.length.chars": f"{path}:12",
        "rl.reward_stage.weights.gsm8k": "override rl.reward_stage.weights.gsm8k=1",
        "rl.run.name": "override rl.run.name=first",
    }


def test_all_faults_come_at_once(written: Callable[..., Path]) -> None:
    """Those of the file, of the overrides, of keys and of values, each with key, place, expectation and fix."""
    path = written(
        "run.yaml",
        """
rl:
  reward: [gsm8k, bad name, 3]
  group_size: "8"
  mask_truncated: yes
  accept_identity: ABC
  data: {path: rows.jsonl, items_fn: my:fn, seed: -1, zzz: 1}
  reward_stage:
    estimator: groupnorm
    max_dropped_fraction: 1.5
    weights: {a b: 1, c: heavy}
  validation: {n_generation: 4.0}
xxxxx: 1
""",
    )
    # Place and end of each fault: syntax, then keys in the order of the sources, then values in that of the keys.
    expected = {
        "override rl.run.directory=: no value": "rl.run.directory='\"\"' for the empty text",
        "override run.toml: expected KEY=VALUE": "a file is no override",
        # Nothing is like zzz.
        "rl.data.zzz (run.yaml:7): unknown key; the keys of rl.data are path": "completion_token_count_column",
        "xxxxx (run.yaml:13): unknown key": "every key begins with rl, for example rl.group_size",
        "rl.reward[1] (run.yaml:3): provider name 'bad name' (str)": "after a first letter or digit",
        "rl.reward[2] (run.yaml:3): expected the name of a provider or a list": "got 3 (int): put it in quotes",
        "rl.group_size (run.yaml:4): expected a whole number of at least 1": "got '8' (str): write 8 without quotes",
        "rl.mask_truncated (run.yaml:5): expected true or false": "got 'yes' (str): write true",
        "rl.accept_identity (run.yaml:6): expected the SHA-256 of an identity": "digits in lower case, got 'ABC'",
        "rl.data.items_fn (run.yaml:7): only rows of a Hugging Face source": "or set rl.data.source=hf",
        "rl.data.seed (run.yaml:7): expected a whole number from 0 to 4294967295": "got -1 (int)",
        "rl.reward_stage.weights.a b (run.yaml:11): term name 'a b' (str)": "after a first letter or digit",
        "rl.reward_stage.weights.c (run.yaml:11): expected a finite number": "got 'heavy' (str)",
        "rl.reward_stage.weights.c.d (override rl.reward_stage.weights.c.d=.5): expected": "'.5' (str): write 0.5",
        "rl.reward_stage.estimator (run.yaml:9): expected one of group_norm": "did you mean group_norm?",
        "rl.reward_stage.max_dropped_fraction (run.yaml:10): expected a number from 0 to 1": "got 1.5 (float)",
        "rl.validation.n_generation (run.yaml:12): expected": "got 4.0 (float): write 4",
        "rl.run.name (override rl.run.name=a/b): expected letters": "it names a folder, got 'a/b'",
    }
    told = faults_of(path, "rl.run.name=a/b", "rl.run.directory=", "rl.reward_stage.weights.c.d=.5", "run.toml")
    assert len(told) == len(expected)
    for fault, (start, end) in zip(told, expected.items(), strict=True):
        assert fault.startswith(start)
        assert fault.endswith(end)


def test_more_than_twenty_faults_are_all_listed() -> None:
    """None of them is only counted."""
    assert len(faults_of(None, *(f"x{index}=1" for index in range(30)), *NEEDED)) == 30


def test_what_is_missing_is_named_with_an_example() -> None:
    """A config without the keys that have no default says which, and how to give them."""
    assert faults_of(None) == [
        "rl.reward: missing; expected the name of a provider or a list of names, for example rl.reward=gsm8k",
        "rl.group_size: missing; expected a whole number of at least 1, for example rl.group_size=8",
    ]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("rl.group_sze", "unknown key; did you mean rl.group_size?"),
        ("rl.group-size", "unknown key; did you mean rl.group_size?"),
        ("rl.Group_Size", "unknown key; did you mean rl.group_size?"),
        ("+rl.group_size", "unknown key; did you mean rl.group_size?"),
        ("group_size", "unknown key; did you mean rl.group_size?"),
        ("reward", "unknown key; did you mean rl.reward?"),
        ("r1.reward", "unknown key; did you mean rl.reward?"),
        ("rl.estimator", "unknown key; did you mean rl.reward_stage.estimator?"),
        ("rl.weights", "unknown key; did you mean rl.reward_stage.weights?"),
        ("rl.weights.task", "unknown key; did you mean rl.reward_stage.weights?"),
        ("rl.data.prompt", "unknown key; did you mean rl.data.prompt_column?"),
        ("rl.validation.n_generations", "unknown key; did you mean rl.validation.n_generation?"),
        ("rl.validaton.enabled", "unknown key; did you mean rl.validation.enabled?"),
        ("rl.validaton.zzz", "unknown key; did you mean rl.validation?"),
        ("rl.reward.name", "unknown key: rl.reward holds a value, and no keys"),
        ("rl.data.path.name", "unknown key: rl.data.path holds a value, and no keys"),
        ("rl.run.zzz", "unknown key; the keys of rl.run are name, directory"),
        ("rl.", "unknown key; the keys of rl are reward"),
        ("rl..reward", "unknown key; did you mean rl.reward?"),
        ("trainer", "unknown key; every key begins with rl, for example rl.group_size"),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, told: str) -> None:
    """A slip is answered with the key that was probably meant, wherever it stands, or with those that there are."""
    (fault,) = faults_of(None, f"{key}=8", *NEEDED)
    assert told in fault


def test_a_dotted_key_in_a_yaml_file_is_explained(written: Callable[..., Path]) -> None:
    """In a file a key is one name; the known key of that spelling is not named as if it were another."""
    path = written("run.yaml", "rl.group_size: 8\nrl:\n  reward: gsm8k\n  data.path: x\n")
    first, second, third = faults_of(path)
    told = "a dotted key is one name in here; nest its parts instead, as in"
    assert first == f"rl.group_size (run.yaml:1): {told} rl: group_size: ..."
    assert second == f"rl.data.path (run.yaml:4): {told} data: path: ..."
    assert third.startswith("rl.group_size: missing")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("rl=5", "rl (override rl=5): expected the keys reward, reward_catalog"),
        ("rl.data=x", "rl.data (override rl.data=x): expected the keys path, source"),
        ("rl.data=[a]", "got ['a'] (list)"),
        ("rl.reward_stage.weights=2", "expected a mapping from term to number, got 2 (int)"),
        ("rl.reward_stage.weights=[a]", "expected a mapping from term to number, got ['a'] (list)"),
        ("rl.reward_stage.weights={a:1}", "after a first letter or digit: put a space behind the colon"),
        ("rl.reward_stage.weights={a: {b: 1}}", "expected a finite number, got {'b': 1} (dict)"),
        ("rl.reward={a: b}", "expected the name of a provider or a list of names, got {'a': 'b'} (dict)"),
        ("rl.reward=[]", "expected the name of a provider or a list of names, got an empty list"),
        ("rl.reward=[a, b, a]", "'a' stands twice: name each provider once"),
        ("rl.reward=final", "provider name 'final' is reserved"),
        ("rl.reward='${REWARD}'", "provider name '${REWARD}' (str): expected letters"),
    ],
)
def test_a_value_of_the_wrong_shape_is_named(override: str, told: str) -> None:
    """Sections, mappings and names that are none."""
    assert any(told in fault for fault in faults_of(None, *NEEDED, override))


def test_an_unreadable_file_is_one_fault_beside_those_of_the_overrides(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    """Of a file that can't be read nobody knows what it leaves out: nothing is called missing."""
    cases = {
        written("run.json", "{}"): "run.json: expected a file that ends in .toml, .yaml, .yml",
        written("run.toml", "rl = \n"): "run.toml:1: no valid TOML: Invalid value, in column 6",
        written(
            "run.yaml", "rl: [\n"
        ): "run.yaml:2: no valid YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
        written("bytes.toml", b"a = 1\nb = '\xff'\n"): "bytes.toml:2: no UTF-8: the byte 0xff; save the file as UTF-8",
        tmp_path / "none.toml": "none.toml: can't be read: No such file or directory",
    }
    (tmp_path / "folder.toml").mkdir()
    cases[tmp_path / "folder.toml"] = "folder.toml: can't be read: Is a directory"
    for path, fault in cases.items():
        assert faults_of(path, "rl.data.seed=x") == [
            fault,
            "rl.data.seed (override rl.data.seed=x): expected a whole number from 0 to 4294967295, got 'x' (str)",
        ]


def test_nothing_is_interpolated(written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`${...}` is refused by name, since nobody means it literally; a dollar sign alone is text, and stays."""
    monkeypatch.setenv("TOKEN", "tok-TEST-222")
    path = written("run.yaml", "rl:\n  reward: gsm8k\n  group_size: 8\n  data: {path: '${oc.env:TOKEN}/x'}\n")
    (fault,) = faults_of(path)
    assert fault == (
        "rl.data.path (run.yaml:4): ${oc.env:TOKEN} would stay as it is, since nothing is interpolated: "
        "write the value, or let the shell put it in"
    )
    resolved = resolve_config(path, ["rl.data.path=$TOKEN/%(TOKEN)s/{{TOKEN}}/x"])
    assert resolved.config.data.path == "$TOKEN/%(TOKEN)s/{{TOKEN}}/x"
    assert "tok-TEST-222" not in resolved.to_toml()


@pytest.mark.parametrize("place", ["file", "override", "explicit", "explicit override"])
def test_a_catalog_file_is_beside_the_config_that_names_it(
    written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Relative to the config's folder, to the working directory for an override, or to the folder that is named."""
    monkeypatch.chdir(tmp_path)
    text = 'rl.reward = "gsm8k"\nrl.group_size = 8\n'
    if place == "file":
        path, overrides = written("conf/run.toml", f'{text}rl.reward_catalog = "my.py:catalog"\n'), []
        folder, origin = tmp_path / "conf", f"from {path}:3"
    elif place == "override":
        path, overrides = written("conf/run.toml", text), ["rl.reward_catalog=my.py:catalog"]
        folder, origin = tmp_path, "from override rl.reward_catalog=my.py:catalog"
    elif place == "explicit":
        text += 'rl.reward_catalog = "my.py:catalog"\nrl.reward_catalog_folder = "../elsewhere"\n'
        path, overrides = written("conf/run.toml", text), []
        folder, origin = tmp_path / "conf" / ".." / "elsewhere", f"{path}:4"
    else:
        path, overrides = (
            written("conf/run.toml", f'{text}rl.reward_catalog = "my.py:catalog"\n'),
            ["rl.reward_catalog_folder=elsewhere"],
        )
        folder, origin = tmp_path / "elsewhere", "override rl.reward_catalog_folder=elsewhere"
    resolved = resolve_config(path, overrides)
    assert resolved.config.reward_catalog == "my.py:catalog"
    assert resolved.config.reward_catalog_folder == str(folder)
    assert resolved.config.catalog_path == f"{folder}/my.py:catalog"
    assert resolved.origins["rl.reward_catalog_folder"] == origin


def test_the_folder_of_one_catalog_is_not_used_for_another(
    written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolved config names its folder; a catalog that is typed over it is found where the shell stands."""
    monkeypatch.chdir(tmp_path)
    text = 'rl = { reward = "a", group_size = 8, reward_catalog_folder = "/old", reward_catalog = "a.py:b" }\n'
    path = written("conf/run.toml", text)

    def folder(*overrides: str, **flags: str) -> str | None:
        nodes = {f"rl.{key}": given(value, "--flag") for key, value in flags.items()}
        return resolve_config(path, overrides, nodes).config.reward_catalog_folder

    assert folder() == "/old"
    assert folder("rl.group_size=4") == "/old"
    assert folder("rl.reward_catalog=c.py:d") == str(tmp_path)
    assert folder(reward_catalog="c.py.d") == str(tmp_path)
    assert folder("rl.reward_catalog=c.d:e") is None
    for overrides in (["rl.reward_catalog=c.py:d", "rl.reward_catalog_folder=/new"], ["rl.reward_catalog_folder=/new"]):
        assert folder(*overrides) == folder(*overrides[::-1]) == "/new"


def test_a_catalog_module_has_no_folder(written: Callable[..., Path]) -> None:
    """Where the catalog is imported by name, nothing is relative."""
    config = load_config(written("run.toml", f"{TOML}\n[rl.run]\nname = 'a'\n"), ["rl.reward_catalog=my.rewards:all"])
    assert config.reward_catalog_folder is None
    assert config.catalog_path == "my.rewards:all"


def test_the_config_is_not_loaded_with_the_package(fresh_python: Callable[[str], str]) -> None:
    """Runs, offline scoring and the reward core load neither pydantic nor YAML; the names are there all the same."""
    program = """
import json, sys
import posttrain.rewards, posttrain.runs, posttrain.runs.offline
heavy = sorted({"pydantic", "yaml", "tomllib"} & set(sys.modules))
config = posttrain.runs.load_config(None, ["rl.reward=gsm8k", "rl.group_size=8"])
print(json.dumps([heavy, type(config) is posttrain.runs.RLConfig, hasattr(posttrain.runs, "nothing")]))
"""
    assert json.loads(fresh_python(program)) == [[], True, False]


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """The lazy export behaves like any module."""
    from posttrain import runs

    with pytest.raises(AttributeError, match=re.escape("module 'posttrain.runs' has no attribute 'load_confg'")):
        _: Any = runs.load_confg
