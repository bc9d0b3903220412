"""pages.py ROOT: do the pages say of the C and C++ interfaces what the sources say?

Samples of C and C++: above each the page links its source, a program that the tests compile; the nearest link of the
same section counts. The sample has to be in that file, word for word; white space does not count, and a line of
`// ...` stands for what the page leaves out. A sample of CMake is held to its source where that is a CMakeLists.txt.

Names: those in the columns C++ and C of docs/reference/settings.md, and tally::NAME and tally_STRUCTURE::FIELD in all pages,
have to be in an installed header.

Links lead to files of the repository and to their headings.

Words that docs/glossary.md names as not used any more must not be in the sources.
"""
import functools
import pathlib
import re
import sys

fence = re.compile(r"```(\w*)$")
link = re.compile(r"\]\(([^)#]+(?:\.(?:c|cpp|cu)|CMakeLists\.txt))\)")
left_out = re.compile(r"^\s*(?://|#) \.\.\.\s*$", re.MULTILINE)
qualified = re.compile(r"`(tally(?:::\w+)+|tally_\w+::\w+)")
cmake_targets = {"tally::embedded", "tally::runtime"}


def words(text):
    return f" {' '.join(text.split())} "


def is_part(sample, source):
    at = 0
    for piece in left_out.split(sample):
        found = source.find(words(piece), at)
        if found < 0:
            return False
        at = found + len(words(piece)) - 1
    return True


def samples(page):
    """Language, line, text and source of each."""
    language = source = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if language is None:
            if opened := fence.match(line.strip()):
                language, first, text = opened[1], number, []
            elif line.startswith("#"):
                source = None
            for target in link.findall(line):
                source = page.parent / target
        elif line.strip() == "```":
            yield language, first, "\n".join(text), source
            language = None
        else:
            text.append(line)


def wrong_samples(root, page):
    for language, line, text, source in samples(page):
        is_build = source is not None and source.name == "CMakeLists.txt"
        if language not in (("cmake",) if is_build else ("c", "cpp")):
            continue
        if source is None:
            yield line, "no link to a source above this sample"
        elif not source.is_file():
            yield line, f"there is no {source.resolve().relative_to(root)}"
        elif not is_part(text, words(source.read_text())):
            yield line, f"this sample is not in {source.resolve().relative_to(root)}"
        else:
            yield line, None


def names(page):
    """Line and name of each."""
    columns = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for name in qualified.findall(line):
            if name not in cmake_targets:
                yield from ((number, part) for part in name.split("::"))
        cells = line.split("|")
        if page.name != "settings.md" or len(cells) < 3:
            columns = None
        elif columns is None:
            columns = [at for at, title in enumerate(cells) if title.strip() in ("C++", "C")]
        else:
            for quoted in re.findall("`([^`]+)`", " ".join(cells[at] for at in columns)):
                yield from ((number, name) for name in re.findall(r"[A-Za-z_]\w*", quoted))


def wrong_names(public, page):
    for line, name in names(page):
        yield line, None if name in public else f"no installed header has the name {name}"


@functools.cache
def anchors(page):
    """Of a page's headings, as the web pages of git hosts make them."""
    found = set()
    fenced = False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("#"):
            found.add(re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-"))
    return found


def broken_links(root, page):
    """Line and link of each that leads to no file of the repository, or to no heading of it."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                yield number, f"the link {target} leads to no file"
            elif heading and file.suffix == ".md" and heading not in anchors(file):
                yield number, f"the link {target} leads to no heading"


def words_not_used(root):
    """The identifiers of the glossary's last table: where each is found all the same."""
    table = (root / "docs/glossary.md").read_text().partition("## Not used any more")[2]
    gone = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    if not gone:
        yield "docs/glossary.md: there are no words in its last table"
    pattern = re.compile(rf"\b({'|'.join(gone)})\b")
    for folder in ("include", "lib", "tools", "examples", "unittests", "benchmarks"):
        for source in sorted((root / folder).rglob("*")):
            if source.suffix in {".h", ".hpp", ".cpp", ".def", ".cu"}:
                for number, line in enumerate(source.read_text().splitlines(), 1):
                    if found := pattern.search(line):
                        yield f"{source.relative_to(root)}:{number}: {found[1]} is not used any more (docs/glossary.md)"


def main(root):
    public = set()
    for header in (root / "include").rglob("*.h*"):
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
        public.update(re.findall(r"\w+", code))
    good, wrong = 0, []
    for page in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        for line, why in [*wrong_samples(root, page), *wrong_names(public, page), *broken_links(root, page)]:
            good += why is None
            if why:
                wrong.append(f"{page.relative_to(root)}:{line}: {why}")
    wrong += words_not_used(root)
    print("\n".join([*wrong, f"{good} samples and names are right, {len(wrong)} wrong"]))
    return 0 if good and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
