//! What the compilers do not see: `unwrap` where a user can reach it, marks of unfinished work, errors no page
//! explains.

use std::fs;
use std::path::{Path, PathBuf};

/// Everything that is untidy, as `path:line: what`.
pub(crate) fn complaints(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for folder in ["rust", "python", "tests", "bench", "demo"] {
        for path in files(&root.join(folder)) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            // This file names what it looks for.
            if name.ends_with("tidy.rs") {
                continue;
            }
            match fs::read_to_string(&path) {
                Ok(text) => complaints.extend(complaints_about(&name, &text)),
                Err(error) => complaints.push(format!("{name}: {error}")),
            }
        }
    }
    complaints
}

fn complaints_about(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_rust = Path::new(name).extension().is_some_and(|extension| extension == "rs");
    // Models are loom's tests, and a fuzzer's targets are tests too.
    let is_test = ["/tests/", "/fuzz_targets/"].iter().any(|part| name.contains(part))
        || ["/tests.rs", "/property_tests.rs", "/loom_models.rs"].iter().any(|end| name.ends_with(end));
    let mut in_tests = name.starts_with("tests") || is_test;
    for (index, line) in text.lines().enumerate() {
        in_tests |= line == "mod tests {" || line == "#[cfg(test)]";
        let place = || format!("{name}:{}", index + 1);
        if ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "dbg!("].iter().any(|mark| line.contains(mark)) {
            complaints.push(format!("{}: a mark of unfinished work", place()));
        }
        if is_rust && !in_tests && line.contains(".unwrap()") {
            complaints.push(format!("{}: unwrap in code a user can reach", place()));
        }
    }
    complaints
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
    found.sort();
    found
}
