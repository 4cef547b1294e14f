"""A small grammar of English sentences with their Vietnamese translations and gold alignments.

Vietnamese puts adjectives, possessives and demonstratives after the noun, counts nouns with classifiers, and
marks tense and negation by words before the verb, so a translation has to look back and forth. Vietnamese
tokens are syllables.
"""

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Pair:
    """A source, its target, and which source tokens each target token translates.

    Attributes:
        source: the source tokens.
        target: the target tokens.
        alignment: for each target token, the positions in the source that it comes from.
        combinations: the (adjective, noun) pairs in it, for holding some of them out.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[frozenset[int], ...]
    combinations: frozenset[tuple[str, str]] = frozenset()


@cache
def word(english, vietnamese):
    """A word, or words that belong together: every target syllable comes from all of the source words."""
    source, target = tuple(english.split()), tuple(vietnamese.split())
    return Pair(source, target, (frozenset(range(len(source))),) * len(target))


def join(parts, order=None):
    """One phrase out of parts: in the source as they come, in the target in the given order of their numbers."""
    starts, source, target, alignment = [], (), (), ()
    for part in parts:
        starts.append(len(source))
        source += part.source
    for at in range(len(parts)) if order is None else order:
        target += parts[at].target
        alignment += tuple(_moved(links, starts[at]) for links in parts[at].alignment)
    return Pair(source, target, alignment, frozenset().union(*(part.combinations for part in parts)))


@cache
def _moved(links, by):
    """Positions moved to the right; kept, because the same few links are moved for every sentence."""
    return frozenset(position + by for position in links)


@dataclass(frozen=True)
class Noun:
    """A noun: its singular and plural, its classifier (may be empty), its translation, and the kinds it belongs to."""

    singular: str
    plural: str
    classifier: str
    vietnamese: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Verb:
    """A verb: its English forms, its translation, what may be its object and its subject.

    A state, such as to like, is neither in progress nor dated.
    """

    base: str
    third: str
    past: str
    ing: str
    vietnamese: str
    objects: tuple[str, ...]
    subjects: tuple[str, ...] = ("person",)
    in_progress: bool = True
    dated: bool = True


def _nouns(kinds, *rows):
    return [Noun(*row, tuple(kinds.split())) for row in rows]


NOUNS = [
    *_nouns("person", ("teacher", "teachers", "", "giáo viên"), ("student", "students", "", "sinh viên"),
            ("doctor", "doctors", "", "bác sĩ"), ("friend", "friends", "người", "bạn"),
            ("farmer", "farmers", "người", "nông dân"), ("singer", "singers", "", "ca sĩ")),
    *_nouns("animal", ("cat", "cats", "con", "mèo"), ("dog", "dogs", "con", "chó"), ("bird", "birds", "con", "chim"),
            ("horse", "horses", "con", "ngựa"), ("rabbit", "rabbits", "con", "thỏ")),
    *_nouns("thing readable", ("book", "books", "quyển", "sách"), ("letter", "letters", "lá", "thư"),
            ("diary", "diaries", "quyển", "nhật ký")),
    *_nouns("thing food fresh", ("apple", "apples", "quả", "táo"), ("mango", "mangoes", "quả", "xoài"),
            ("egg", "eggs", "quả", "trứng")),
    *_nouns("thing food", ("cake", "cakes", "cái", "bánh")),
    *_nouns("thing fresh", ("flower", "flowers", "bông", "hoa")),
    *_nouns("thing tool", ("pen", "pens", "cây", "bút"), ("phone", "phones", "chiếc", "điện thoại"),
            ("knife", "knives", "con", "dao"), ("bag", "bags", "cái", "túi")),
    *_nouns("thing", ("house", "houses", "ngôi", "nhà"), ("car", "cars", "chiếc", "xe hơi"),
            ("shirt", "shirts", "cái", "áo"), ("table", "tables", "cái", "bàn"), ("chair", "chairs", "cái", "ghế"),
            ("picture", "pictures", "bức", "tranh"),
            ("hat", "hats", "cái", "mũ")),
]  # fmt: skip

# English puts size or age before colour before the noun; Vietnamese turns the row round.
QUALITIES = {
    "fresh": [("big", "lớn"), ("small", "nhỏ"), ("beautiful", "đẹp")],  # what "new" and "old" are not said of
    "thing": [("big", "lớn"), ("small", "nhỏ"), ("new", "mới"), ("old", "cũ"), ("beautiful", "đẹp")],
    "animal": [("big", "lớn"), ("small", "nhỏ"), ("beautiful", "đẹp"), ("strong", "khỏe")],
    "person": [("young", "trẻ"), ("kind", "tốt bụng"), ("tall", "cao"), ("famous", "nổi tiếng")],
}
COLOURS = [("red", "đỏ"), ("black", "đen"), ("white", "trắng"), ("yellow", "vàng"), ("brown", "nâu")]
COLOURED = {"animal": COLOURS[1:3] + COLOURS[4:], "thing": COLOURS, "fresh": COLOURS, "person": []}
POSSESSIVES = [("my", "của tôi"), ("your", "của bạn"), ("his", "của anh ấy"), ("her", "của cô ấy"),
               ("our", "của chúng tôi"), ("their", "của họ")]  # fmt: skip
DEMONSTRATIVES = [("this", "này"), ("that", "đó")]
NUMBERS = [("two", "hai"), ("three", "ba"), ("four", "bốn"), ("five", "năm"), ("ten", "mười")]
# A subject, its translation, and the row of the verb's forms that it takes.
PRONOUNS = [("I", "tôi", "I"), ("you", "bạn", "we"), ("he", "anh ấy", "it"), ("she", "cô ấy", "it"),
            ("we", "chúng tôi", "we"), ("they", "họ", "we")]  # fmt: skip
BE = {"I": "am", "it": "is", "we": "are"}

# The compound terms of this field, in Vietnamese with the English word that each part translates. Most parts come in
# several terms, so that a whole term cannot be known from one of its words.
TERMS = [
    ("natural language processing", (("xử lý", 2), ("ngôn ngữ", 1), ("tự nhiên", 0))),
    ("image processing", (("xử lý", 1), ("ảnh", 0))),
    ("speech processing", (("xử lý", 1), ("tiếng nói", 0))),
    ("text processing", (("xử lý", 1), ("văn bản", 0))),
    ("data processing", (("xử lý", 1), ("dữ liệu", 0))),
    ("image recognition", (("nhận dạng", 1), ("ảnh", 0))),
    ("speech recognition", (("nhận dạng", 1), ("tiếng nói", 0))),
    ("text recognition", (("nhận dạng", 1), ("văn bản", 0))),
    ("machine translation", (("dịch", 1), ("máy", 0))),
    ("speech translation", (("dịch", 1), ("tiếng nói", 0))),
    ("data mining", (("khai phá", 1), ("dữ liệu", 0))),
    ("text mining", (("khai phá", 1), ("văn bản", 0))),
    ("machine learning", (("học", 1), ("máy", 0))),
    ("deep learning", (("học", 1), ("sâu", 0))),
    ("reinforcement learning", (("học", 1), ("tăng cường", 0))),
    ("computer vision", (("thị giác", 1), ("máy tính", 0))),
    ("machine vision", (("thị giác", 1), ("máy", 0))),
    ("artificial intelligence", (("trí tuệ", 1), ("nhân tạo", 0))),
]


def _verb(forms, vietnamese, objects, subjects="person", in_progress=True, dated=True):
    return Verb(*forms.split(), vietnamese, tuple(objects.split()), tuple(subjects.split()), in_progress, dated)


VERBS = [
    _verb("write writes wrote writing", "viết", "readable"),
    _verb("buy buys bought buying", "mua", "thing"),
    _verb("sell sells sold selling", "bán", "thing"),
    _verb("draw draws drew drawing", "vẽ", "thing animal person"),
    _verb("carry carries carried carrying", "mang", "tool readable"),
    _verb("use uses used using", "sử dụng", "tool field"),
    _verb("study studies studied studying", "nghiên cứu", "field"),
    _verb("teach teaches taught teaching", "dạy về", "field"),
    _verb("help helps helped helping", "giúp", "person"),
    _verb("meet meets met meeting", "gặp", "person"),
    _verb("eat eats ate eating", "ăn", "food", "person animal"),
    _verb("see sees saw seeing", "nhìn thấy", "thing animal person", "person animal", in_progress=False),
    _verb("find finds found finding", "tìm thấy", "thing animal", "person animal", in_progress=False),
    _verb("like likes liked liking", "thích", "thing animal person field", in_progress=False, dated=False),
    _verb("love loves loved loving", "yêu", "animal person field", in_progress=False, dated=False),
    _verb("understand understands understood understanding", "hiểu", "field person", in_progress=False, dated=False),
]
TIMES = {
    "present": [("every day", "mỗi ngày"), ("every morning", "mỗi buổi sáng")],
    "progressive": [("now", "bây giờ"), ("today", "hôm nay")],
    "past": [("yesterday", "hôm qua"), ("last week", "tuần trước")],
    "future": [("tomorrow", "ngày mai"), ("next week", "tuần sau")],
}
CONJUNCTIONS = [("and", "và"), ("but", "nhưng"), ("because", "vì"), ("although", "mặc dù"), ("so", "nên")]


@cache
def nouns_of(kinds):
    """The nouns of any of these kinds."""
    return [noun for noun in NOUNS if set(kinds) & set(noun.kinds)]


def noun_phrase(rng, noun):
    """A noun with what may stand around it.

    English: determiner, number, adjectives, noun. Vietnamese: article or number, classifier and noun, the adjectives
    from the last to the first, possessive or demonstrative.

    Args:
        rng: a `random.Random`.
        noun: the Noun.

    Returns:
        The Pair, and whether it is plural.
    """
    kind = next(kind for kind in QUALITIES if kind in noun.kinds)
    adjectives = [rng.choice(QUALITIES[kind])] if rng.random() < 0.5 else []
    if COLOURED[kind] and rng.random() < 0.35:
        adjectives.append(rng.choice(COLOURED[kind]))
    number = rng.choice(NUMBERS) if rng.random() < 0.25 else None
    determiner = rng.choices(
        [rng.choice(POSSESSIVES), rng.choice(DEMONSTRATIVES), ("a", "một"), ("the", "")], weights=(4, 2, 2, 2)
    )[0]
    if number and determiner not in POSSESSIVES:
        determiner = None
    # Each part with its place in the Vietnamese order; sorting is stable, so equal places keep the English order.
    placed = []
    if determiner:
        placed.append((word(*determiner), 0 if determiner[0] in ("a", "the") else 9))
    if number:
        placed.append((word(*number), 0))
    placed += [(word(*adjective), 8 - at) for at, adjective in enumerate(adjectives)]
    placed.append((word(noun.plural if number else noun.singular, f"{noun.classifier} {noun.vietnamese}"), 1))
    if determiner == ("a", "một") and placed[1][0].source[0][0] in "aeiou":
        placed[0] = (word("an", "một"), 0)
    order = sorted(range(len(placed)), key=lambda at: placed[at][1])
    phrase = join([part for part, _ in placed], order)
    combinations = frozenset((adjective, noun.singular) for adjective, _ in adjectives)
    return Pair(phrase.source, phrase.target, phrase.alignment, combinations), bool(number)


def term(rng):
    """One of the compound terms of this field, whose parts are turned round in Vietnamese."""
    english, parts = rng.choice(TERMS)
    source = tuple(english.split())
    syllables = [(syllable, position) for words, position in parts for syllable in words.split()]
    return Pair(source, tuple(s for s, _ in syllables), tuple(frozenset({position}) for _, position in syllables))


def predicate(rng, verb, form):
    """A verb in some tense, perhaps negated, for a subject of the form "I", "it" or "we".

    Returns:
        The Pair, and the tense.
    """
    tense = rng.choice(["present", "past", "future", *(["progressive"] if verb.in_progress else [])])
    base, negated = word(verb.base, verb.vietnamese), word("not", "không")
    if tense == "progressive":
        return join([word(BE[form], "đang"), word(verb.ing, verb.vietnamese)]), tense
    if rng.random() < 0.25:
        do = "does" if form == "it" else "do"
        auxiliary = {"present": (do, ""), "past": ("did", "đã"), "future": ("will", "sẽ")}[tense]
        return join([word(*auxiliary), negated, base]), tense
    if tense == "future":
        return join([word("will", "sẽ"), base]), tense
    if tense == "past":
        return word(verb.past, f"đã {verb.vietnamese}"), tense
    return word(verb.third if form == "it" else verb.base, verb.vietnamese), tense


def clause(rng):
    """A subject, a predicate, an object, and perhaps when."""
    verb = rng.choice(VERBS)
    if "person" in verb.subjects and rng.random() < 0.5:
        english, vietnamese, form = rng.choice(PRONOUNS)
        subject = word(english, vietnamese)
    else:
        subject, plural = noun_phrase(rng, rng.choice(nouns_of(verb.subjects)))
        form = "we" if plural else "it"
    verb_phrase, tense = predicate(rng, verb, form)
    kind = rng.choice(verb.objects)
    thing = term(rng) if kind == "field" else noun_phrase(rng, rng.choice(nouns_of((kind,))))[0]
    when = [word(*rng.choice(TIMES[tense]))] if verb.dated and rng.random() < 0.3 else []
    return join([subject, verb_phrase, thing, *when])


def words():
    """Every English word and every Vietnamese syllable that a sentence can have, as two sets."""
    lexicon = [*POSSESSIVES, *DEMONSTRATIVES, *NUMBERS, *COLOURS, *CONJUNCTIONS]
    lexicon += [pair for group in (*QUALITIES.values(), *TIMES.values()) for pair in group]
    lexicon += [(english, vietnamese) for english, vietnamese, _ in PRONOUNS]
    lexicon += [(english, " ".join(part for part, _ in parts)) for english, parts in TERMS]
    lexicon += [(f"{n.singular} {n.plural}", f"{n.classifier} {n.vietnamese}") for n in NOUNS]
    lexicon += [(f"{v.base} {v.third} {v.past} {v.ing}", v.vietnamese) for v in VERBS]
    lexicon += [("a an the", "một"), ("am is are", "đang"), ("do does did not will", "không đã sẽ")]
    return tuple({token for pair in lexicon for token in pair[side].split()} for side in (0, 1))
