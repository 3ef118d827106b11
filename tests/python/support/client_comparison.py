"""Compares the results of clients with those of a `Highlighter`."""

import numpy as np

from pullquote import Highlights

TEXTS = ["Bread is baked from flour.", "The moon is white.", "漢字とかな 🎉", ""]
HTML = "<h1>Bread</h1><p>Caf&eacute;s bake it from <b>flour</b>. Ovens are hot.</p><p>The moon is white.</p>"
COLUMNS = ("spans", "contexts", "headers", "sources", "pages", "queries", "windows", "windows_scored")
SCORES = ("scores", "cosines", "bm25_scores")


def assert_same(ours: Highlights, theirs: Highlights) -> None:
    for name in COLUMNS:
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    for name in SCORES:
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        assert np.allclose(getattr(ours, name), getattr(theirs, name), atol=2e-5), name
    assert (ours.texts, ours.formats, len(ours)) == (theirs.texts, theirs.formats, len(theirs))
    for our_list, their_list in zip(ours, theirs, strict=True):
        for our, their in zip(our_list, their_list, strict=True):
            assert (our.text, our.before, our.after, our.header, our.matches) == (
                their.text,
                their.before,
                their.after,
                their.header,
                their.matches,
            )
    assert (ours.work.windows, ours.work.truncated) == (theirs.work.windows, theirs.work.truncated)
