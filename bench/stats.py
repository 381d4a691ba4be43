"""stats.py -- medians, ratios and their confidence intervals.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np


def ratio(ours, theirs, resamples=2000, level=0.95):
    """(theirs / ours, low, high) of medians. Each side is a list of blocks, taken in turns; pairs of blocks are
    drawn with replacement, so that what moves both sides (clock, neighbours) is kept together."""
    n = min(len(ours), len(theirs))
    point = np.median(np.concatenate(theirs[:n])) / np.median(np.concatenate(ours[:n]))
    if n < 3:
        return point, float("nan"), float("nan")
    random = np.random.default_rng(1)
    found = []
    for _ in range(resamples):
        pick = random.integers(0, n, n)
        a = np.concatenate([ours[i] for i in pick])
        b = np.concatenate([theirs[i] for i in pick])
        found.append(np.median(b) / np.median(a))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return point, float(low), float(high)


def geometric_mean(values):
    values = [v for v in values if v and np.isfinite(v)]
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def worst_error(found, wanted):
    """The largest difference of any output, relative to that output's largest magnitude; inf where types of values,
    shapes or infinities disagree, None where nothing could be compared."""
    worst = None
    for name, b in wanted.items():
        a = found.get(name)
        if b is None or a is None:
            continue
        worst = max(worst or 0.0, error_of(np.asarray(a), np.asarray(b)))
    return worst


def error_of(a, b):
    if a.shape != b.shape:
        return float("inf")
    if b.dtype.kind in "OSU":
        return 0.0 if [str(x) for x in a.ravel()] == [str(x) for x in b.ravel()] else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    scale = np.abs(b[finite]).max(initial=0)
    return float(np.abs(a[finite] - b[finite]).max(initial=0) / (scale or 1))
