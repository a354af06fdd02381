"""``torchtpu cache``: the compiled programs on disk."""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator

from torch_tpu._cli.table import print_json, print_table, size

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add(commands) -> None:
    """Adds the command's arguments to the ones of ``torchtpu``."""
    cache = commands.add_parser("cache", help="the compiled programs on disk")
    cache.add_argument("--dir", help="the cache (default: the setting cache_dir)")
    actions = cache.add_subparsers(dest="action", required=True)

    def action(name, run, **description):
        parser = actions.add_parser(name, **description)
        parser.set_defaults(run=lambda given: _told(run, given))
        return parser

    listing = action("ls", _list, help="lists the programs, the last used first")
    listing.add_argument("--json", action="store_true", help="print JSON")
    action("verify", _verify, help="reads every program; status 1 if one is damaged")
    prune = action("prune", _prune, help="removes damaged programs and the least recently used")
    prune.add_argument("--size", help="bytes to keep, as 500M (default: the setting cache_size)")
    export = action("export", _export, help="writes all programs to an archive (.tar.gz)")
    export.add_argument("file")
    importing = action(
        "import",
        _import,
        help="takes up the programs of an archive",
        description="Takes up the programs of an archive. They are machine code: import only "
        "archives from those whose code you would run. Only a machine with the same plugin and "
        "the same kind of processor finds them.",
    )
    importing.add_argument("file")
    why = action("why-miss", _why_miss, help="why programs on disk are not found here")
    why.add_argument("program", nargs="?", help="the first digits of a program's key")


def _root(given: argparse.Namespace) -> pathlib.Path:
    from torch_tpu._loader import native

    root = given.dir or native().cache_dir()
    if root is None:
        sys.exit("torchtpu cache: there is no cache; hint: set TORCH_TPU_CACHE_DIR")
    return pathlib.Path(root)


def _entries(root: pathlib.Path) -> list[dict]:
    from torch_tpu._loader import native

    return json.loads(native().cache_entries(str(root)))


def _told(run: Callable[..., int], given: argparse.Namespace) -> int:
    """Runs an action; a file that cannot be read or written is one line."""
    try:
        return run(_root(given), given)
    except OSError as error:
        sys.exit(f"torchtpu cache: {error}")


def _list(root: pathlib.Path, given: argparse.Namespace) -> int:
    entries = _entries(root)
    if given.json:
        print_json(entries)
        return 0
    rows = [
        (e["key"][:10], size(e["size"]), _age(e["age"]), e["tier"], e["state"], e["types"])
        for e in entries
    ]
    print_table(("program", "size", "used", "tier", "state", "types"), rows)
    print(f"{len(rows)} programs, {size(sum(e['size'] for e in entries))} in {root}")
    return 0


def _verify(root: pathlib.Path, given: argparse.Namespace) -> int:
    entries = _entries(root)
    damaged = [e for e in entries if e["state"] != "sound"]
    for entry in damaged:
        print(f"{entry['state']}: {root / 'programs' / entry['file']}")
    print(f"{len(entries) - len(damaged)} sound, {len(damaged)} not")
    if damaged:
        print("hint: they are compiled again when needed; torchtpu cache prune removes them")
    return 1 if damaged else 0


def _prune(root: pathlib.Path, given: argparse.Namespace) -> int:
    from torch_tpu._loader import native

    limit = given.size or native().get_setting("cache_size")
    removed, left = native().cache_prune(str(root), _number(limit))
    print(f"{removed} programs removed, {size(left)} left")
    return 0


def _export(root: pathlib.Path, given: argparse.Namespace) -> int:
    count = 0
    with tarfile.open(given.file, "w:gz") as archive:
        for entry in _entries(root):
            if entry["state"] == "sound":
                _append(archive, root, root / "programs" / entry["file"])
                count += 1
        for note in sorted((root / "makers").glob("*")):
            _append(archive, root, note)
    print(f"{count} programs, {size(pathlib.Path(given.file).stat().st_size)} in {given.file}")
    return 0


def _append(archive: tarfile.TarFile, root: pathlib.Path, path: pathlib.Path) -> None:
    # Another process may evict a program while the archive is written.
    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        return
    member = tarfile.TarInfo(path.relative_to(root).as_posix())
    member.size = len(contents)
    archive.addfile(member, io.BytesIO(contents))


def _import(root: pathlib.Path, given: argparse.Namespace) -> int:
    from torch_tpu._loader import native

    added = known = refused = 0
    for name, contents in _members(given.file):
        try:
            fresh = native().cache_import(str(root), name, contents)
        except ValueError as error:
            print(f"not taken up: {error}", file=sys.stderr)
            refused += 1
            continue
        if name.startswith("programs/"):
            added, known = added + fresh, known + (not fresh)
    print(f"{added} programs added, {known} were there, {refused} files refused")
    return 1 if refused else 0


def _members(file: str) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                contents = archive.extractfile(member)
                if contents is not None:
                    yield member.name, contents.read()
    except (tarfile.TarError, EOFError, zlib.error):
        sys.exit(
            f"torchtpu cache: {file} is no archive of `torchtpu cache export`, or not all of one"
        )


def _why_miss(root: pathlib.Path, given: argparse.Namespace) -> int:
    import torch

    from torch_tpu._loader import native

    entries = _entries(root)
    torch.tpu.init()
    here = native().cache_maker() or ""
    if given.program:
        return _why_program(root, entries, here, given.program)
    groups: dict[str, list[dict]] = {}
    for entry in entries:
        groups.setdefault(_difference(root, entry, here) or "found here", []).append(entry)
    print_table(("programs", "why"), ((len(group), why) for why, group in groups.items()))
    return 0


def _why_program(root: pathlib.Path, entries: list[dict], here: str, start: str) -> int:
    """One program: whether it is found, and what there is of its module under other options."""
    chosen = [e for e in entries if e["key"].startswith(start)]
    if not chosen:
        print(f"cold: no program on disk has a key that starts with {start}")
        return 1
    for entry in chosen:
        print(f"{entry['key'][:10]} {entry['types']}")
        print(f"  {_difference(root, entry, here) or 'found here'}")
    modules, keys = {e["module"] for e in chosen}, {e["key"] for e in chosen}
    for entry in entries:
        if entry["module"] in modules and entry["key"] not in keys:
            differ = "tier" if entry["tier"] != chosen[0]["tier"] else "options"
            print(f"  the same module with other {differ}: {entry['key'][:10]}")
    return 0


def _difference(root: pathlib.Path, entry: dict, here: str) -> str:
    """Why a process here would not find the entry, empty if it would."""
    if entry["state"] != "sound":
        return entry["state"]
    note = root / "makers" / f"{entry['maker']}.maker"
    if not note.exists():
        return "another maker, of which there is no note"
    there = note.read_text()
    if there == here:
        return ""
    lines = set(there.splitlines()) ^ set(here.splitlines())
    names = sorted({line.replace(":", " ").split()[0] for line in lines})
    return f"made by another maker: its {', '.join(names)} differs"


def _number(text: str) -> int:
    text = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = _UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    try:
        return int(float(digits) * unit)
    except ValueError:
        sys.exit(f"torchtpu cache: not a size: {text}; hint: as 500M or 4G")


def _age(seconds: float) -> str:
    for limit, length, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds / 86400:.0f} d ago"
