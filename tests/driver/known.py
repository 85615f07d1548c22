"""Differences that are known: a comparison that finds others fails, and so does one that no longer finds these."""
import re

import pytest


def judge(differences, known):
    """`differences` are lines of text; `known` maps the name of a defect to a regular expression of its lines. With
    known ones alone the test is an expected failure; a defect without a line has been mended and must be taken out."""
    unknown = [line for line in differences if not any(re.search(pattern, line) for pattern in known.values())]
    assert not unknown, "\n".join([f"{len(unknown)} differences:", *unknown[:40]])
    mended = [name for name, pattern in known.items() if not any(re.search(pattern, line) for line in differences)]
    assert not mended, f"mended, so take it out of the list of known differences: {mended}"
    if known:
        pytest.xfail(f"{len(differences)} known differences: {', '.join(known)}")
