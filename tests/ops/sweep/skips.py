"""What is known not to agree with the CPU, and why: `skips.toml`."""

import fnmatch
import pathlib
import tomllib
from dataclasses import dataclass

from . import cases

FILE = pathlib.Path(__file__).parents[1] / "skips.toml"
# How a reason starts where the reference itself is not the same each time: passing is no news.
VARIES = "varies: "


@dataclass(frozen=True)
class Skip:
    """Forms of operators with dtypes that fail, and the reason."""

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    forms: tuple[str, ...]
    reason: str
    but: tuple[str, ...] = ()

    def covers(self, op, dtype, form):
        found = any(fnmatch.fnmatchcase(op, pattern) for pattern in self.ops) and op not in self.but
        types = self.dtypes == ("*",) or dtype in self.dtypes
        return found and types and (self.forms == ("*",) or form in self.forms)


def load(text=None):
    """The entries of the file. Raises `ValueError` for one that cannot apply to anything."""
    entries = tomllib.loads(FILE.read_text() if text is None else text).get("skip", [])
    return [_parse(entry) for entry in entries]


def _parse(entry):
    unknown = entry.keys() - {"op", "but", "dtype", "form", "reason"}
    if unknown or not entry.get("reason", "").strip():
        raise ValueError(f"a skip has op, but, dtype, form and a reason: {entry}")
    ops, dtypes, forms = (_list(entry.get(key, "*")) for key in ("op", "dtype", "form"))
    but = _list(entry.get("but", ()))
    for pattern in (*ops, *but):
        if not fnmatch.filter(cases.operators(), pattern):
            raise ValueError(f"no operator is called `{pattern}`: {entry}")
    for form in forms:
        if form not in ("*", *cases.FORMS):
            raise ValueError(f"no form is called `{form}`: {entry}")
    return Skip(ops, dtypes, forms, entry["reason"], but)


def _list(value):
    return tuple([value] if isinstance(value, str) else value)


def reasons(skips, case):
    """`{form: reason}` of the forms of a case that are listed."""
    return {
        form: skip.reason
        for form, amount in case.amounts
        for skip in skips
        if amount != 0 and skip.covers(case.op, case.dtype, form)
    }


def judge(case, results, listed):
    """What is wrong with a case's results: failures that are not listed, entries that pass."""
    wrong = []
    for form, result in results.items():
        if form in listed and result["failed"] == 0 and result["checks"] > 0:
            if listed[form].startswith(VARIES):
                continue
            wrong.append(f"{form} passes, but skips.toml lists it: {listed[form]}")
        elif form not in listed and result["failed"]:
            told = [f"  {one['sample']}\n    {one['error']}" for one in result["told"]]
            count = f"{form}: {result['failed']} of {result['checks']} samples fail"
            wrong.append("\n".join([count, *told]))
    return "\n".join(wrong)
