"""A report as HTML: the recommendation, bars with a text of their own, a table. No script; readable without styles."""

from html import escape

from labsupport.figures.palette import PALETTE
from labsupport.loaderbench.measuring import spread_of
from labsupport.loaderbench.table import rows_of
from labsupport.loaderbench.wording import duration

__all__ = ["as_html", "bars"]

_PARTS = {"wait": "waiting", "transfer": "communicating", "step": "computing"}
_WIDTH, _ROW = 420, 18


def as_html(report):
    """Return the report as one HTML element."""
    header, *rows = rows_of(report)
    head = "".join(
        f'<th scope="col" style="text-align:{_side(at)};padding:.1em .6em">{escape(c)}</th>'
        for at, c in enumerate(header)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row" style="text-align:left;font-weight:{"600" if c.startswith("*") else "400"};'
            f'white-space:nowrap">{escape(c)}</th>'
            if at == 0
            else f'<td style="text-align:right;white-space:nowrap;padding:.1em .6em">{escape(c)}</td>'
            for at, c in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    because = "".join(f"<li>{escape(sentence)}</li>" for sentence in report.decision.because)
    call = ""
    if report.decision.verdict == "change":
        call = f'<pre style="margin:.3em 0">{escape(report.decision.setting.call())}</pre>'
    refused = "".join(
        f"<div>not run: {escape(words)}: {escape(error.what)}. {escape(error.next_step or '')}</div>"
        for words, error in report.not_run()
    )
    notes = "".join(f"<div>note: {escape(note)}</div>" for note in report.notes)
    return (
        f'<div class="lab-loaderbench" style="overflow-x:auto"><style>{_style()}</style>'
        f'<div style="font-weight:600">{escape(report.decision.headline())}</div>'
        f'<ul style="margin:.3em 0">{because}</ul>'
        f"{call}{bars(report)}"
        f'<table><caption style="text-align:left">{escape(report.title())}; * is recommended; times are medians, per '
        f"batch unless said</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{refused}{notes}</div>"
    )


def _side(at):
    return "left" if at == 0 else "right"


def _style():
    rules = []
    for theme, colours in PALETTE.items():
        names = f"--lb-ink:{colours['ink']};"
        for role in _PARTS.values():
            fill, edge, _ = colours["roles"][role]
            names += f"--lb-{role}:{fill};--lb-{role}-edge:{edge};"
        where = ".lab-loaderbench" if theme == "light" else '[data-jp-theme-light="false"] .lab-loaderbench'
        rules.append(f"{where}{{{names}}}")
    return "".join(rules)


def bars(report):
    """Return one bar per setting as SVG: how a batch's time divides into waiting, transfer and step."""
    parts = {setting: _parts(samples) for setting, samples in report.samples.items()}
    longest = max((sum(values) for values in parts.values()), default=0) or 1
    height = _ROW * len(parts) + 20
    drawn = []
    for row, (label, values) in enumerate(zip(_labels(parts), parts.values())):
        drawn += _bar(row, label, values, longest)
    for at, (name, role) in enumerate(_PARTS.items()):
        drawn.append(f'<rect x="{200 + 90 * at}" y="{height - 13}" width="10" height="10" {_paint(role)}/>')
        drawn.append(f'<text x="{214 + 90 * at}" y="{height - 4}" {_TEXT}>{name}</text>')
    words = "; ".join(
        f"{setting.words()}: " + ", ".join(f"{name} {duration(v)}" for name, v in zip(_PARTS, values) if v)
        for setting, values in parts.items()
    )
    return (
        f'<svg role="img" aria-label="Time per batch. {escape(words, quote=True)}" width="{200 + _WIDTH + 80}" '
        f'height="{height}" viewBox="0 0 {200 + _WIDTH + 80} {height}">{"".join(drawn)}</svg>'
    )


_TEXT = 'font-size="11" font-family="sans-serif" fill="var(--lb-ink,currentColor)"'


def _paint(role):
    fill, edge, _ = PALETTE["light"]["roles"][role]  # where the style element is taken away
    return f'fill="var(--lb-{role},{fill})" stroke="var(--lb-{role}-edge,{edge})"'


def _parts(samples):
    """Return the seconds of one batch that are waiting, transfer and step."""
    return [spread_of(getattr(s, name) for s in samples).median for name in ("wait_s", "transfer_s", "compute_s")]


def _bar(row, label, values, longest):
    y, x = _ROW * row + 2, 200.0
    yield f'<text x="194" y="{y + 11}" text-anchor="end" {_TEXT}>{escape(label)}</text>'
    for value, role in zip(values, _PARTS.values()):
        width = _WIDTH * value / longest
        if width >= 0.5:
            yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="14" {_paint(role)}/>'
        x += width
    yield f'<text x="{x + 5:.1f}" y="{y + 11}" {_TEXT}>{duration(sum(values))}</text>'


def _labels(settings):
    """Return what tells the settings apart, short enough to stand beside a bar; the table below has all of it."""
    all_parts = [setting.words().split(", ") for setting in settings]
    shared = set.intersection(*map(set, all_parts)) if len(all_parts) > 1 else set()
    labels = [", ".join(part for part in parts if part not in shared) or ", ".join(parts) for parts in all_parts]
    return [label if len(label) <= 34 else label[:33] + "…" for label in labels]
