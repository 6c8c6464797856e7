# SPDX-License-Identifier: Apache-2.0
"""A decoded clip on its way to the spool file: check, transform and write, beside the plain way and the limit.

    python benchmarks/media_path.py [--shape 1 3 121 704 1280] [--repeats 5] [--ranks 8] [--directory DIR]

The limit reads every float once and writes as many ready bytes, both in one thread. The plain way checks, clamps,
scales, rounds and converts the whole tensor step by step, then saves it. The rows take turns. Memory is the peak above
the input, read from the kernel in a process of its own for each row. With `--ranks` so many processes spool at once
while this one looks for files by name and counts those without one. Ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, TypeAlias

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from posttrain.media.spool import SpoolFile
from posttrain.media.transform import check_decoded, npy_header, sample_shape, write_pixels

Way: TypeAlias = Callable[[torch.Tensor, str], SpoolFile]


def clip(shape: list[int]) -> torch.Tensor:
    """Made-up pixels in [-1, 1]."""
    return torch.empty(shape, dtype=torch.float32).uniform_(-1.0, 1.0, generator=torch.Generator().manual_seed(20))


def fused(pixels: torch.Tensor, directory: str) -> SpoolFile:
    """The way of the adapters."""
    shape = sample_shape(check_decoded(pixels, "video"), "video")
    header = npy_header(shape)
    spool = SpoolFile(directory, len(header) + math.prod(shape))
    spool.write(header)
    write_pixels(pixels, "video", 1e-3, spool.write)
    return spool


def plain(pixels: torch.Tensor, directory: str) -> SpoolFile:
    """The whole tensor, step by step, then `numpy.save`."""
    if not bool(torch.isfinite(pixels).all()) or pixels.min() < -1.001 or pixels.max() > 1.001:
        raise ValueError("pixels out of range")
    array: np.ndarray[Any, Any] = ((pixels.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy()
    spool = SpoolFile(directory, array.nbytes)
    with os.fdopen(os.dup(spool.fileno()), "wb") as file:
        np.save(file, array, allow_pickle=False)
    return spool


def limit(pixels: torch.Tensor, directory: str) -> SpoolFile:
    """Read every float once, write as many ready bytes."""
    pixels.sum()
    spool = SpoolFile(directory, pixels.numel())
    ready = memoryview(_ready(pixels.numel()))
    for start in range(0, pixels.numel(), 1 << 20):
        spool.write(ready[start : start + (1 << 20)])
    return spool


_READY: list[np.ndarray[Any, Any]] = []


def _ready(count: int) -> Any:
    if not _READY or _READY[0].size != count:
        _READY[:] = [np.ones(count, np.uint8)]
    return _READY[0]


WAYS: dict[str, Way] = {"limit: read + write": limit, "fused (the adapters)": fused, "plain, with checks": plain}


def digest(spool: SpoolFile) -> str:
    """Of the file's bytes."""
    found = hashlib.sha256()
    at = 0
    while block := os.pread(spool.fileno(), 1 << 22, at):
        found.update(block)
        at += len(block)
    return found.hexdigest()


def resident_kib(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def memory_of(name: str, shape: list[int], directory: str) -> None:
    """Print the peak above the input of one way, in KiB; run in a process of its own."""
    small = clip([1, 3, 2, 64, 64])
    WAYS[name](small, directory).close()  # the library's own first allocations are not the way's
    pixels = clip(shape)
    _ready(pixels.numel() if name.startswith("limit") else 1)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident_kib("VmRSS")
    WAYS[name](pixels, directory).close()
    print(resident_kib("VmHWM") - before)


def one_rank(shape: list[int], directory: str) -> None:
    """Spool one sample, say so, and hold it until standard input ends."""
    spool = fused(clip(shape), directory)
    print("spooled", flush=True)
    sys.stdin.read()
    spool.close()


def ranks_at_once(count: int, shape: list[int], directory: str) -> None:
    """Print how many spool files `count` ranks hold at once, named and nameless, and what is left afterwards."""
    sizes = [f"{size}" for size in shape]
    command = [sys.executable, __file__, "--shape", *sizes, "--directory", directory, "--one-rank"]
    started = perf_counter()
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for child in children:
        if child.stdout is None or child.stdout.readline() != "spooled\n":
            raise RuntimeError(f"rank {child.pid} did not spool its sample")
    seconds = perf_counter() - started
    held = [each for child in children for each in _held_in(child.pid, directory)]
    named = len(list(Path(directory).iterdir()))
    for child in children:
        child.communicate()
    left = len(list(Path(directory).iterdir()))
    nbytes = math.prod(shape) + len(npy_header(tuple(shape)))
    print(f"\n{count} ranks at once: {len(held)} spool files, {sum(held):,} bytes (a sample has {nbytes:,})")
    print(f"  names in the folder: {named} while they are held, {left} afterwards; {seconds:.1f} s with their start")


def _held_in(pid: int, directory: str) -> list[int]:
    """Sizes of the files without a name that a process holds in a folder."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        target = str(each.readlink())
        if target.startswith(directory) and target.endswith("(deleted)"):
            found.append(each.stat().st_size)
    return found


def measure(shape: list[int], repeats: int, directory: str) -> None:
    """Print the table of times and memory, and whether the bytes are the same."""
    pixels = clip(shape)
    walls: dict[str, list[float]] = {name: [] for name in WAYS}
    works: dict[str, list[float]] = {name: [] for name in WAYS}
    digests = {}
    for repeat in range(repeats + 1):
        for name, way in WAYS.items():
            wall, work = perf_counter(), thread_time()
            spool = way(pixels, directory)
            wall, work = perf_counter() - wall, thread_time() - work
            if repeat:
                walls[name].append(wall)
                works[name].append(work)
            else:
                digests[name] = digest(spool)
            spool.close()
    del pixels
    command = [sys.executable, __file__, "--directory", directory, "--shape", *map(str, shape), "--memory-of"]
    print(f"  {'':22} {'wall s':>8} {'min':>7} {'cpu min':>8} {'x limit (min)':>14} {'extra MiB':>10}")
    best = min(walls["limit: read + write"])
    for name, laps in walls.items():
        kib = int(subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout)
        ratio = min(laps) / best
        print(
            f"  {name:22} {statistics.median(laps):8.3f} {min(laps):7.3f} {min(works[name]):8.3f} {ratio:14.2f} "
            f"{kib / 1024:10.1f}"
        )
    same = digests["fused (the adapters)"] == digests["plain, with checks"]
    print(f"  bytes of the fused and the plain way: {'identical' if same else 'DIFFERENT'}")


def main() -> None:
    """Measure, in this process and in children of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=5, default=[1, 3, 121, 704, 1280])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--directory", help="where to spool; by default a folder in the temporary directory")
    parser.add_argument("--memory-of", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--one-rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_of:
        memory_of(options.memory_of, options.shape, options.directory)
        return
    if options.one_rank:
        one_rank(options.shape, options.directory)
        return
    mib = math.prod(options.shape) * 4 / 2**20
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one thread, float32 {options.shape}")
    print(f"{mib:,.0f} MiB in, {mib / 4:,.0f} MiB out, {options.repeats} repeats")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        measure(options.shape, options.repeats, directory)
        if options.ranks:
            ranks_at_once(options.ranks, options.shape, directory)


if __name__ == "__main__":
    main()
