"""A picture of a job as HTML: readable live, in a saved or untrusted notebook, in an exported page and without styles.

There is no script in it. Colours come from variables that a style element sets for light and for dark pages; where
that element is taken away (untrusted notebooks, code hosts) the page's own colours hold and the words say the same.
"""

from functools import cache
from html import escape

from labsupport.figures.palette import PALETTE
from labsupport.torchrun.view import in_words

__all__ = ["ANSI", "as_html", "style"]

# The eight colours of a terminal, each with 4.5 to 1 or more on `ground` and `raised`; tints hold text in ink.
ANSI = {
    "light": {
        "fg": ("#1f2328", "#b3261e", "#176b33", "#725400", "#0b57b7", "#8428a8", "#0a6273", "#57606a"),
        "bg": ("#d5d9de", "#fbd5cf", "#cdebd6", "#f5e6b8", "#d3e3fb", "#ecd9f7", "#cbeaf0", "#e6e9ed"),
    },
    "dark": {
        "fg": ("#e8ecf0", "#ff9a8c", "#6fd394", "#e3c266", "#8fc0ff", "#dba3f5", "#6fd0e3", "#a9b3be"),
        "bg": ("#4a525b", "#6b2a20", "#1f5234", "#574615", "#21466f", "#552a6b", "#17515d", "#3a424b"),
    },
}
_TONES = {"plain": "communicating", "good": "computing", "bad": "trouble", "wait": "wasted"}
_ROLES = {
    "starting": "idle",
    "running": "computing",
    "waiting": "waiting",
    "failed": "trouble",
    "done": "idle",
    "ended": "idle",
}
_SIGNS = {"starting": "…", "running": "▸", "waiting": "‖", "failed": "✕", "done": "✓", "ended": "■"}

_INK = "color:var(--tr-ink,var(--jp-content-font-color1,#1f2328))"
_GROUND = "background:var(--tr-ground,var(--jp-layout-color2,#f4f6f8))"
_PRE = (
    "margin:0;padding:0;background:transparent;color:inherit;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.4"
)
_GRID = (
    "display:grid;grid-template-columns:fit-content(11em) minmax(0,1fr);gap:.35em .9em;margin:.4em 0;"
    "align-items:baseline"
)
# A report brings a box of its own, drawn with Lab's colours: here it stands in ours.
_NO_BOX = "--jp-layout-color2:transparent;--jp-content-font-color1:var(--tr-ink)"
_QUIET = "color:var(--tr-quiet,inherit);font-size:.92em"


def as_html(picture):
    """Return a picture as one HTML element."""
    box = f"border-left:4px solid var(--tr-{_TONES[picture.tone]}-edge,#68717c);{_GROUND};{_INK}"
    parts = [
        f'<div class="lab-ranks" style="{box};padding:.5em .8em;margin:.2em 0;line-height:1.5">',
        f"<style>{style()}</style>",
        f'<div style="font-weight:600">{escape(picture.head)}</div>',
        _standings(picture.standings),
    ]
    for title, blocks in picture.sections:
        if title:
            parts.append(f'<div style="font-weight:600;margin-top:.5em">{escape(title)}</div>')
        parts += [f'<div style="{_GRID}">', *map(_block, blocks), "</div>"]
    parts += [f'<div style="{_NO_BOX};margin-top:.4em">{report.html()}</div>' for report in picture.reports]
    parts.append(_folded(picture.folded))
    parts += [f'<div style="{_QUIET};overflow-wrap:anywhere">{escape(note)}</div>' for note in picture.notes]
    return "".join([*parts, "</div>"])


def _folded(folded):
    """Return what is opened by a click: an element that works without a script."""
    if not folded:
        return ""
    texts = "".join(
        f'<div style="font-weight:600">{escape(title)}</div><pre style="{_PRE}">{escape(_shortened(text))}</pre>'
        for title, text in folded
    )
    many = "s" if len(folded) > 1 else ""
    return (
        f'<details style="margin:.4em 0"><summary style="cursor:pointer">traceback{many} as printed</summary>'
        f'<div style="margin:.3em 0">{texts}</div></details>'
    )


def _shortened(text, room=8_000):
    text = text.rstrip()
    return text if len(text) <= room else f"{text[: room // 2]}\n…\n{text[-room // 2 :]}"


