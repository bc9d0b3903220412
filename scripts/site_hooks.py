"""Changes that mkdocs makes to a page of docs/ for the site (mkdocs.yml). The pages themselves are written for git
hosts alone."""
import pathlib
import posixpath
import re
import shutil

link = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")
# scripts/check writes the API pages here.
api_pages = pathlib.Path("build/api/html").resolve()
item = re.compile(r"([-*]|\d+\.) ")


def led_out(found, folder, repository):
    """A link to a file outside of docs/: with `repository` a link into it, else the link's text with the path as its
    title."""
    path, _, heading = found[2].partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return found[0]
    file = posixpath.normpath(posixpath.join("docs", folder, path))
    if file.startswith("docs/"):
        return found[0]
    if repository:
        return f"[{found[1]}]({repository.rstrip('/')}/blob/HEAD/{file}{'#' * bool(heading)}{heading})"
    return f'<span title="{file}">{found[1]}</span>'


def on_page_markdown(markdown, page, config, files):
    folder = posixpath.dirname(page.file.src_uri)
    out, fenced = [], False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            line = link.sub(lambda found: led_out(found, folder, config.repo_url), line)
            # On git hosts a list ends a paragraph; in mkdocs it needs an empty line.
            if item.match(line) and out and out[-1].strip() and not item.match(out[-1]) and not out[-1].startswith(" "):
                out.append("")
        out.append(line)
    text = "\n".join(out)
    if api_pages.is_dir():
        text = text.replace("pages under `api/`", f'pages under <a href="{posixpath.relpath("api/index.html", folder or ".")}">api/</a>')
    return text


def on_post_build(config):
    if api_pages.is_dir():
        shutil.copytree(api_pages, pathlib.Path(config.site_dir) / "api", dirs_exist_ok=True)
