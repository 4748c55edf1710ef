"""The built-in tools by name; adding one is a module in this folder and a line here."""

from roundturn.tool import BaseTool
from roundturn.tools.files import ReadFile, WriteFile
from roundturn.tools.shell import Bash

BUILTIN: dict[str, type[BaseTool]] = {
    "bash": Bash,
    "read_file": ReadFile,
    "write_file": WriteFile,
}
