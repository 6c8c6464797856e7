# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run: one HTML file, and what two scorings of the same rollouts differ in."""

from posttrain.report.build import Report, build_report, write_report
from posttrain.report.reading import Scores, open_scores

__all__ = ["Report", "Scores", "build_report", "open_scores", "write_report"]
