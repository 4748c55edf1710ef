"""What a path and an address mean, however they are spelt, and whether that is what a rule means.

For a rule that loosens (`exactly`) a spelling that could mean something else does not fit, and capitals matter. For one
that narrows any of the spellings is enough, and so is one that nobody can understand: it is better to refuse too much.
"""

import re
import unicodedata
from pathlib import PurePosixPath
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from roundturn.glob import compiled

URL_CHARACTERS = (
    ":/?#[]@!$&'()*+,;=%~-._"  # with letters and digits, what an address is written in (RFC 3986)
)
USUAL_PORTS = {"http": 80, "https": 443}


def glob_fits(glob: str, text: str, exactly: bool) -> bool:
    return compiled((glob,), case_matters=exactly).fullmatch(text) is not None


def path_fits(wanted: str, text: str, workdir: str, exactly: bool, is_glob: bool) -> bool:
    """`workdir`: the action directory, which paths are relative to. A relative glob never loosens for a path outside."""
    path = _plain_path(text, workdir)
    pattern = _plain_glob(wanted, workdir) if is_glob else _plain_path(wanted, workdir)
    if path is None or pattern is None or (path.startswith("/") and not pattern.startswith("/")):
        return not exactly
    if is_glob:
        return glob_fits(pattern, path, exactly)
    return pattern == path or (not exactly and pattern.casefold() == path.casefold())


def _plain_path(text: str, workdir: str) -> str | None:
    """Relative to the action directory where it is inside, without `.`, doubled slashes or a second Unicode spelling.

    None for one that goes up or to somebody's home: where it leads, only the file system knows.
    """
    path = PurePosixPath(unicodedata.normalize("NFC", text))
    if ".." in path.parts or text.startswith("~"):
        return None
    return _below(str(path), workdir)


def _plain_glob(glob: str, workdir: str) -> str:
    """As the paths that it is for; one that ends with a slash is for all below."""
    return _below(str(PurePosixPath(glob + "*" * glob.endswith("/"))), workdir)


def path_doubt(glob: str) -> str:
    """Why no path fits a pattern; empty: some may."""
    if ".." in PurePosixPath(glob).parts or glob.startswith("~"):
        return f"the pattern {glob!r} goes up or to a home: no path fits it"
    return ""


def _below(text: str, workdir: str) -> str:
    text, root = (unicodedata.normalize("NFC", each) for each in (text, workdir.rstrip("/")))
    if root and text == root:
        return "."
    return text.removeprefix(f"{root}/") if root and text.startswith(f"{root}/") else text


def url_fits(wanted: str, text: str, exactly: bool, is_glob: bool) -> bool:
    """A glob is matched part by part, so that no star of a site's name runs into what stands behind it."""
    parts = _exact_url(text) if exactly else _mended_url(text)
    if parts is None:
        return not exactly
    if not is_glob:
        return not _spellings(wanted, exactly).isdisjoint(_spellings(text, exactly))
    if exactly:
        return _parts_fit(wanted, parts, exactly)
    return any(glob_fits(wanted, each, exactly) for each in (text, *_told(parts))) or any(
        _parts_fit(wanted, urlsplit(each), exactly) for each in _told(parts)
    )


def url_doubt(glob: str) -> str:
    """Why a rule that lets addresses of this pattern pass lets more pass than it says, or nothing; empty: it does not."""
    scheme, sep, rest = glob.partition("://")
    host = rest.partition("/")[0]
    if not sep:
        return f"the pattern {glob!r} does not begin with a scheme such as https://: no address fits it"
    if scheme.endswith("*") or host.endswith("*"):
        return f"the pattern {glob!r} does not say which site it lets pass"
    return ""


def _parts_fit(glob: str, parts: SplitResult, exactly: bool) -> bool:
    scheme, sep, rest = glob.partition("://")
    if not sep:
        return False
    host, slash, path = rest.partition("/")
    usual = USUAL_PORTS.get(scheme.lower())
    host = host.removesuffix(f":{usual}") if usual else host
    path = f"/{path}" if slash else "/*" if host.endswith("*") else "/"
    asked = urlunsplit(("", "", parts.path, parts.query, ""))
    return (
        glob_fits(scheme, parts.scheme, exactly=False)
        and glob_fits(host, parts.netloc, exactly=False)
        and glob_fits(path, asked, exactly)
    )


def _spellings(text: str, exactly: bool) -> set[str]:
    parts = _exact_url(text) if exactly else _mended_url(text)
    if parts is None:
        return {text}
    return {urlunsplit(parts)} if exactly else {each.casefold() for each in _told(parts)}


def _told(parts: SplitResult) -> tuple[str, ...]:
    """As it is asked; with hidden letters shown; and with doubled slashes as some servers take them."""
    plain = urlunsplit(parts)
    paths = (parts.path, unquote(parts.path))
    once = [urlunsplit(parts._replace(path=re.sub("/{2,}", "/", path))) for path in paths]
    return (plain, unquote(plain), *once, *map(unquote, once))


def _exact_url(text: str) -> SplitResult | None:
    """None for an address that two readers could understand differently."""
    if not text.isascii() or not text.isprintable() or any(c in text for c in ' \\"<>^`{|}'):
        return None
    return _clear_url(text)


def _mended_url(text: str) -> SplitResult | None:
    """As `_exact_url`, but what a reader would mend is mended first."""
    parts = _clear_url(quote(text.strip(), safe=URL_CHARACTERS))
    return None if parts is None or "%" in parts.netloc else parts


def _clear_url(text: str) -> SplitResult | None:
    """Small letters in the host, no final dot in it, no port that is the usual one, a path, no fragment.

    None for one with a user, and for a path with steps (`.`, `..`), which readers take before they ask.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    steps = unquote(parts.path).split("/")
    if not host or "@" in parts.netloc or "." in steps or ".." in steps:
        return None
    host = host.rstrip(".")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in (None, USUAL_PORTS.get(parts.scheme)) else f"{shown}:{port}"
    return SplitResult(parts.scheme, netloc, parts.path or "/", parts.query, "")
