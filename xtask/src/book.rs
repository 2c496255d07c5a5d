//! The book: its sources put together with links that hold (`cargo xtask book`), and the step that builds it.
//!
//! Chapters refer to each other, and to documents of the repository that become chapters, too ([`DOCUMENTS`]). In the
//! sources a link is a path from its file, so that it works where the repository is browsed. In the book, documents lie
//! in a folder of their own, and a link to any other file of the repository is text.

mod links;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::stream;
use crate::summary::{Skip, Tally};
use links::{Link, anchors, links, normal, relative};

/// Where the chapters are.
const CHAPTERS: &str = "docs/book/src";

/// Chapters that the command writes.
const REFERENCE: &str = "reference";

/// Documents of the repository that are chapters of the book, too.
const DOCUMENTS: [&str; 6] = [
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "lab/trace/FORMAT.md",
    "docs/safety.md",
    "python/README.md",
];

/// Documents whose links are checked besides.
const CHECKED: [&str; 2] = ["CHANGELOG.md", "README.md"];

/// Builds the book, where mdbook is there; installs it in CI.
///
/// # Errors
/// When a program that is there cannot be used.
pub fn step(root: &Path) -> Result<Tally> {
    let broken = broken_links(root)?;
    for link in &broken {
        println!("{link}");
    }
    let mut tally = Tally::check("book: links", broken.is_empty());
    if let Some(reason) = missing(root)? {
        println!("skipped: book: {reason}");
        tally.skips.push(Skip {
            name: "book".to_owned(),
            reason,
            excused: false,
        });
        return Ok(tally);
    }
    let mut build = Command::new(root.join("scripts/book"));
    build.current_dir(root);
    let status = stream::run(build, |_| {})?;
    tally.add(Tally::check("book: build", status.success()));
    Ok(tally)
}

/// Why the book cannot be built.
fn missing(root: &Path) -> Result<Option<String>> {
    let answers = |program: &Path| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null());
        command.stderr(Stdio::null()).status()
    };
    let tools = root.join("target/tools/bin/mdbook");
    for program in [tools.as_path(), Path::new("mdbook")] {
        if answers(program).is_ok_and(|status| status.success()) {
            return Ok(None);
        }
    }
    if std::env::var_os("CI").is_none_or(|value| value != "true") {
        let reason = "mdbook is not installed (scripts/bootstrap book)";
        return Ok(Some(reason.to_owned()));
    }
    let mut install = Command::new(root.join("scripts/bootstrap"));
    install.arg("book").current_dir(root);
    let status = stream::run(install, |_| {})?;
    ensure!(status.success(), "scripts/bootstrap book failed");
    Ok(None)
}

/// Puts the sources of the book together in `folder`, beside the reference that is there.
///
/// # Errors
/// When a link is broken, a page of the reference is missing or not listed, or a file cannot be read or written.
pub fn sources(root: &Path, folder: &Path) -> Result<bool> {
    let mut broken = broken_links(root)?;
    let staged = staged(root)?;
    let pages = pages(&folder.join("src"), Path::new(REFERENCE))?;
    for (path, place) in &staged {
        let text = read(&root.join(path))?;
        let mut written = String::with_capacity(text.len());
        let mut end = 0;
        for link in links(&text) {
            written.push_str(&text[end..link.start]);
            written.push_str(&moved(&link, path, place, &staged));
            end = link.end;
            let target = target(&link, path);
            if let Some(page) = reference_page(&target)
                && !pages.contains(&page)
            {
                let page = page.display();
                broken.push(format!("{}: no such command: {page}", path.display()));
            }
        }
        written.push_str(&text[end..]);
        let to = folder.join("src").join(place);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&to, written).with_context(|| format!("cannot write {}", to.display()))?;
    }
    fs::copy(root.join("docs/book/book.toml"), folder.join("book.toml"))?;
    for link in &broken {
        eprintln!("{link}");
    }
    Ok(broken.is_empty())
}

