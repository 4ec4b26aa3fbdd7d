"""Words that say nothing of a picture by themselves: their attention is not rated."""

from __future__ import annotations

from collections.abc import Sequence

# Articles, pronouns, prepositions, conjunctions, auxiliaries and the adverbs that go with them, of English.
STOP_WORDS = frozenset(
    """
    a an the this that these those some any each every either neither no all both such other another
    i me my mine you your yours he him his she her hers it its we us our ours they them their theirs himself herself
    itself themselves who whom whose which what there here
    about above across after against along among amongst around as at before behind below beneath beside besides between
    beyond by down during for from in inside into near next of off on onto out outside over past per through throughout
    to toward towards under underneath until up upon via with within without
    and but or nor so yet if than then because while when where whether although though
    am is are was were be been being do does did doing done has have had having can could may might must shall should
    will would 's 're 've 'll 'd 'm n't not
    very too also just only again once more most much many few own same how why
    """.split()
)


def find_content_words(words: Sequence[str]) -> list[int]:
    """Return the indices of the words that are no stop words, no punctuation and no mark such as ``<unk>``.

    >>> find_content_words(["A", "dog", "is", "on", "the", "<unk>", "grass", "."])
    [1, 6]
    """
    return [
        index
        for index, word in enumerate(words)
        if word.lower() not in STOP_WORDS and not word.startswith("<") and any(map(str.isalnum, word))
    ]
