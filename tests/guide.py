"""The pages of the project as HTML, the guide before the reference: `make docs`.

Every page of Markdown is one of HTML at the same place, so that links between them, and to
pictures, are those of the source. What they link to comes along.
"""

import html
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

PAGES = {
    "README.md": "hopfed",
    "hopfed/pages/tables.md": "Tables",
    "hopfed/pages/owners.md": "Owners",
    "hopfed/pages/physics.md": "Physics",
    "hopfed/pages/networks.md": "Networks",
    "hopfed/pages/devices.md": "Devices",
    "theory/NOTES.md": "Notes: the formulas",
    "experiments/README.md": "Results",
    "figures/gallery/README.md": "Pictures",
    "CONTRIBUTING.md": "Contributing",
    "CHANGELOG.md": "Changes",
}
STYLE = """
:root { color-scheme: light dark; --line: #8884; --code: #8881; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; display: flex; }
nav { padding: 1.5rem; flex: 0 0 13rem; border-right: 1px solid var(--line); }
nav { position: sticky; top: 0; align-self: start; }
nav a { display: block; padding: .15rem 0; text-decoration: none; }
nav a[aria-current] { font-weight: 700; }
main { padding: 1rem 2rem 4rem; max-width: 56rem; min-width: 0; flex: 1; overflow-wrap: anywhere; }
img { max-width: 100%; background: #fff; }
pre { background: var(--code); padding: .7rem 1rem; overflow-x: auto; }
code { background: var(--code); padding: .1em .25em; font-size: .9em; }
pre code { background: none; padding: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; min-width: 5rem; }
td, th { vertical-align: top; overflow-wrap: normal; }
.formula { overflow-wrap: normal; }
@media (max-width: 50rem) {
  body { display: block; }
  nav { position: static; columns: 2; padding: 1rem; }
  nav { border: 0; border-bottom: 1px solid var(--line); }
  main { padding: 0 1rem 3rem; }
  .formula { display: inline-block; max-width: 100%; overflow: auto hidden; }
  .formula { vertical-align: middle; }
}
"""
LINK = re.compile(r'(?:href|src)="([^"]+)"')


def build(root, folder):
    """Write the pages of the checkout `root` below `folder`; return the links that lead nowhere."""
    root, folder = Path(root), Path(folder)
    made = {path: _body((root / path).read_text(encoding="utf-8")) for path in PAGES}
    for path, body in made.items():
        out = folder / Path(path).with_suffix(".html")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(_page(path, body), encoding="utf-8")
        for place in _places(path, body):
            if place not in PAGES and (root / place).is_file():
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / place, folder / place)
    return [f"{path}: {link}" for path, body in made.items() for link in _lost(path, body, folder)]


def _body(text):
    """HTML of Markdown: tables in boxes that scroll, code in colours, formulas as MathML."""
    reader = MarkdownIt("commonmark", {"highlight": _coloured}).enable("table")
    reader.use(anchors_plugin, max_level=4)
    reader.use(dollarmath_plugin, renderer=_formula, allow_labels=False)
    reader.add_render_rule("fence", _fence)
    body = reader.render(text)
    body = body.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )
    return re.sub(r'href="(?!\w+:)([^"#]*)\.md(#[^"]*)?"', r'href="\1.html\2"', body)


def _fence(renderer, tokens, at, options, env):
    """Blocks of code, and formulas that stand in one as GitHub has them."""
    if tokens[at].info.strip() == "math":
        return f'<div class="wide">{_formula(tokens[at].content, {"display_mode": True})}</div>\n'
    return renderer.fence(tokens, at, options, env)


def _coloured(code, language, _):
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return highlight(code, lexer, HtmlFormatter(noclasses=True, nobackground=True, nowrap=True))


def _formula(text, options):
    formula = convert(text, display="block" if options["display_mode"] else "inline")
    return f'<span class="formula">{formula}</span>'


def _page(path, body):
    up = "../" * path.count("/")
    links = []
    for to, title in PAGES.items():
        address = up + Path(to).with_suffix(".html").as_posix()
        here = ' aria-current="page"' if to == path else ""
        links.append(f'<a href="{address}"{here}>{html.escape(title)}</a>')
    links.append(f'<a href="{up}../hopfed.html">Reference</a>')
    title = html.escape(PAGES[path])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f"<body><nav>{''.join(links)}</nav><main>{body}</main></body></html>\n"
    )


def _places(path, body):
    """Files of the checkout that a page links to, relative to its root."""
    for link in LINK.findall(body):
        parts = urlsplit(html.unescape(link))
        if not parts.scheme and parts.path:
            parents = Path(path).parent.parts
            place = unquote(parts.path)
            while place.startswith("../") and parents:
                place, parents = place[3:], parents[:-1]
            yield Path(*parents, place).as_posix()


def _lost(path, body, folder):
    """Links of a page that lead to no file, or to no heading of it."""
    here = Path(path).with_suffix(".html")
    for link in LINK.findall(body):
        parts = urlsplit(html.unescape(link))
        if parts.scheme:
            continue
        target = folder / here.parent / unquote(parts.path) if parts.path else folder / here
        anchored = not parts.fragment or (
            target.is_file() and f'id="{parts.fragment}"' in target.read_text(encoding="utf-8")
        )
        if not target.is_file() or not anchored:
            yield link
