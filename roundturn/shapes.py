"""What secrets look like, as tables, and how they are found in a text in time that grows with its length only."""

import re
import string
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Span = tuple[int, int]
WORK = 2_000  # about microseconds, after which whoever shares the event loop may go on
SHORT = 4_096  # characters that are looked through for all marks at one go

Accept = Callable[[str, str], bool]  # may this be hidden, with this character behind it ("" at the end)?


class Shape(NamedTuple):
    """A secret is what `secret` matches directly behind what `before` matches where `mark` stands, if it is accepted.

    `mark` is in small letters. The search is linear because `before` is bounded, `secret` takes back no long run
    (what follows is for `accept` to judge), and a run is judged once, by the first `before` that leads to it.
    `back`: lines of base64 before it, as far as all is of these characters.
    """

    mark: str
    before: re.Pattern[str]
    secret: re.Pattern[str]
    accept: Accept
    back: str = ""


def find(text: str, shapes: Iterable[Shape]) -> Iterator[Span | None]:
    """Where secrets are, shape by shape; None now and then, when some work was done."""
    low = _small(text)
    if len(text) < SHORT:
        shapes = [shape for shape in shapes if shape.mark in low]
    work = 0
    for shape in shapes:
        judged = 0
        work += 1 + len(text) // 2_048
        if work >= WORK:
            work = 0
            yield None
        at = low.find(shape.mark)
        while at >= 0:
            work += 1
            before = shape.before.match(text, at)
            if before and before.end() >= judged and (run := shape.secret.match(text, before.end())):
                if shape.accept(run[0], text[run.end() : run.end() + 1]):
                    yield from _hidden(text, shape, run.span(), judged)
                judged = run.end()
                work += len(run[0]) // 256
            if work >= WORK:
                work = 0
                yield None
            at = low.find(shape.mark, at + len(shape.mark))


def _hidden(text: str, shape: Shape, run: Span, judged: int) -> Iterator[Span]:
    if shape.back:
        start = run[0]
        lines = BASE64_LINE.search(text, judged + len(text[judged:start].rstrip(shape.back)), start)
        yield (lines.start() if lines else start), start
    else:
        yield run


def _small(text: str) -> str:
    """In small letters, and of the same length: one letter would become two."""
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


BASE64_LINE = re.compile(r"[A-Za-z0-9+/]{16}")
MIXED = re.compile(r"(?=[^0-9]*+[0-9])[^A-Za-z]*+[A-Za-z]")  # begins what has a digit and a letter
SCHEMES = frozenset({"bearer", "basic", "token", "digest", "apikey"})


def _plain(value: str, behind: str) -> bool:
    """In logs: what is not plainly something else, such as a call."""
    return len(value) >= 6 and behind not in ("(", "[") and value.lower() not in SCHEMES


def _likely(value: str, behind: str) -> bool:
    """In what a tool brings back, which may be somebody's program: what no word and no name of a variable is."""
    is_code = behind in ("(", "[") or value.startswith(("http://", "https://"))
    return len(value) >= 8 and not is_code and MIXED.match(value) is not None


def _credentials(value: str, _behind: str) -> bool:
    return len(value) >= 8 and re.search(r"[A-Z0-9=._]", value) is not None


def _token(value: str, _behind: str) -> bool:
    return len(value) >= 32 or MIXED.match(value) is not None


def _cookie(value: str, _behind: str) -> bool:
    return len(value) >= 8 and "=" in value


def _userinfo(_value: str, behind: str) -> bool:
    return behind == "@"


def _always(_value: str, _behind: str) -> bool:
    return True


