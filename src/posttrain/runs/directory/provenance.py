# SPDX-License-Identifier: Apache-2.0
"""What made the scores of a run, and what had made those before it. Portable: no machine path, no environment."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, final

import msgspec

from posttrain import __version__
from posttrain.errors import RewardConfigError, listing
from posttrain.frozen import freeze, thaw
from posttrain.rewards import ProviderIdentity, StageIdentity
from posttrain.rewards.catalog.fingerprint import SourceFingerprint, changed_without_revision, fingerprint_provider
from posttrain.rewards.stage.stage import RewardStage

__all__ = ["Ancestor", "Provenance", "read_provenance"]

_FORMAT: Final = 1


@final
class Ancestor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an earlier part of a run was made with."""

    until_step: int | None
    """The last step that was recorded under it; None: none was."""
    posttrain: str
    python: str
    stage_sha256: str
    stage: StageIdentity
    sources: tuple[SourceFingerprint, ...]


@final
class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run is made with. Made by `Provenance.of`."""

    format: int = _FORMAT
    posttrain: str
    """Version of Posttrain."""
    python: str
    """Version of Python."""
    providers: tuple[ProviderIdentity, ...]
    """Catalog path, name, revision and identity SHA-256 of each provider, those of the validation included."""
    sources: tuple[SourceFingerprint, ...]
    """A fingerprint of the source of each, in the same order."""
    stage_sha256: str
    stage: StageIdentity
    """The training stage's identity."""
    data: dict[str, Any]
    """What the caller says of the training data: names, digests, counts."""
    lineage: tuple[Ancestor, ...] = ()
    """What the earlier parts of the run were made with, oldest first."""

    @classmethod
    def of(
        cls, stage: RewardStage, *, validation: tuple[str, ...] = (), data: Mapping[str, Any] | None = None
    ) -> Provenance:
        """What a run with this stage is made with.

        Args:
            stage: the training stage, of a `RewardWorker`.
            validation: names of the providers of the held-out validation; those of the training need no mention.
            data: JSON mapping that tells the training data apart, without paths of this machine.

        Raises:
            RewardConfigError: `data` or a catalog's path holds an absolute path; each place is named.
            RewardContractError: `data` is no JSON.
        """
        catalog = stage.selection.catalog
        names = tuple(dict.fromkeys((*stage.selection.names, *validation)))
        identity = stage.identity
        made = cls(
            posttrain=__version__,
            python=platform.python_version(),
            providers=tuple(catalog.identity(name) for name in names),
            sources=tuple(fingerprint_provider(name, catalog.spec(name)) for name in names),
            stage_sha256=identity.sha256,
            stage=identity,
            data=thaw(freeze({} if data is None else data, "data")),
        )
        if faults := [*_machine_paths(made.data, "data"), *_catalog_faults(made)]:
            raise RewardConfigError(
                f"a run's record is to be read on other machines, and these are paths of this one:\n{listing(faults)}"
            )
        return made

    def encode(self) -> bytes:
        """The file's content: JSON for people too."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def succeeds(self, earlier: Provenance, until_step: int | None) -> Provenance:
        """This one as what follows `earlier`, which joins the lineage if it differs in anything but the data."""
        lineage = earlier.lineage
        if _essentials(earlier) != _essentials(self):
            lineage = (*lineage, earlier.as_ancestor(until_step))
        return msgspec.structs.replace(self, lineage=lineage)

    def as_ancestor(self, until_step: int | None) -> Ancestor:
        """What is kept of this one when another takes its place."""
        return Ancestor(
            until_step=until_step,
            posttrain=self.posttrain,
            python=self.python,
            stage_sha256=self.stage_sha256,
            stage=self.stage,
            sources=self.sources,
        )

    def under(self, stage: StageIdentity, until_step: int | None) -> Provenance:
        """The same with another stage identity, and this one in its lineage.

        Nothing is known of the source of a provider that is another now, so its fingerprint is left out.
        """
        kept = {each.provider for each in stage.providers if each in self.providers}
        others = [each for each in self.providers if each.provider not in {its.provider for its in stage.providers}]
        kept |= {each.provider for each in others}
        return msgspec.structs.replace(
            self,
            stage=stage,
            stage_sha256=stage.sha256,
            providers=(*stage.providers, *others),
            sources=tuple(each for each in self.sources if each.provider in kept),
            lineage=(*self.lineage, self.as_ancestor(until_step)),
        )

    def warnings_after(self, earlier: Provenance) -> list[str]:
        """One line for each provider whose source is another than in `earlier` under the same revision."""
        recorded = {each.provider: each for each in earlier.sources}
        pairs = [(recorded[each.provider], each) for each in self.sources if each.provider in recorded]
        return [line for pair in pairs if (line := changed_without_revision(*pair)) is not None]


def read_provenance(path: Path) -> Provenance:
    """Read what `Provenance.encode` wrote.

    Raises:
        RewardConfigError: the file can't be read, is damaged, or is of another format.
    """
    try:
        record = msgspec.json.decode(path.read_bytes())
        version = record.get("format") if isinstance(record, dict) else None
        if version != _FORMAT:
            raise RewardConfigError(f"{path} has format {version!r}, and this version of Posttrain reads {_FORMAT}")
        found = msgspec.convert(record, Provenance)
    except OSError as error:
        raise RewardConfigError(f"can't read {path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RewardConfigError(f"{path} is no record of a run: {error}") from error
    if found.stage.sha256 != found.stage_sha256:
        raise RewardConfigError(f"{path} is damaged: the stage identity in it is not that of its SHA-256")
    return found


def _essentials(made: Provenance) -> tuple[object, ...]:
    return made.posttrain, made.python, made.stage_sha256, made.providers, made.sources


def _catalog_faults(made: Provenance) -> Iterator[str]:
    for catalog in dict.fromkeys(each.catalog for each in made.providers):
        if catalog is not None and _is_absolute(catalog):
            yield f"catalog {catalog!r}: give the file relative to the config's folder, or make it an importable module"


def _machine_paths(value: Any, path: str) -> Iterator[str]:
    """Every text in a JSON value that is an absolute path, by its place."""
    if isinstance(value, str):
        if _is_absolute(value):
            yield f"{path}: {value!r}; record the file's name and digest"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _machine_paths(key, f"{path}, key")
            yield from _machine_paths(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _machine_paths(item, f"{path}[{index}]")


def _is_absolute(text: str) -> bool:
    posix = PurePosixPath(text)
    return (posix.is_absolute() and len(posix.parts) > 1) or PureWindowsPath(text).is_absolute() or text[:2] == "~/"
