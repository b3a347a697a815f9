"""Passwords that are tried first: what people take everywhere, and what they take in a lab like this.

A list of whole passwords would need to be long. This one has the pieces of which such passwords are made, and counts
the cost of trying them: a word, a year, a row of keys, digits and signs behind them. A password made of few pieces is
easily guessed, however long it is. Pure.
"""

from __future__ import annotations

import re
import unicodedata

from wire.pattern import Pattern

MOST_COST = 10
"""Cheaper passwords are tried first: three words, or one with a tail of seven signs."""
_WORD, _ROW, _SIGN, _LETTER = 3, 1, 1, 3
_SHORTEST_ROW = 3
_FEW_DIGITS = 15
"""A number that is shorter is a telephone's, a birthday, or one's own."""
_LONGEST_LOOKED_AT = 200
"""Characters; what lies behind makes nothing weaker."""
_BETWEEN = re.compile(r"[ ._-]")
_REPEATED = Pattern(r"(.{2,}?)\1+", re.DOTALL)

_ENGLISH = (
    "password passwort passwd passphrase passcode pass secret private login logon log signin welcome hello hi guest "
    "user username admin administrator adm root system sys test testing tester temp tmp default demo sample change "
    "changeme change me new old my your the this is it please let in letmein open sesame access trust no one trustno "
    "nobody none null void master server client backup service daemon super superuser superman batman spiderman "
    "dragon monkey tiger lion eagle falcon panda shadow ghost ninja pirate warrior hunter killer love lover iloveyou "
    "i you baby angel princess prince king queen sunshine summer winter spring autumn monday sunday january june july "
    "december football baseball basketball soccer hockey golf music guitar rock star starwars matrix pokemon naruto "
    "minecraft computer internet google apple windows microsoft linux ubuntu debian github python java cheese cookie "
    "pepper ginger chocolate banana orange flower freedom whatever nothing something fuck shit asshole money lucky "
    "happy good best cool abc pwd pw key keys god jesus michael jordan jennifer thomas daniel andrew charlie george "
    "china beijing shanghai chinese dear mother father home family friend friends student teacher professor school "
    "college university campus class number first last one two three four five six seven eight nine ten zero"
)
_LAB = (
    "lab labs laboratory muster gpu gpus cuda nvidia tesla geforce rtx titan hopper ampere slurm cluster node queue "
    "task job jobs train training trainer model models data dataset deep learning deeplearning machine neural net "
    "network torch pytorch tensorflow keras jax conda anaconda research researcher science scientist group team vision "
    "robot robotics ai ml dl nlp llm cv gpt epoch batch desktop worker agent storage workstation phd doctor paper"
)
_PINYIN = (
    "woaini woaini woaiwojia wo ai ni aini aiwo woaita woaimama woaibaba mima wodemima denglu guanliyuan guanli yonghu "
    "zhanghao ceshi xitong fuwuqi diannao nihao nihaoma haha hehe hahaha heihei xixi lala baobao baobei qinai qinaide "
    "laopo laogong laoshi laoban xuesheng xuexiao xuexi daxue yanjiu yanjiusheng yanjiusuo shiyan shiyanshi shidai "
    "keyan boshi shuoshi daoshi zhongguo zhonghua renmin beijing shanghai nanjing tianjin guangzhou shenzhen wuhan "
    "hangzhou chengdu xian chongqing qinghua beida fudan zheda jiaoda tiantian kuaile xingfu pengyou jiayou meinv "
    "shuaige caonima wocao nima tamade shabi bendan dashen xiaoming xiaohong xiaoxiao xiaobao xiaomao xiaogou qianqian "
    "feifei lele dandan taotao yangyang tingting jingjing lili wang li zhang liu chen yang huang zhao wu zhou xu sun "
    "ma zhu hu guo he lin gao luo zheng liang xie tang deng feng han cao zeng peng wei fang min jing qiang lei jun "
    "yong jie tao ming chao xiuying xia ping gang guiying lina wangwei zhangwei liwei wangfang lijing linan"
)
_NUMBERS = "520 1314 5201314 521 1313 666 888 168 518 123 321 007 911 110 119 12306 985 211 996 404 3090 4090"
WORDS = frozenset(f"{_ENGLISH} {_LAB} {_PINYIN} {_NUMBERS}".split())

_KEYS = (
    "`1234567890-=", "0123456789", "~!@#$%^&*()_+", "qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./", "qwertzuiop",
    "azertyuiop", "1qaz", "2wsx", "3edc", "4rfv", "5tgb", "6yhn", "7ujm", "8ik,", "9ol.", "0p;/", "qaz", "wsx", "edc",
    "rfv", "tgb", "yhn", "ujm", "147", "258", "369", "159", "357", "abcdefghijklmnopqrstuvwxyz",
)  # fmt: skip
_LEET = tuple(
    str.maketrans(dict(zip("01345789@$!+", letters, strict=True)))
    for letters in ("oleastbgasit", "oieastbgasit", "oleastbpaslt")
)


def _rows() -> frozenset[str]:
    ways = [way for row in _KEYS for way in (row, row[::-1])]
    return frozenset(
        way[begin:end]
        for way in ways
        for begin in range(len(way))
        for end in range(begin + _SHORTEST_ROW, len(way) + 1)
    )


_ROWS = _rows()
_LONGEST_PIECE = max(map(len, WORDS | _ROWS))


def is_easily_guessed(password: str, name: str = "") -> bool:
    """Whether it is one of those that are tried first, where it is tried with the name of its user."""
    text = unicodedata.normalize("NFKC", password[:_LONGEST_LOOKED_AT]).casefold()[:_LONGEST_LOOKED_AT]
    if text.isdecimal() and len(text) < _FEW_DIGITS:
        return True
    names = frozenset(_BETWEEN.split(unicodedata.normalize("NFKC", name).casefold())) - {""}
    cost = min(_cost(_REPEATED.sub(r"\1", way), names) for way in {text, _BETWEEN.sub("", text)})
    # A text of signs alone costs as many as it has, and is not made of pieces.
    return cost <= MOST_COST and cost < len(text)


def _cost(text: str, names: frozenset[str]) -> int:
    """Return the cost of guessing the text as a sequence of pieces."""
    spellings = (text, *(text.translate(table) for table in _LEET))
    longest = max(_LONGEST_PIECE, *map(len, names), 0)
    costs = [0]
    for end in range(1, len(text) + 1):
        best = costs[end - 1] + (_LETTER if text[end - 1].isalpha() else _SIGN)
        for begin in range(max(0, end - longest), end - 1):
            if costs[begin] + _ROW < best:
                best = min(best, costs[begin] + _piece(begin, end, spellings, names))
        costs.append(best)
    return costs[-1]


def _piece(begin: int, end: int, spellings: tuple[str, ...], names: frozenset[str]) -> int:
    """Return the cost of this text as one piece; more than MOST_COST if it is none."""
    piece = spellings[0][begin:end]
    if piece in _ROWS or _is_year(piece):
        return _ROW
    if any(spelling[begin:end] in WORDS or spelling[begin:end] in names for spelling in spellings):
        return _WORD
    return MOST_COST + 1


def _is_year(piece: str) -> bool:
    return len(piece) == len("2026") and piece.isdecimal() and piece[:2] in ("19", "20")