# What tokens begin with and how they go on, as the services' own pages and the public scanners say.
TOKENS = (
    ("sk-", r"[A-Za-z0-9_-]{8,}+"),  # OpenAI, and many that are like it
    *((f"{kind}_", r"[A-Za-z0-9]{10,}+") for kind in ("sk_live", "rk_live", "sk_test", "rk_test")),  # Stripe
    ("whsec_", r"[A-Za-z0-9+/=]{16,}+"),
    *((f"gh{kind}_", r"[A-Za-z0-9]{20,}+") for kind in "pousr"),  # GitHub
    ("github_pat_", r"[A-Za-z0-9_]{20,}+"),
    ("glpat-", r"[A-Za-z0-9_.-]{16,}+"),  # GitLab
    *((f"xox{kind}-", r"[A-Za-z0-9-]{10,}+") for kind in "abeprs"),  # Slack
    ("xapp-", r"[A-Za-z0-9-]{10,}+"),
    *((kind, r"[A-Z0-9]{16}(?![A-Za-z0-9])") for kind in ("AKIA", "ASIA")),  # Amazon
    ("AIza", r"[A-Za-z0-9_-]{30,}+"),  # Google
    ("npm_", r"[A-Za-z0-9]{30,}+"),
    ("hf_", r"[A-Za-z0-9]{24,}+"),  # Hugging Face
    ("dop_v1_", r"[a-f0-9]{32,}+"),  # DigitalOcean
    ("GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),  # Google's clients
    ("SG.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),  # SendGrid
    ("pypi-", r"[A-Za-z0-9_-]{32,}+"),
    ("dckr_pat_", r"[A-Za-z0-9_-]{20,}+"),  # Docker
    ("glsa_", r"[A-Za-z0-9_]{20,}+"),  # Grafana
    ("shpat_", r"[a-f0-9]{20,}+"),  # Shopify
    ("ATATT", r"[A-Za-z0-9_=-]{20,}+"),  # Atlassian
    ("tskey-", r"[A-Za-z0-9-]{16,}+"),  # Tailscale
    ("lin_api_", r"[A-Za-z0-9]{20,}+"),  # Linear
    ("AGE-SECRET-KEY-", r"[A-Z0-9]{20,}+"),
    ("eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),  # JSON web tokens
)
# What the name of a secret ends in. `max_tokens` counts, it opens no doors.
NAMES = (
    # of an api, access, private, secret, account
    ("key", r"(?:(?<=api)|(?<=api[_-])|(?<=ess)|(?<=ate|ret|unt)|(?<=(?:ess|ate|ret|unt)[_-]))key"),
    ("token", "token"),
    ("secret", "secret"),
    ("passw", "passw(?:or)?d"),
    ("passphrase", "passphrase"),
    ("authorization", "authorization"),
)
QUOTE = r"(?:\\{0,2}[\"'])?"
GIVEN = rf"{QUOTE}\s{{0,64}}[=:]{{1,2}}>?\s{{0,64}}{QUOTE}"  # name=value, name: value, "name": "value"
VALUE = r"(?!\$[A-Za-z_{(]|\*)(?:\\.|[^\s\\\"'`,;&(){}\[\]<>|])++"  # to the end of the unbroken run
SENT = r"[A-Za-z0-9._~+/=-]++"  # behind a scheme, in a header
SCHEME = r"(?:bearer|basic|token|digest|apikey)"

PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
PEM_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
PEM_BLANK = r"(?:\s|\\[nrt])*+"
# Also without its end, and with the numbers and names that tools put before its lines.
PEM_LINES = (
    rf"(?:{PEM_BLANK}(?:[A-Za-z0-9+/=]{{16,}}+|\d{{1,7}}(?=\s)|[^\s:]{{1,200}}+:\d{{1,7}}:|[A-Za-z-]{{1,20}}+: [\w,.-]{{1,80}}+"
    rf"|[A-Za-z0-9+/=]{{1,15}}+(?={PEM_BLANK}-----)))++"
)


def _of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _tokens(not_behind: str, accept: Accept) -> Iterator[Shape]:
    for begins, goes_on in TOKENS:
        before = re.compile(rf"(?<![{not_behind}])(?={begins})")
        yield Shape(begins.lower(), before, re.compile(begins + goes_on), accept)


def _named(given: str, value: str, accept: Accept) -> Iterator[Shape]:
    return (Shape(mark, _of(name + given), re.compile(value), accept) for mark, name in NAMES)


def _wide(pairs: Accept, schemes: Accept) -> tuple[Shape, ...]:
    """For what nobody judges: rather too much than a secret."""
    password = r"\s{1,8}password\s{1,8}"
    return (
        *_tokens(r"A-Za-z0-9_-", _token),
        # private keys, from the first line on, and up to the last
        Shape("-----begin ", re.compile(PEM), re.compile(PEM_LINES), _always),
        Shape(
            "-----end ",
            re.compile(""),
            re.compile(PEM_END),
            _always,
            back=string.ascii_letters + string.digits + "+/=\\ \t\r\n",
        ),
        # headers
        Shape("authorization", _of(rf"authorization{GIVEN}{SCHEME}\s{{1,16}}"), re.compile(SENT), _credentials),
        Shape("bearer", _of(r"bearer\s{1,16}"), re.compile(SENT), schemes),
        Shape("basic", _of(r"basic[ \t]{1,16}"), re.compile(r"[A-Za-z0-9+/]++={0,2}"), schemes),
        Shape("cookie", _of(rf"cookie{QUOTE}\s{{0,8}}:\s{{0,8}}{QUOTE}"), re.compile(r"(?:[^\s;\"',]++(?:; ?)?)++"), _cookie),
        # the last part of a Slack webhook's address, and the password in any address
        Shape("hooks.slack.com", _of(r"hooks\.slack\.com/services/\w{1,64}/\w{1,64}/"), re.compile(r"\w{8,}+"), _always),
        Shape("://", re.compile(r"://[^/\s:@]{0,256}+:"), re.compile(r"[^/\s@]++(?:@[^/\s@?#&,;\"']++(?=@))*+"), _userinfo),
        # a .netrc
        Shape("machine", _of(rf"machine\s{{1,8}}\S{{1,255}}+{password}"), re.compile(r"\S++"), pairs),
        Shape("login", _of(rf"login\s{{1,8}}\S{{1,255}}+{password}"), re.compile(r"\S++"), pairs),
        *_named(GIVEN, VALUE, pairs),
    )  # fmt: skip


IN_LOGS = _wide(_plain, _credentials)
IN_OUTPUT = _wide(_likely, _likely)
