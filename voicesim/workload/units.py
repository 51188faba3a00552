"""A reply's sentences become the units that the TTS engine is given, by the segmenter's rules."""

from dataclasses import dataclass

import numpy as np

from voicesim.scenario.pipeline import Segmenter

CHARS_PER_TOKEN = 4
"""English text, as OpenAI counts (https://help.openai.com/en/articles/4936856)."""


@dataclass(frozen=True)
class Pieces:
    """N stretches of text, in order, each of one of R replies.

    reply: int64[N], not falling.  tokens: int64[N], >= 1.  seconds: float64[N], their speech.
    """

    reply: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray

    def joined(self, last: np.ndarray) -> "Pieces":
        """Neighbours put together up to where ``last`` (bool[N]) says that one ends."""
        start = np.concatenate(([0], np.flatnonzero(last)[:-1] + 1))
        return Pieces(
            self.reply[last],
            np.add.reduceat(self.tokens, start),
            np.add.reduceat(self.seconds, start),
        )

    def split(self, into: np.ndarray) -> "Pieces":
        """Each cut evenly into so many (int64[N]), of at least one token."""
        into = np.minimum(np.maximum(1, into), self.tokens)
        row = np.repeat(np.arange(len(into)), into)
        place = np.arange(len(row)) - np.repeat(np.cumsum(into) - into, into)
        ends = (place + 1) * self.tokens[row] // into[row]
        tokens = ends - place * self.tokens[row] // into[row]
        seconds = self.seconds[row] * tokens / self.tokens[row]
        return Pieces(self.reply[row], tokens, seconds)

    @property
    def ends_reply(self) -> np.ndarray:
        """bool[N]: the last piece of its reply."""
        return np.append(self.reply[1:] != self.reply[:-1], True)[: len(self.reply)]

    @property
    def starts_reply(self) -> np.ndarray:
        """bool[N]: the first piece of its reply."""
        return np.append(True, self.reply[1:] != self.reply[:-1])[: len(self.reply)]

    @property
    def place(self) -> np.ndarray:
        """int64[N]: number within its reply."""
        first = np.flatnonzero(self.starts_reply)
        sizes = np.diff(np.append(first, len(self.reply)))
        return np.arange(len(self.reply)) - np.repeat(first, sizes)

    @property
    def upto(self) -> np.ndarray:
        """int64[N]: tokens of its reply up to its end."""
        total = np.cumsum(self.tokens)
        first = np.flatnonzero(self.starts_reply)
        sizes = np.diff(np.append(first, len(self.reply)))
        return total - np.repeat(total[first] - self.tokens[first], sizes)

    def shortened(self, most: np.ndarray) -> "Pieces":
        """Each reply cut after so many tokens (int64[R], >= 1)."""
        over = self.upto - most[self.reply]
        if not np.any(over > 0):
            return self
        tokens = self.tokens - np.maximum(0, over)
        keep = tokens > 0
        seconds = self.seconds * tokens / self.tokens
        return Pieces(self.reply[keep], tokens[keep], seconds[keep])


def segmented(sentences: Pieces, rules: Segmenter, whole: bool = False) -> Pieces:
    """The units of speech; ``whole``: one for each reply, whatever the rules."""
    if not len(sentences.reply):
        return sentences
    if whole or rules.unit == "reply":
        return sentences.joined(sentences.ends_reply)
    pieces = sentences
    if rules.unit == "phrase":
        pieces = pieces.split(np.rint(pieces.seconds / rules.phrase).astype(np.int64))
    if rules.unit == "two_sentences":
        pieces = pieces.joined(pieces.ends_reply | (pieces.place % 2 == 1))
    opening = np.zeros(len(pieces.reply), dtype=bool)
    if rules.first is not None:
        pieces, opening = _opened(pieces, rules.first)
    least = -(-rules.min_chars // CHARS_PER_TOKEN)
    return pieces.joined(_closing(pieces, opening, least, rules.later or 0.0))


def _opened(pieces: Pieces, first: float) -> tuple[Pieces, np.ndarray]:
    """Openings longer than ``first`` seconds cut there; bool[N]: the cut-off beginnings."""
    long = pieces.starts_reply & (pieces.seconds > first) & (pieces.tokens > 1)
    row = np.repeat(np.arange(len(long)), 1 + long)
    head = np.append(row[1:] == row[:-1], False)
    rest = np.append(False, row[1:] == row[:-1])
    whole = pieces.tokens[row]
    cut = np.clip(
        (first * whole / pieces.seconds[row]).astype(np.int64), 1, np.maximum(1, whole - 1)
    )
    tokens = np.where(head, cut, np.where(rest, whole - cut, whole))
    seconds = pieces.seconds[row] * tokens / whole
    return Pieces(pieces.reply[row], tokens, seconds), head


def _closing(pieces: Pieces, opening: np.ndarray, least: int, later: float) -> np.ndarray:
    """bool[N]: a unit ends with the piece.

    It does at the end of the reply, after a cut-off beginning, and once it has ``least`` tokens
    and, unless it is the reply's first, ``later`` seconds.
    """
    last = pieces.ends_reply
    first = np.flatnonzero(pieces.starts_reply)
    sizes = np.diff(np.append(first, len(last)))
    tokens, seconds = np.zeros(len(first), dtype=np.int64), np.zeros(len(first))
    units = np.zeros(len(first), dtype=np.int64)
    closing = last | opening
    rows = np.arange(len(first))
    for place in range(int(sizes.max())):
        rows = rows[sizes[rows] > place]
        at = first[rows] + place
        tokens[rows] += pieces.tokens[at]
        seconds[rows] += pieces.seconds[at]
        enough = (tokens[rows] >= least) & ((units[rows] == 0) | (seconds[rows] >= later))
        closing[at] |= enough
        done = rows[closing[at]]
        tokens[done], seconds[done] = 0, 0.0
        units[done] += 1
    return closing


def known_after(units: Pieces, lookahead: int) -> np.ndarray:
    """int64[N]: reply tokens after which each unit is known to be complete, rising in a reply.

    Its own last token and ``lookahead`` more, the end of the reply at the latest.
    """
    end = units.upto
    last = np.flatnonzero(units.ends_reply)
    sizes = np.diff(np.append(-1, last))
    total = np.repeat(end[last], sizes)
    to_come = np.repeat(last, sizes) - np.arange(len(end))  # units after it in the reply
    return np.minimum(end + lookahead, total - to_come)
