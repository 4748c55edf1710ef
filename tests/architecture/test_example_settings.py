"""The example file shows every setting with the value it has when nobody sets it."""

import re
import tomllib

from roundturn.settings import Settings
from tests.architecture.source import ROOT

EXAMPLE = (ROOT / "roundturn.example.toml").read_text()


def test_the_example_can_be_loaded_and_changes_nothing() -> None:
    given = Settings.model_validate(tomllib.loads(EXAMPLE))
    plain = Settings.model_validate({})
    assert given == plain


def test_the_example_names_every_setting() -> None:
    shown = set(re.findall(r"^#? ?(?:\[)?(\w+)(?: =|\])", EXAMPLE, re.MULTILINE))
    assert set(Settings.model_fields) <= shown


def test_what_is_commented_out_in_the_example_is_a_setting_that_may_be_written_so() -> None:
    lines = re.sub(r"^# (\w+ = )", r"\1", EXAMPLE, flags=re.MULTILINE)
    Settings.model_validate(tomllib.loads(lines))
