"""One palette for every picture: what a colour means, in light and in dark.

A role is a meaning, not a hue. `wanted` is what was asked for, `touched` what is read on the way, `wasted` what is read
for nothing; `waiting`, `computing` and `communicating` are what a worker does with its time; `trouble` cannot work.
Text on a fill reaches 4.5 to 1, an edge against the background 3 to 1: the unit tests compute both.
"""

__all__ = ["PALETTE", "ROLES", "contrast", "css_variables", "luminance", "simulate"]

ROLES = ("idle", "touched", "wanted", "wasted", "waiting", "computing", "communicating", "trouble")

# role: (fill, edge, text)
_LIGHT = {
    "idle": ("#ffffff", "#7d8590", "#57606a"),
    "touched": ("#d6e6fb", "#2a6cc7", "#0f2747"),
    "wanted": ("#0b57b7", "#062f66", "#ffffff"),
    "wasted": ("#f3ead2", "#8a6a14", "#4a3800"),
    "waiting": ("#e6e9ed", "#68717c", "#2c333a"),
    "computing": ("#d2efdc", "#1b7f45", "#0b3a1e"),
    "communicating": ("#eadffb", "#7546bd", "#371a63"),
    "trouble": ("#fde2dc", "#c0321c", "#701606"),
}
_DARK = {
    "idle": ("#15191e", "#75808c", "#a9b3be"),
    "touched": ("#1c395f", "#6aa3ea", "#e4efff"),
    "wanted": ("#8fc0ff", "#dcebff", "#05172e"),
    "wasted": ("#3a3116", "#b99b4a", "#f3e6bd"),
    "waiting": ("#2a3037", "#8a95a1", "#dde3e9"),
    "computing": ("#153b25", "#4fb97a", "#d8f5e3"),
    "communicating": ("#33244f", "#ab86ea", "#efe5ff"),
    "trouble": ("#4c1a12", "#f0826d", "#ffe3dc"),
}
PALETTE = {
    "light": {"ground": "#ffffff", "raised": "#f4f6f8", "ink": "#1f2328", "quiet": "#57606a", "line": "#7d8590",
              "focus": "#0b57b7", "roles": _LIGHT},
    "dark": {"ground": "#15191e", "raised": "#20262d", "ink": "#e8ecf0", "quiet": "#a9b3be", "line": "#75808c",
             "focus": "#8fc0ff", "roles": _DARK},
}  # fmt: skip

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear RGB.
_DEFICIENCY = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def _linear(colour):
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(rgb):
    """Return the relative luminance (0 to 1) of a `#rrggbb` colour or of three linear channels."""
    red, green, blue = _linear(rgb) if isinstance(rgb, str) else rgb
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """Return the contrast ratio (1 to 21) of two colours, as WCAG 2.2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def simulate(colour, deficiency):
    """Return the linear RGB that `colour` looks like under "protan", "deutan" or "tritan" vision."""
    rgb = _linear(colour)
    return [min(1, max(0, sum(m * c for m, c in zip(row, rgb, strict=True)))) for row in _DEFICIENCY[deficiency]]


def css_variables():
    """Return the palette as CSS custom properties, for both themes, scoped to the figures."""
    blocks = []
    for theme, colours in PALETTE.items():
        names = [f"--{key}:{colours[key]}" for key in ("ground", "raised", "ink", "quiet", "line", "focus")]
        for role, (fill, edge, text) in colours["roles"].items():
            names += [f"--{role}:{fill}", f"--{role}-edge:{edge}", f"--{role}-text:{text}"]
        blocks.append(f'.lab-figure[data-theme="{theme}"]{{color-scheme:{theme};{";".join(names)}}}')
    return "\n".join(blocks) + "\n"
