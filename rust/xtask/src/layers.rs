//! The import law of `rust/core`: a room imports only rooms that stand before it in the flow, and files of a room form
//! no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, in the order of the flow (see `lib.rs` there).
const ROOMS: [&str; 9] =
    ["error", "runtime", "encoder", "text", "tokens", "scheduler", "ranking", "highlights", "engine"];

/// Imports against the order, and circles, as `path:line: what`.
pub(crate) fn complaints(root: &Path) -> Vec<String> {
    let source = root.join("rust/core/src");
    let mut complaints = Vec::new();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let modules = modules(&source);
    for (module, path) in &modules {
        if module == "lib" {
            continue;
        }
        let own_room = module.split("::").next().unwrap_or_default();
        let Some(own) = position(own_room) else {
            complaints.push(format!("{}: no room of the flow; the rooms are {}", path.display(), ROOMS.join(", ")));
            continue;
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            if line.contains("#[cfg(test)]") {
                break;
            }
            let code = line.split("//").next().unwrap_or_default();
            for name in named(code, "crate::") {
                let target = name.split("::").next().unwrap_or_default();
                if position(target).is_some_and(|other| other > own) {
                    let place = path.strip_prefix(root).unwrap_or(path).display();
                    complaints
                        .push(format!("{place}:{}: {own_room} imports {target}, which stands after it", number + 1));
                }
                if let Some(target) = file_of(&name, &modules) {
                    imports.entry(module.clone()).or_default().insert(target);
                }
            }
            let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
            for name in named(code, "super::") {
                if let Some(target) = file_of(&format!("{parent}::{name}"), &modules) {
                    imports.entry(module.clone()).or_default().insert(target);
                }
            }
        }
    }
    complaints.extend(circles(&imports));
    complaints
}

fn position(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

fn modules(source: &Path) -> BTreeMap<String, PathBuf> {
    crate::tidy::files(source)
        .into_iter()
        .filter_map(|path| {
            let module = path.strip_prefix(source).ok()?.with_extension("").to_str()?.replace('/', "::");
            Some((module, path))
        })
        .collect()
}

/// The paths in a line of code that begin with this.
fn named(code: &str, prefix: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let paths = code.match_indices(prefix).map(|(at, _)| &code[at + prefix.len()..]);
    paths.map(|rest| rest.split(|letter| !is_part(letter)).next().unwrap_or_default().to_owned()).collect()
}

/// The file that a path leads to: the longest beginning of it that is one.
fn file_of(path: &str, modules: &BTreeMap<String, PathBuf>) -> Option<String> {
    let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    (1..=parts.len()).rev().map(|length| parts[..length].join("::")).find(|module| modules.contains_key(module))
}

/// Files that import each other, but for a file and those that are part of it.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let is_part =
        |one: &str, other: &str| one.starts_with(&format!("{other}::")) || other.starts_with(&format!("{one}::"));
    let reached = |from: &str| {
        let (mut known, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = left.pop() {
            for next in imports.get(&module).into_iter().flatten() {
                if !is_part(&module, next) && known.insert(next.clone()) {
                    left.push(next.clone());
                }
            }
        }
        known
    };
    let all: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|module| (module, reached(module))).collect();
    let mut found = BTreeSet::new();
    for (module, known) in &all {
        let circle: Vec<&str> = known
            .iter()
            .filter(|other| *other != *module && all.get(other).is_some_and(|back| back.contains(*module)))
            .map(String::as_str)
            .collect();
        if !circle.is_empty() {
            let mut members = [circle, vec![module.as_str()]].concat();
            members.sort_unstable();
            found.insert(format!("rust/core/src: a circle of imports: {}", members.join(", ")));
        }
    }
    found.into_iter().collect()
}
