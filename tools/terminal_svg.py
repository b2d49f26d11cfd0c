#!/usr/bin/env python3
"""Draws what a program printed as an SVG of a terminal.

    some-command | tools/terminal_svg.py "TITLE" > picture.svg

Lines that begin with "$ " are drawn as commands. Only the standard library is used.
"""

import html
import sys

LETTER_PX, LINE_PX, MARGIN_PX, BAR_PX = 7.83, 19, 18, 34


def row(number, line):
    y = BAR_PX + MARGIN_PX + number * LINE_PX
    style = ' class="command"' if line.startswith("$ ") else ""
    return f'<text x="{MARGIN_PX}" y="{y}"{style}>{html.escape(line)}</text>'


def main():
    title = sys.argv[1]
    lines = [line.rstrip() for line in sys.stdin.read().rstrip().split("\n")]
    width = round(2 * MARGIN_PX + LETTER_PX * max(map(len, lines)))
    height = BAR_PX + 2 * MARGIN_PX + LINE_PX * (len(lines) - 1)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">')
    print(f"<title>{html.escape(title)}</title>")
    print(
        "<style>text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#d8dee9;white-space:pre}.command{fill:#8fd3a8;font-weight:bold}"
        ".title{fill:#8a93a5}</style>"
    )
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#171b22"/>')
    for place, colour in enumerate(["#e06c75", "#e5c07b", "#98c379"]):
        print(f'<circle cx="{20 + 18 * place}" cy="17" r="5" fill="{colour}"/>')
    print(f'<text x="84" y="22" class="title">{html.escape(title)}</text>')
    print("\n".join(row(number, line) for number, line in enumerate(lines) if line))
    print("</svg>")


main()