/// A link as it stands in the book.
fn moved(
    link: &Link<'_>,
    path: &Path,
    place: &Path,
    staged: &BTreeMap<PathBuf, PathBuf>,
) -> String {
    let (text, to) = (link.text, link.target);
    if to.contains("://") || to.starts_with('#') || to.starts_with("mailto:") {
        return format!("[{text}]({to})");
    }
    let target = target(link, path);
    // The list of chapters is no page.
    let chapter = staged
        .get(&target)
        .filter(|page| *page != Path::new("SUMMARY.md"));
    let page = reference_page(&target).or_else(|| chapter.cloned());
    let anchor = to
        .split_once('#')
        .map_or(String::new(), |(_, anchor)| format!("#{anchor}"));
    page.map_or_else(
        || text.to_owned(),
        |page| format!("[{text}]({}{anchor})", relative(place, &page).display()),
    )
}

/// The file that a link of the file `path` names, from the root of the repository.
fn target(link: &Link<'_>, path: &Path) -> PathBuf {
    let file = link.target.split('#').next().unwrap_or_default();
    normal(&path.parent().unwrap_or(Path::new("")).join(file))
}

/// The page of the reference at that path of the repository, as a path of the book.
fn reference_page(target: &Path) -> Option<PathBuf> {
    let page = target.strip_prefix(CHAPTERS).ok()?;
    page.starts_with(REFERENCE).then(|| page.to_owned())
}

/// The chapters by their place in the repository, each with its place in the book.
fn staged(root: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let chapters = pages(&root.join(CHAPTERS), Path::new(""))?;
    let chapters = chapters
        .into_iter()
        .map(|page| (Path::new(CHAPTERS).join(&page), page));
    // A README would become the index of its folder.
    let documents = DOCUMENTS.iter().map(|path| {
        let name = path.replace("/README.md", ".md").to_lowercase();
        (PathBuf::from(path), Path::new("documents").join(name))
    });
    Ok(chapters.chain(documents).collect())
}

/// The Markdown files of a folder of `base` and those below it, as paths from `base`.
fn pages(base: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let at = base.join(folder);
    let entries = fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(pages(base, &path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Links of the documents to files, or headings of them, that are not there. The reference is not in the sources: its
/// pages are looked at when the book is built.
fn broken_links(root: &Path) -> Result<Vec<String>> {
    let mut paths: Vec<PathBuf> = staged(root)?.into_keys().collect();
    paths.extend(CHECKED.map(PathBuf::from));
    let mut broken = Vec::new();
    for path in &paths {
        let text = read(&root.join(path))?;
        for link in links(&text) {
            let to = link.target;
            if to.contains("://") || to.starts_with("mailto:") {
                continue;
            }
            let file = if to.starts_with('#') {
                path.clone()
            } else {
                target(&link, path)
            };
            if reference_page(&file).is_some() {
                continue;
            }
            let is_file_there = root.join(&file).exists();
            let anchor = to.split_once('#').map(|(_, anchor)| anchor);
            let is_there = is_file_there
                && match anchor.filter(|_| file.extension().is_some_and(|e| e == "md")) {
                    Some(anchor) => anchors(&read(&root.join(&file))?).contains(anchor),
                    None => true,
                };
            if !is_there {
                broken.push(format!(
                    "{}:{}: broken link: {to}",
                    path.display(),
                    link.line
                ));
            }
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_documents_hold() {
        let root = crate::workspace_root().unwrap();
        assert_eq!(broken_links(&root).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn links_are_moved_with_their_files() {
        let chapter = PathBuf::from("docs/book/src/tours/run.md");
        let staged: BTreeMap<_, _> = [
            (chapter.clone(), "tours/run.md"),
            ("docs/safety.md".into(), "documents/docs/safety.md"),
        ]
        .into_iter()
        .map(|(path, place)| (path, PathBuf::from(place)))
        .collect();
        let moved = |text: &str, path: &str| {
            let place = staged[Path::new(path)].clone();
            moved(
                &links(text).next().unwrap(),
                Path::new(path),
                &place,
                &staged,
            )
        };
        let run = "docs/book/src/tours/run.md";
        assert_eq!(
            moved("[s](../../../safety.md#x)", run),
            "[s](../documents/docs/safety.md#x)"
        );
        assert_eq!(moved("[`c`](../../../../hosts/arena)", run), "`c`");
        assert_eq!(
            moved("[r](../reference/run.md)", run),
            "[r](../reference/run.md)"
        );
        assert_eq!(
            moved("[b](book/src/tours/run.md)", "docs/safety.md"),
            "[b](../../tours/run.md)"
        );
        assert_eq!(
            moved("[w](https://x.org/a.md)", run),
            "[w](https://x.org/a.md)"
        );
    }
}
