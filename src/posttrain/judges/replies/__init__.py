# SPDX-License-Identifier: Apache-2.0
"""What a judge's reply says: the last verdict in its text, read strictly."""

from posttrain.judges.replies.fields import number_in, text_of_key, whole_number_in, with_exactly
from posttrain.judges.replies.verdict import PARSER_VERSION, last_verdict

__all__ = ["PARSER_VERSION", "last_verdict", "number_in", "text_of_key", "whole_number_in", "with_exactly"]
