"""pages.py ROOT: checks that the pages agree with the sources about the C and C++ interfaces.

Samples of C and C++: above each sample the page links its source, a program that the tests compile; the nearest link
of the same section counts. The file has to contain the sample word for word; white space does not count, and a line
of `// ...` stands for code that the page leaves out. A sample of CMake is compared with its source if that is a
CMakeLists.txt.

Names: those in the columns C++ and C of docs/reference/settings.md, and tally::NAME and tally_STRUCTURE::FIELD in
all pages, have to be in an installed header.

Links lead to files of the repository and to their headings. If a link, or the path of a page in a source, is
followed by the name of a section, then the page has that section: a heading, or emphasis at the beginning of a
paragraph. Paths of pages in sources lead to pages.

Shelves: each page of docs/guide, docs/reference and docs/design has one place in the navigation of mkdocs.yml and a
line in docs/README.md.

Reason codes: docs/reference/reason-codes.md has the codes and kinds of refusal_reasons.def in its order, the codes
of code that tally-ptxopt keeps and those of graphs that are launched whole, and no other codes.

Sources do not use the words that docs/glossary.md lists as not used any more.
"""
import functools
import itertools
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
    """Language, line, text and source of each sample."""
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
    """The anchors of a page's headings, as the web pages of git hosts derive them."""
    found = set()
    fenced = False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("#"):
            found.add(re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-"))
    return found


def broken_links(root, page):
    """Line and fault of each link that leads to no file of the repository, or to no heading of the file."""
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


def plain(text):
    return re.sub(r"[`*\s]+", " ", text).strip().lower()


@functools.cache
def sections(page):
    """The headings of a page, and the texts in emphasis at the beginning of a paragraph or of an item of a list."""
    begins = re.compile(r"(?:#+ |[*-] |\d+\. )?(\*{0,2})([^\s*].*?)(?:\1[.:,;]?(?:\s|$)|$)")
    found = []
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            found.append(plain(line.lstrip("#")))
        elif (start := begins.match(line.strip())) and start[1]:
            found.append(plain(start[2]).rstrip("."))
    return found


def has_section(page, name):
    """Whether the page has that section. A heading may be longer than the name: "Codings" matches "Codings: several
    ways to write a variant"."""
    return any(re.match(re.escape(plain(name)) + r"(?!\w)", section) for section in sections(page))


named = r'(?:,? (?:\*(?P<emphasis>(?:[^*`]|`[^`]*`)+)\*|"(?P<quoted>[^"]+)"))?'
linked_section = re.compile(r"\]\((?P<page>[^)\s#:]+\.md)\)" + named)
path_of_page = re.compile(r"(?<![\w/.-])(?P<page>docs/[\w/-]+\.md)" + named)


def wrong_sections(page):
    """Sections that the page names behind a link and that the linked page lacks."""
    text = page.read_text()
    for found in linked_section.finditer(text):
        target = (page.parent / found["page"]).resolve()
        name = found["emphasis"] or found["quoted"]
        if name and target.is_file() and not has_section(target, name):
            yield text.count("\n", 0, found.start()) + 1, f"{found['page']} has no section {plain(name)}"


def wrong_paths(root, source):
    """Missing pages that a source names by their paths, and missing sections of pages."""
    try:
        text = source.read_text()
    except UnicodeDecodeError:
        return
    # The next line of a comment begins with its comment mark.
    for found in path_of_page.finditer(re.sub(r"\s*\n[ \t]*(?:///?|\*|#+)?[ \t]*", " ", text)):
        name = found["emphasis"] or found["quoted"]
        target = root / found["page"]
        if not target.is_file():
            yield f"there is no page {found['page']}"
        elif name and source.suffix != ".md" and not has_section(target, name):
            yield f"{found['page']} has no section {plain(name)}"


def sources(root):
    """All files that may name a page, except the pages themselves."""
    folders = (".ci", "benchmarks", "cmake", "examples", "fuzz", "include", "lib", "scripts", "test", "tools", "unittests")
    files = [*root.glob("CMake*"), *(file for folder in folders for file in (root / folder).rglob("*"))]
    return sorted(file for file in files if file.is_file() and b"docs/" in file.read_bytes())


def wrong_shelves(root):
    navigation = re.findall(r"^ +- (?:[^:]+: )?(\S+\.md)$", (root / "mkdocs.yml").read_text(), re.MULTILINE)
    entry = (root / "docs/README.md").read_text()
    for page in sorted(root.glob("docs/*/*.md")):
        name = str(page.relative_to(root / "docs"))
        if page.parent.name not in {"guide", "reference", "design"}:
            continue
        if navigation.count(name) != 1:
            yield f"mkdocs.yml: {name} stands {navigation.count(name)} times in the navigation"
        if len(re.findall(rf"^- \[[^\]]+\]\({re.escape(name)}\): ", entry, re.MULTILINE)) != 1:
            yield f"docs/README.md: no line, or several, for {name}"
    for name in navigation:
        if not (root / "docs" / name).is_file():
            yield f"mkdocs.yml: there is no docs/{name}"


kinds_in_words = {
    "everyKind": "all",
    "onGuard | onWorkers": "all but slice",
    "onWorkers": "persistent, pause, checkpoint",
    "onPause": "pause",
    "onPause | onCheckpoint": "pause, checkpoint",
    "onCheckpoint": "checkpoint",
}


def wrong_reasons(root):
    page = root / "docs/reference/reason-codes.md"
    tables = {}
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            tables[line[3:]] = rows = []
        elif row := re.match(r"\| (`[^|]+`) \| ([^|]+) \|", line):
            rows += [(code, row[2]) for code in re.findall("`([^`]+)`", row[1])]
    definition = (root / "lib/include/tally/ptx/analysis/refusal_reasons.def").read_text()
    refusals = re.findall(r'^TALLY_REASON\(\w+, "([^"]+)", ([\w |]+),', definition, re.MULTILINE)
    shown = [row for row in tables["Kernels that get no variant"] if row[1] in kinds_in_words.values()]
    for wanted, found in itertools.zip_longest([(code, kinds_in_words[kinds]) for code, kinds in refusals], shown):
        if wanted != found:
            yield f"{page.relative_to(root)}: {found} stands where refusal_reasons.def has {wanted}"
            break
    # The page does not list entries for which tally-ptxopt wrote nothing.
    kept = re.search(r"codes\[\] = \{([^}]+)\}", (root / "tools/tally-ptxopt/fatbin_merge.cpp").read_text())[1]
    parts = re.search(r"reasons = \{\{(.+?)\}\};", (root / "lib/hooks/work/graph_parts.cpp").read_text(), re.DOTALL)[1]
    for title, codes in (
        ("Code that is kept without variants", set(re.findall('"([^"]+)"', kept)) - {"no-kernels"}),
        ("Graphs that are launched whole", set(re.findall(r'\{"([^"]+)",', parts)) - {"none"}),
    ):
        for code in sorted(codes ^ {code for code, _ in tables[title]}):
            yield f"{page.relative_to(root)}: {code} stands on the page or in the source alone ({title})"


def words_not_used(root):
    """Uses of the identifiers in the glossary's last table."""
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
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    for folder in ("benchmarks", "examples", "fuzz", "test"):
        pages += root.glob(f"{folder}/**/*.md")
    for page in sorted(pages):
        looked_at = [wrong_samples(root, page), wrong_names(public, page), broken_links(root, page), wrong_sections(page)]
        for line, why in itertools.chain(*looked_at):
            good += why is None
            if why:
                wrong.append(f"{page.relative_to(root)}:{line}: {why}")
    for source in [*sources(root), *pages]:
        wrong += [f"{source.relative_to(root)}: {why}" for why in wrong_paths(root, source)]
    wrong += wrong_shelves(root)
    wrong += wrong_reasons(root)
    wrong += words_not_used(root)
    print("\n".join([*wrong, f"{good} samples and names are right, {len(wrong)} wrong"]))
    return 0 if good and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
