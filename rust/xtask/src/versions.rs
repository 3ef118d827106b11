//! The version, which `Cargo.toml` has for all crates, in the files that no tool fills in; and the changelog's newest heading.

use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// File, and what stands before and after the version in it.
const PLACES: [(&str, &str, &str); 3] = [
    ("packages/minilm/pullquote_minilm/__init__.py", "__version__ = \"", "\""),
    ("pyproject.toml", "torch = [\"pullquote-torch==", "\""),
    ("deploy/kubernetes.yaml", "image: registry.example/pullquote:", "\n"),
];

/// The files with this version.
pub(crate) fn files(
    read: impl Fn(&str) -> Result<String, String>,
) -> impl Iterator<Item = (&'static str, Result<String, String>)> {
    PLACES
        .map(|(path, before, after)| (path, read(path).and_then(|text| with_version(&text, before, after))))
        .into_iter()
}

fn with_version(text: &str, before: &str, after: &str) -> Result<String, String> {
    let parts = text.split_once(before).and_then(|(head, rest)| Some((head, rest.split_once(after)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("it has no version after {before:?}"))?;
    Ok(format!("{head}{before}{VERSION}{after}{tail}"))
}

/// Whether the changelog begins with this version or with what the next one has.
pub(crate) fn complaints(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    let newest = text.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or_default();
    let name = newest.split(',').next().unwrap_or_default();
    if name == VERSION || name == "Unreleased" {
        return Vec::new();
    }
    vec![format!("CHANGELOG.md begins with {newest:?}, neither \"Unreleased\" nor \"{VERSION}, <date>\"")]
}
