"""Byte-level BPE of the built-in model: training, encoding, decoding. Splits text as llama.cpp does for "smollm".

Merges are learned inside words only; then each piece that begins a word gets one more merge, with the space before it. So
" Zorblax" and "Zorblax" have the same pieces except the first, and copying a word means copying its pieces.
"""

import json
from collections import Counter, defaultdict

import regex

from template import CONTROL_TOKENS, MARKER_TOKENS

_PIECES = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N}|\Z)|\s+(?!\S)|\s+")
_SPECIALS = regex.compile("(" + "|".join(regex.escape(text) for text in CONTROL_TOKENS + MARKER_TOKENS) + ")")


def _byte_alphabet():
    """The printable stand-in for each byte that GPT-2's vocabulary files use."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


BYTE_TO_CHAR = _byte_alphabet()
CHAR_TO_BYTE = {char: byte for byte, char in BYTE_TO_CHAR.items()}
SPACE = BYTE_TO_CHAR[32]


def _spell(text):
    return tuple(BYTE_TO_CHAR[byte] for byte in text.encode("utf-8"))


def _join(symbols, pair):
    result, at = [], 0
    while at < len(symbols):
        if at + 1 < len(symbols) and (symbols[at], symbols[at + 1]) == pair:
            result.append(symbols[at] + symbols[at + 1])
            at += 2
        else:
            result.append(symbols[at])
            at += 1
    return tuple(result)


def train(texts, merge_count, space_count):
    """Returns the merges: `merge_count` inside words, then up to `space_count` of a space and a word's first piece."""
    counts = Counter()
    spaced = Counter()
    for text in texts:
        for part in _SPECIALS.split(text):
            if part in CONTROL_TOKENS or part in MARKER_TOKENS:
                continue
            for piece in _PIECES.findall(part):
                bare = piece[1:] if len(piece) > 1 and piece[0] == " " else piece
                counts[_spell(bare)] += 1
                if bare is not piece:
                    spaced[bare] += 1
    # Frequent words count less than linearly, so that rare names still shape the vocabulary.
    words = {spelled: max(1, round(count ** 0.75)) for spelled, count in counts.items() if len(spelled) > 1}
    originals = {spelled: spelled for spelled in words}
    merges = []
    pairs, places = Counter(), defaultdict(set)
    for origin, symbols in originals.items():
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += words[origin]
            places[pair].add(origin)
    made = set()
    while len(merges) < merge_count:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 2:
            break
        if best[0] + best[1] in made:  # another split of an existing token
            pairs[best] = 0
            continue
        made.add(best[0] + best[1])
        merges.append(best)
        for origin in places.pop(best):
            before, after = originals[origin], _join(originals[origin], best)
            for pair in zip(before, before[1:]):
                pairs[pair] -= words[origin]
            for pair in zip(after, after[1:]):
                pairs[pair] += words[origin]
                places[pair].add(origin)
            originals[origin] = after
        del pairs[best]
    starts = Counter()
    for bare, count in spaced.items():
        starts[originals.get(_spell(bare), _spell(bare))[0]] += count
    return merges + [(SPACE, piece) for piece, _ in sorted(starts.items(), key=lambda item: (-item[1], item[0]))[:space_count]]


class Tokenizer:
    """Token ids are: control tokens, markers, the 256 bytes, then one token per merge in order."""

    def __init__(self, merges):
        self.merges = [tuple(pair) for pair in merges]
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.tokens = CONTROL_TOKENS + MARKER_TOKENS + [BYTE_TO_CHAR[byte] for byte in range(256)]
        self.first_merge = len(self.tokens)
        self.tokens += [left + right for left, right in self.merges]
        self.ids = {token: at for at, token in enumerate(self.tokens)}
        assert len(self.ids) == len(self.tokens), "two merges make the same token"
        self.specials = {token: self.ids[token] for token in CONTROL_TOKENS + MARKER_TOKENS}
        self.cache = {}

    def _piece(self, piece):
        symbols = _spell(piece)
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = _join(symbols, best)
        return [self.ids[symbol] for symbol in symbols]

    def encode(self, text):
        """Token ids of `text`; texts of special tokens become those tokens."""
        result = []
        for part in _SPECIALS.split(text):
            if part in self.specials:
                result.append(self.specials[part])
                continue
            for piece in _PIECES.findall(part):
                known = self.cache.get(piece)
                if known is None:
                    known = self._piece(piece)
                    if len(self.cache) < 200_000:
                        self.cache[piece] = known
                result.extend(known)
        return result

    def decode(self, ids):
        out = bytearray()
        for token in ids:
            text = self.tokens[token]
            out += text.encode() if text in self.specials else bytes(CHAR_TO_BYTE[char] for char in text)
        return out.decode("utf-8", errors="replace")

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"merges": self.merges}, file, ensure_ascii=False)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file)["merges"])