def _standings(standings):
    if not standings:
        return ""
    several = any(standing.node is not None for standing in standings)
    chips = [
        (rank, standing) for standing in standings for rank in standing.ranks
    ]  # one for each rank: whoever looks for rank 2 finds it at its place
    chips.sort(key=lambda chip: chip[0])
    items = "".join(_chip(rank, standing, several) for rank, standing in chips)
    flow = "display:flex;flex-wrap:wrap;gap:.3em;list-style:none;margin:.3em 0;padding:0"
    return f'<ul style="{flow}" aria-label="state of every rank">{items}</ul>'


def _chip(rank, standing, several):
    role = _ROLES.get(standing.kind, "idle")
    look = (
        f"margin:0;padding:0 .5em;border-radius:.3em;border:1px solid var(--tr-{role}-edge,#68717c);"
        f"background:var(--tr-{role},transparent);color:var(--tr-{role}-text,inherit)"
    )
    node = f" on node {standing.node}" if several else ""
    sign = f'<span aria-hidden="true">{_SIGNS.get(standing.kind, "")} </span>'
    return (
        f'<li style="{look}" data-state="{standing.kind}">{sign}<b>rank {rank}</b>{node} {escape(standing.words)}</li>'
    )


def _block(block):
    label = escape(in_words(block.ranks))
    if block.errors:
        label += f' <span style="{_QUIET}">stderr</span>'
    if block.behind:
        label += f'<div style="{_QUIET}">{escape(block.behind)}</div>'
    gap = f'<div style="{_QUIET};font-style:italic">… {escape(block.left_out)}</div>' if block.left_out else ""
    text = "".join([_pre(block.first), gap, _pre(block.last)])
    return f'<div style="font-weight:600">{label}</div><div>{text}</div>'


def _pre(lines):
    if not lines:
        return ""
    return f'<pre style="{_PRE}">{chr(10).join(map(_line, lines))}</pre>'


def _line(runs):
    pieces = [(text, style) for text, style in runs]
    if pieces and not pieces[-1][1]:
        pieces[-1] = (pieces[-1][0].rstrip(), "")
    return "".join(
        f'<span style="{_css(style)}">{escape(text)}</span>' if style else escape(text) for text, style in pieces
    )


@cache
def _css(style):
    """Return the CSS of a style ("bold fg1"): only such that its text can be read."""
    words = style.split()
    foreground = next((word[2:] for word in words if word.startswith("fg")), None)
    background = next((word[2:] for word in words if word.startswith("bg")), None)
    if "inverse" in words:
        foreground, background = background, foreground or "7"
    looks = []
    if background is not None:  # on a tint every text is in ink
        looks.append(f"background:var(--tr-bg{background});color:var(--tr-ink)")
    elif foreground is not None:
        looks.append(f"color:var(--tr-fg{foreground})")
    elif "faint" in words:
        looks.append("color:var(--tr-quiet)")
    fixed = {"bold": "font-weight:bold", "italic": "font-style:italic"}
    looks += [css for word, css in fixed.items() if word in words]
    lines = [css for word, css in (("underline", "underline"), ("strike", "line-through")) if word in words]
    return ";".join(looks + ([f"text-decoration:{' '.join(lines)}"] if lines else []))


@cache
def style():
    """Return the style sheet: the colours for light pages, and for dark ones however a page says that it is dark."""
    light, dark = _variables("light"), _variables("dark")
    return (
        f".lab-ranks{{{light}}}"
        f"@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]):not(.vscode-light) .lab-ranks{{{dark}}}}}"
        f'[data-jp-theme-light="false"] .lab-ranks,.vscode-dark .lab-ranks{{{dark}}}'
    )


def _variables(theme):
    colours = PALETTE[theme]
    names = {"ink": colours["ink"], "quiet": colours["quiet"], "ground": colours["raised"]}
    for role in sorted({*_TONES.values(), *_ROLES.values()}):
        fill, edge, text = colours["roles"][role]
        names |= {role: fill, f"{role}-edge": edge, f"{role}-text": text}
    for ground, values in ANSI[theme].items():
        names |= {f"{ground}{i}": colour for i, colour in enumerate(values)}
    return "".join(f"--tr-{name}:{colour};" for name, colour in names.items())
