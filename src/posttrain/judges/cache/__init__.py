# SPDX-License-Identifier: Apache-2.0
"""Recorded answers of a judge, in one SQLite file."""

from posttrain.judges.cache.answers import AnswerCache, RecordedAnswer, answer_key
from posttrain.judges.cache.export import export_jsonl

__all__ = ["AnswerCache", "RecordedAnswer", "answer_key", "export_jsonl"]
