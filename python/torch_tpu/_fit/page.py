"""Reports as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from torch_tpu._cli.table import size
from torch_tpu._fit.report import Report, thinned

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
h2 { margin-top: 2em; border-bottom: 1px solid #ccc }
table { border-collapse: collapse; margin: 1em 0; width: 100% }
th, td { text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid #eee }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.fits { color: #17692c } .not { color: #a11 } .bar { background: #5b8def; height: .7em }
code { font-size: 12px; color: #555 } svg { background: #fafafa; width: 100%; height: auto }
"""
_WIDTH, _HEIGHT, _LEFT = 1000, 260, 70


def write(reports: Sequence[Report], title: str) -> str:
    """A page with a section for each report."""
    sections = "".join(_section(report) for report in reports)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>torchtpu fit {escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>torchtpu fit {escape(title)}</h1>{_overview(reports)}{sections}"
        "<p>Verdict and memory are the compiler's. Bounds are computed from published peaks; cycles "
        "are the compiler's own estimates, relative and not calibrated. Nothing was measured on a "
        "TPU.</p></html>\n"
    )


def _overview(reports: Sequence[Report]) -> str:
    rows = [
        (
            escape(r.topology),
            r.dtype,
            _verdict(r),
            size(r.hbm["needed"]) if r.hbm else "",
            size(r.hbm["limit"]) if r.hbm else "",
            f"{max(r.seconds['compute'], r.seconds['memory']) * 1e3:.3g}" if r.seconds else "",
            f"{r.seconds['compile']:.0f}" if r.seconds else "",
        )
        for r in reports
    ]
    head = ("topology", "dtype", "verdict", "#memory", "#limit", "#at least, ms", "#compiled in, s")
    return _table(head, rows)


def _verdict(report: Report) -> str:
    return f'<span class="{"fits" if report.fits else "not"}">{report.verdict}</span>'


def _section(report: Report) -> str:
    parts = [f"<h2>{escape(report.topology)} {report.dtype}: {_verdict(report)}</h2>"]
    parts += [f"<p>{escape(reason)}</p>" for reason in report.reasons]
    parts += [f"<p><b>advice</b> {escape(advice)}</p>" for advice in report.advice]
    if report.hbm:
        kinds = ("arguments", "results", "temporaries", "constants", "padding")
        listed = ", ".join(f"{kind} {size(report.hbm.get(kind, 0))}" for kind in kinds)
        parts.append(f"<h3>Memory over the program</h3><p>{listed}</p>{_timeline(report)}")
        parts.append(_tensors(report))
    if report.regions:
        parts.append(_regions(report))
    parts.append(_unit(report))
    notes = [f"{kind}: {n}, {size(moved)}" for kind, (n, moved) in report.collectives.items()]
    notes += [f"no estimate for {name}, {n} times" for name, n in report.uncosted.items()]
    notes += [f"loop of unknown length, counted once: {name}" for name in report.endless]
    return "".join(parts) + "".join(f"<p>{escape(note)}</p>" for note in notes)


def _timeline(report: Report) -> str:
    """Bytes in use at each instruction, and the limit, as a drawing."""
    used = thinned(report.timeline, _WIDTH - _LEFT)
    limit = report.hbm["limit"]
    top = 1.08 * max([*used, limit], default=1) or 1
    x = lambda i: _LEFT + i * (_WIDTH - _LEFT) / max(len(used) - 1, 1)  # noqa: E731
    y = lambda n: _HEIGHT - 20 - n * (_HEIGHT - 30) / top  # noqa: E731
    points = " ".join(f"{x(i):.1f},{y(n):.1f}" for i, n in enumerate(used))
    base = y(0)
    marks = "".join(
        f'<text x="{_LEFT - 6}" y="{y(n) + 4:.1f}" text-anchor="end" font-size="11">{size(n)}</text>'
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y(n):.1f}" y2="{y(n):.1f}" stroke="#e5e5e5"/>'
        for n in (0, top / 3, 2 * top / 3)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{marks}'
        f'<polygon points="{_LEFT},{base:.1f} {points} {_WIDTH},{base:.1f}" fill="#cfdcf7"/>'
        f'<polyline points="{points}" fill="none" stroke="#2f5fc4" stroke-width="1.5"/>'
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" '
        'stroke="#a11" stroke-dasharray="6 4"/>'
        f'<text x="{_WIDTH}" y="{y(limit) - 5:.1f}" text-anchor="end" font-size="11" fill="#a11">'
        f"limit {size(limit)}</text>"
        f'<text x="{_LEFT}" y="{_HEIGHT - 4}" font-size="11">first of {len(report.timeline)} '
        "instructions, in the order in which they run</text></svg>"
    )


def _tensors(report: Report) -> str:
    most = max((tensor.bytes for tensor in report.tensors), default=1)
    rows = [
        (
            size(t.bytes),
            size(t.padding),
            f'<div class="bar" style="width: {100 * t.bytes / most:.0f}px"></div>',
            t.kind,
            f"<code>{escape(t.type)}</code>",
            escape(t.name),
            f"<code>{escape(t.line)}</code>",
        )
        for t in report.tensors
    ]
    head = ("#bytes", "#padding", "", "kind", "type", "name", "line")
    return "<h3>Largest tensors at the peak</h3>" + _table(head, rows)


def _regions(report: Report) -> str:
    rows = [
        (
            escape(r["part"]),
            f"{r['flops']:.3g}",
            f"{r['bytes']:.3g}",
            f"{r['compute'] * 1e3:.3g}",
            f"{r['memory'] * 1e3:.3g}",
            r["bound"],
            f"{r['cycles'] / report.cycles:.1%}" if report.cycles else "",
            f"<code>{escape(r['line'])}</code>",
        )
        for r in report.regions
    ]
    head = ("part", "#operations", "#bytes", "#compute, ms", "#memory, ms", "bound by")
    return "<h3>Parts of the model</h3>" + _table((*head, "#cycles (relative)", "line"), rows)


def _unit(report: Report) -> str:
    rows = [
        (
            escape(loss["part"]),
            str(loss["count"]),
            f"{loss['rows']}x{loss['inner']} by {loss['inner']}x{loss['columns']}",
            f"{loss['lost']:.1%}",
            f"<code>{escape(loss['line'])}</code>",
        )
        for loss in report.unit
    ]
    head = ("part", "#products", "sizes", "#of all operations", "line")
    return "<h3>Products that do not fill the matrix unit</h3>" + _table(head, rows) if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns whose head begins with ``#`` are numbers."""
    classes = [' class="n"' if name.startswith("#") else "" for name in head]
    titles = "".join(f"<th{c}>{name.lstrip('#')}</th>" for c, name in zip(classes, head))
    lines = "".join(
        "<tr>" + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(classes, row)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{titles}</tr>{lines}</table>"
