"""The reference as HTML, a page for every public module: `make docs`."""

import importlib
import re
import sys
from pathlib import Path
from typing import ForwardRef

import pdoc
from reference import modules, names

import hopfed

FIRST = '<!doctype html><meta http-equiv="refresh" content="0; url=hopfed.html">\n'


def markdown(docstring):
    """Markdown of a docstring in the NumPy format, whose items are names with a description."""
    text = re.sub(r":\w+:`", "`", docstring)
    text = re.sub(r"(?m)^(\w[\w ]*)\n-{3,}$", r"###### \1", text)
    return re.sub(r"(?m)^(\w[\w ,.]*?) +: (?=\S)", r"- **\1**: ", text)


class Written:
    """A type as the source has it: ArrayLike, not the union of a dozen that it stands for."""

    def __init__(self, annotation):
        self.text = getattr(annotation, "__forward_arg__", annotation)

    def __repr__(self):
        return self.text


def _as_written(annotation, *_):
    return Written(annotation) if isinstance(annotation, (str, ForwardRef)) else annotation


def build(folder, wanted=None):
    """Write the pages of the modules `wanted`, all by default, and return the names missing."""
    pdoc.render.configure(include_undocumented=False, footer_text=f"hopfed {hopfed.__version__}")
    pdoc.render.env.filters["to_markdown"] = markdown
    pdoc.doc.safe_eval_type = _as_written
    public = {name: dict(names(importlib.import_module(name))) for name in wanted or modules()}
    for name, things in public.items():
        vars(sys.modules[name]).update(things)  # pdoc looks for none that are loaded on first use
    _list_modules(public)
    pages = {name: pdoc.doc.Module.from_name(name) for name in public}
    missing = []
    for name, page in pages.items():
        path = Path(folder, *name.split(".")).with_suffix(".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        html = pdoc.render.html_module(page, pages)
        path.write_text(html, encoding="utf-8")
        missing += [f"{name}.{n}" for n in public[name] if f'id="{n}"' not in html]
    Path(folder, "search.js").write_text(pdoc.render.search_index(pages), encoding="utf-8")
    return missing


def _list_modules(pages):
    """Let the first page, that of hopfed, lead to the others, and list every public name."""
    lines = [
        f"- [{name}]({name.replace('.', '/')}.html): {sys.modules[name].__doc__.splitlines()[0]}"
        f" {', '.join(f'`{each}`' for each in held)}"
        for name, held in pages.items()
        if name != "hopfed"
    ]
    hopfed.__doc__ = "\n".join([hopfed.__doc__ or "", "", *lines])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    lost = build(folder)
    (folder / "index.html").write_text(FIRST, encoding="utf-8")
    print(f"{len(list(modules()))} pages in {folder}; not on them: {', '.join(lost) or 'none'}")
    sys.exit(bool(lost))
