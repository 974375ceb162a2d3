"""Builds the docs as a site: `make docs`, or `python docs/site/build.py` where Sphinx is installed.

The pages are the Markdown files of this repository as they stand. README.md and others of the
folder above become pages beside those of docs/, and links lead to where things lie in the site; a
link to a file that is no part of it is its words alone. Any warning of Sphinx, such as of a link to
a heading that is not there, is an error, as is a link to a file that is not there. The site lies in
build/docs, and needs no network and no server.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
# Files of the folder above as pages; the README is the first.
ABOVE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "assets/examples/README.md": "samples.md",
    "studies/README.md": "studies.md",
}
NAV = {
    "Start": ("tour", "faq"),
    "What is computed": (
        "parts", "catalogue", "statistics", "training", "tuning", "long-texts", "looking",
        "samples",
    ),
    "In use": (
        "trainer", "serving", "scikit-learn", "vectors", "folders",
        "api", "json", "deploy", "PERFORMANCE", "PERFORMANCE-zen4", "PROMISES",
    ),
    "Extras": ("extras", *(f"extra-{path.stem}" for path in sorted(DOCS.glob("extras/*.md")))),
    "The project": (
        "adding-parts", "contributing", "design", "testing", "studies", "publishing", "security",
        "changelog",
    ),
}  # fmt: skip
PICTURES = (".png", ".webp", ".svg", ".ipynb")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
LINK = re.compile(
    r"(?P<image>!?)\[(?P<words>[^\]]*)\]"
    r"\((?P<path>(?!https?:|#)[^)\s#]+)(?P<at>#[^)\s]*)?\)"
)
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def places() -> dict[Path, str]:
    """Every file that is part of the site, and where it lies in it."""
    found = {ROOT / path: name for path, name in ABOVE.items()}
    found |= {path: path.name for path in sorted(DOCS.glob("*.md"))}
    found |= {path: f"extra-{path.name}" for path in sorted(DOCS.glob("extras/*.md"))}
    pictures = (*DOCS.glob("*"), *DOCS.glob("images/*"), *(ROOT / "assets").glob("*"))
    return found | {path: path.name for path in sorted(pictures) if path.suffix in PICTURES}


def page(path: Path, known: dict[Path, str]) -> str:
    """A Markdown file as a page of the site."""
    text = FRONT_MATTER.sub("", path.read_text("utf-8"))
    pieces = FENCE.split(text)  # every second one is code, and stays

    def link(found: re.Match[str]) -> str:
        target = (path.parent / found["path"]).resolve()
        if not target.exists():
            raise FileNotFoundError(f"{path.name} links to {found['path']}, which is not there.")
        place = known.get(target)
        if place:
            return f"{found['image']}[{found['words']}]({place}{found['at'] or ''})"
        return found["words"]

    pieces[::2] = [LINK.sub(link, piece) for piece in pieces[::2]]
    return "".join(pieces)


def nav() -> str:
    """What stands in the margin of every page."""
    trees = [
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in NAV.items()
    ]
    return "\n" + "\n".join(trees)


def stage(folder: Path) -> None:
    """Writes the sources of the site into a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "drawings").mkdir(parents=True)
    known = places()
    for path, name in known.items():
        if path.suffix == ".md":
            text = page(path, known) + (nav() if name == "index.md" else "")
            (folder / name).write_text(text, "utf-8")
        else:
            shutil.copy(path, folder / name)
            if path.suffix == ".svg":
                shutil.copy(path, folder / "drawings" / name)
    shutil.copy(Path(__file__).with_name("conf.py"), folder)


def main() -> int:
    """Builds the site; 0 where nothing was wrong with it."""
    sources, site = BUILD / "docs-sources", BUILD / "docs"
    stage(sources)
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run([*command, str(sources), str(site)], check=False)
    if done.returncode == 0:
        print(f"the site is {site / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
