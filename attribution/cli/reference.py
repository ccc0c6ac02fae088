"""Reference pages made from the program itself: ``python -m attribution.cli.reference docs/reference [--check]``.

`cli.md` comes from the commands, `classes.md` from the taxonomy, `schema.md` from the stored tables, and
`diagnosis.schema.json` from the closed sets of the model. With ``--check`` nothing is written, and pages that are not as
they should be make the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attribution.signatures.rules import ClassInfo

_BY = "by `python -m attribution.cli.reference`; edit that, not this page. -->\n\n"
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def commands() -> Iterator[tuple[str, Any]]:
    """(full name, command) of every command, in the order of the help."""
    import typer

    from attribution.cli.app import app

    yield from _below("recovery", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for word, sub in inside.items():
        yield from _below(f"{name} {word}", sub)


def cli_page() -> str:
    """Every command with its arguments and options."""
    parts = [
        "<!-- Generated from the commands " + _BY + "# Commands\n\n"
        "`recovery COMMAND --help` says the same. [Exit codes](exit-codes.md) are the same everywhere; defaults of many\n"
        "options may come from a [configuration](config.md).\n"
    ]
    for name, command in commands():
        words = [_word(a) for a in _params(command, argument=True)]
        shown = " ".join([name, *(["[OPTIONS]"] if _params(command, argument=False) else []), *words])
        parts.append(f"## {name}\n\n```text\n{shown}\n```\n\n{_plain(command.help or '')}\n")
        rows = [_argument(p) for p in _params(command, argument=True)]
        rows += [_option(p) for p in _params(command, argument=False)]
        if rows:
            parts.append("| argument or option | what it does | default |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _params(command: Any, *, argument: bool) -> list[Any]:
    return [p for p in command.params if (p.param_type_name == "argument") is argument and p.name != "help"]


def _word(p: Any) -> str:
    word = p.metavar or p.name.upper() + ("..." if p.nargs == -1 else "")
    return word if p.required or word.startswith("[") else f"[{word}]"


def _argument(p: Any) -> str:
    return f"| `{re.sub(r'[][]', '', _word(p))}` | {_plain(p.help or '')} | {_default(p)} |"


def _option(p: Any) -> str:
    names = ", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts))
    variable = f" Also `{p.envvar}`." if p.envvar else ""
    told = re.sub(r"\s*\[default: [^\]]*\]", "", p.help or "")
    return f"| {names} | {_plain(told)}{variable} | {_default(p)} |"


def _default(p: Any) -> str:
    said = re.search(r"\[default: ([^\]]*)\]", p.help or "")
    if said:
        return f"`{said[1]}`"
    if p.required:
        return "must be given"
    value = p.default
    if value is None or value == () or value == "" or callable(value):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value}`"


def classes_page() -> str:
    """Every failure class by family."""
    from attribution import resources
    from attribution.signatures import load

    families: dict[str, list[ClassInfo]] = defaultdict(list)
    for c in load((resources.rules_dir(),)).taxonomy.values():
        families[c.name.split(".", 1)[0]].append(c)
    parts = [
        "<!-- Generated from rules/taxonomy.yaml " + _BY + "# Failure classes\n\n"
        "A class is `family.cause`. The domain says where the fault lies when nothing else is known; the action is what is\n"
        "advised on a first occurrence, before history and limits have a say. Which rules prove a class stands on\n"
        "[the pages of the rules](rules/classes.md). Words: [glossary](../explanation/glossary.md).\n"
    ]
    for family, many in families.items():
        rows = "".join(f"| `{c.name}` | {_plain(c.means)} | {c.domain.value} | {c.action.value} |\n" for c in many)
        parts.append(f"## {family}\n\n| class | means | domain | first action |\n|---|---|---|---|\n{rows}")
    return "\n".join(parts)


def pages() -> Mapping[str, str]:
    """File name -> text of every generated page."""
    from attribution.report.schema import diagnosis_schema
    from attribution.store.schema_page import page

    return {
        "cli.md": cli_page(),
        "classes.md": classes_page(),
        "schema.md": page(),
        "diagnosis.schema.json": json.dumps(diagnosis_schema(), indent=2) + "\n",
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attribution.cli.reference", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the pages, docs/reference in a checkout")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is old")
    options = parser.parse_args(arguments)
    old = []
    for name, text in pages().items():
        path = options.folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            old.append(path)
            if not options.check:
                path.write_text(text, encoding="utf-8")
    for path in old:
        sys.stderr.write(f"{path}: {'is old; run make docs' if options.check else 'written'}\n")
    return 1 if old and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
