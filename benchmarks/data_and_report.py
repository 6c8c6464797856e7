# SPDX-License-Identifier: Apache-2.0
"""What surrounds the stage: loading rows, building a report, preflight. Runs the three benchmarks one after the other.

    python benchmarks/data_and_report.py

Each prints ratios measured in its own run: rows through the loader and Env beside plain `json.loads` and `datasets`
alone, and the memory of a million rows (`data_loading.py`); build time and size of a report of 20,000 candidates
(`report_build.py`); preflight of a built-in provider (`preflight_time.py`). Their options are their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PARTS = ("data_loading.py", "report_build.py", "preflight_time.py")


def main() -> None:
    """Run every part with its defaults; stop at the first that fails."""
    for part in PARTS:
        print(f"== {part}", flush=True)
        subprocess.run([sys.executable, Path(__file__).with_name(part)], check=True)


if __name__ == "__main__":
    main()
