"""Draw charts as SVG; equal results give equal files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["bars", "chart"]

_WIDTH: Final = 760
_HEIGHT: Final = 360
_LEFT: Final = 60
_RIGHT: Final = 250
_TOP: Final = 34
_BOTTOM: Final = 44
#: Distinct for most eyes, and on a dark page; after Okabe and Ito.
_COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f")
_TEXT: Final = 'font-family="sans-serif" font-size="11" fill="#777"'
_DASHES: Final = ("", "6 3", "2 3")


def chart(title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return lines over a logarithmic axis, from points `(across, up)`, the names of the lines beside."""
    places = sorted({x for points in series.values() for x, _ in points})
    top = _round_up(max((y for points in series.values() for _, y in points), default=1.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_TEXT}>',
        f'<text x="{_LEFT}" y="18" font-size="14" font-weight="bold">{title}</text>',
        f'<text x="{_LEFT - 6}" y="{_TOP - 4}" text-anchor="end">{up}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{across}</text>',
    ]
    for step in range(6):
        y = _y(top * step / 5, top)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#7775" fill="none"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * step / 5:,.0f}</text>')
    for place in places:
        x = _x(place, places)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{place:,.0f}</text>')
    for number, (name, points) in enumerate(series.items()):
        color = _COLORS[number % len(_COLORS)]
        dash = _DASHES[number // len(_COLORS) % len(_DASHES)]
        line = "L".join(f"{_x(x, places):.1f} {_y(y, top):.1f}" for x, y in sorted(points))
        look = f'stroke="{color}" stroke-width="2" fill="none" stroke-dasharray="{dash}"'
        parts.append(f'<path d="M{line}" {look}/>')
        parts += [
            f'<circle cx="{_x(x, places):.1f}" cy="{_y(y, top):.1f}" r="3" fill="{color}"/>' for x, y in sorted(points)
        ]
        y = _TOP + 8 + 13 * number
        left = _WIDTH - _RIGHT + 14
        parts.append(f'<path d="M{left} {y - 4}h18" {look}/><text x="{left + 24}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def bars(title: str, names: tuple[str, str], pairs: Mapping[str, tuple[float, float]]) -> str:
    """Return two bars for each pair, with their values; the names of the two are the legend."""
    left, step = 250, 46
    most = max((value for pair in pairs.values() for value in pair), default=1.0)
    height = _TOP + 24 + step * len(pairs)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_TEXT}>',
        f'<text x="10" y="18" font-size="14" font-weight="bold">{title}</text>',
    ]
    for number, name in enumerate(names):
        x = left + 150 * number
        parts.append(f'<rect x="{x}" y="{_TOP - 6}" width="11" height="11" fill="{_COLORS[number]}"/>')
        parts.append(f'<text x="{x + 16}" y="{_TOP + 4}">{name}</text>')
    for place, (name, pair) in enumerate(pairs.items()):
        y = _TOP + 22 + step * place
        parts.append(f'<text x="{left - 10}" y="{y + 21}" text-anchor="end">{name}</text>')
        for number, value in enumerate(pair):
            width = value / most * (_WIDTH - left - 60)
            at = y + 17 * number
            parts.append(f'<rect x="{left}" y="{at}" width="{width:.1f}" height="15" fill="{_COLORS[number]}"/>')
            parts.append(f'<text x="{left + width + 6:.1f}" y="{at + 12}">{value:,.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _x(value: float, places: Sequence[float]) -> float:
    """Return where a value lies across; a single one in the middle."""
    low, high = math.log(places[0]), math.log(places[-1])
    share = (math.log(value) - low) / (high - low) if high > low else 0.5
    return _LEFT + 20 + share * (_WIDTH - _LEFT - _RIGHT - 40)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _round_up(value: float) -> float:
    """Return the next value that five steps divide well."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 2.5, 5, 10) if step * unit >= value)
