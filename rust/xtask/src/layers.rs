//! The import laws of `rust/core`, `rust/server` and `rust/client`: a room imports only rooms that stand before it in
//! the flow, and files form no circle. A name that a module re-exports counts as an import of the file that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A crate's root, which imports from every room; what it re-exports counts as an import of the file that has it.
const ROOT: &str = "lib";

/// A crate whose files import each other in one direction.
struct Law {
    source: &'static str,
    /// The folders and files of the crate's root, in the order of the flow.
    rooms: &'static [&'static str],
}

const LAWS: [Law; 3] = [
    Law {
        source: "rust/core/src",
        rooms: &[
            "error", "runtime", "encoder", "text", "tokens", "scheduler", "ranking", "highlights", "quotes", "engine",
            "citations",
        ],
    },
    Law {
        source: "rust/server/src",
        rooms: &[
            "serde_messages", "settings", "net", "http", "store", "fetch", "uploads", "app", "routes", "openapi",
            "router", "stdio",
        ],
    },
    Law {
        source: "rust/client/src",
        rooms: &[
            "raw", "settings", "call_options", "forms", "rows", "columns", "retry_advice", "request_error", "retry",
            "endpoints", "exchange", "client", "vectors", "passages", "rerank", "prune", "locate", "cite",
            "stored_documents",
        ],
    },
];

/// Imports against the order, and circles.
pub(crate) fn complaints(root: &Path) -> Vec<String> {
    LAWS.iter().flat_map(|law| law.complaints(&Sources::read(&root.join(law.source)))).collect()
}

impl Law {
    fn complaints(&self, sources: &Sources) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for module in sources.code.keys().filter(|module| *module != ROOT) {
            let own = room(module);
            let Some(place) = self.position(own) else {
                let rooms = self.rooms.join(", ");
                complaints.push(format!("{}/{own}: no room of the flow; the rooms are {rooms}", self.source));
                continue;
            };
            for target in sources.imports(module).into_iter().filter(|target| *target != ROOT) {
                if self.position(room(target)).is_some_and(|other| other > place) {
                    let file = module.replace("::", "/");
                    complaints.push(format!("{}/{file}.rs: imports {target}, which stands after {own}", self.source));
                }
                imports.entry(module).or_default().insert(target);
            }
        }
        let circles = circles(&imports).into_iter();
        complaints.extend(circles.map(|circle| format!("{}: a circle of imports: {circle}", self.source)));
        complaints
    }

    fn position(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|known| *known == room)
    }
}

fn room(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

/// The files of a crate by their modules.
struct Sources {
    /// Without comments and tests.
    code: BTreeMap<String, String>,
    /// For each module, the names that it re-exports and their paths.
    reexports: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Sources {
    fn read(source: &Path) -> Self {
        let code = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
        };
        let module =
            |path: &Path| Some(path.strip_prefix(source).ok()?.with_extension("").to_str()?.replace('/', "::"));
        let files = crate::tidy::files(source);
        let code: BTreeMap<String, String> =
            files.iter().filter_map(|path| Some((module(path)?, code(path)))).collect();
        let mut sources = Self { code, reexports: BTreeMap::new() };
        for (module, text) in &sources.code {
            let named = uses(text).filter(|(is_public, _)| *is_public).flat_map(|(_, tree)| expanded(tree));
            let by_name = named.filter_map(|(path, name)| Some((name, sources.absolute(module, &path)?))).collect();
            sources.reexports.insert(module.clone(), by_name);
        }
        sources
    }

    /// The modules that a file imports, but for those it is part of and those that are part of it.
    fn imports(&self, module: &str) -> BTreeSet<&str> {
        let text = &self.code[module];
        let used = uses(text).flat_map(|(_, tree)| expanded(tree)).map(|(path, _)| path);
        let named = ["crate::", "super::", "self::"].into_iter().flat_map(|prefix| paths(text, prefix));
        let found = used.chain(named).filter_map(|path| self.file_of(&self.absolute(module, &path)?, 0));
        let is_part = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}::"));
        found.filter(|target| !is_part(module, target) && !is_part(target, module)).collect()
    }

    /// A path from the crate's root; `None` if it leads into another crate.
    fn absolute(&self, module: &str, path: &str) -> Option<Vec<String>> {
        let mut parts: Vec<&str> = path.split("::").collect();
        let mut start: Vec<&str> = if module == ROOT { Vec::new() } else { module.split("::").collect() };
        match parts[0] {
            "crate" => (start, parts) = (Vec::new(), parts.split_off(1)),
            "self" => parts = parts.split_off(1),
            "super" => {
                let ups = parts.iter().take_while(|part| **part == "super").count();
                start.truncate(start.len().saturating_sub(ups));
                parts = parts.split_off(ups);
            }
            child if self.code.contains_key(&[start.as_slice(), &[child]].concat().join("::")) => {}
            _ => return None,
        }
        Some(start.into_iter().chain(parts).map(str::to_owned).collect())
    }

    /// The file that a path leads to, also by a re-export.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&str> {
        (1..=path.len()).rev().find_map(|length| {
            let (module, _) = self.code.get_key_value(&path[..length].join("::"))?;
            let other = path.get(length).and_then(|name| self.reexports[module].get(name));
            match other {
                Some(other) if depth < 5 => self.file_of(other, depth + 1),
                _ => Some(module.as_str()),
            }
        })
    }
}

/// The `use` declarations of a file: whether each is a re-export, and its tree.
fn uses(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split(';').filter_map(|statement| {
        let at = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].lines().last().unwrap_or_default().trim_end();
            before.is_empty() || before.starts_with("pub")
        })?;
        let is_public = statement[..at].trim_end().rsplit('\n').next().is_some_and(|line| line.starts_with("pub"));
        Some((is_public, statement[at + "use ".len()..].trim()))
    })
}

/// The paths of a tree, and the name that each has here: `a::{b, c::d as e}` is `a::b` as `b` and `a::c::d` as `e`.
fn expanded(tree: &str) -> Vec<(String, String)> {
    let Some((before, inner)) = tree.split_once('{') else {
        let (path, renamed) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name.trim())));
        let path = path.trim().trim_end_matches("::*");
        let name = renamed.unwrap_or_else(|| path.rsplit("::").next().unwrap_or_default());
        return vec![(path.to_owned(), name.to_owned())];
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inner.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().into_iter().for_each(|part| part.push(letter));
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(expanded).map(|(path, name)| (format!("{}{path}", before.trim()), name)).collect()
}

/// The paths in code that begin with this.
fn paths(code: &str, prefix: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let found = code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with(is_part));
    found.map(|(at, _)| code[at..].split(|letter| !is_part(letter)).next().unwrap_or_default().to_owned()).collect()
}

/// Files that import each other.
fn circles(imports: &BTreeMap<&str, BTreeSet<&str>>) -> BTreeSet<String> {
    let all: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (*module, reached(imports, module))).collect();
    let members = |module: &str| {
        let is_back = |other: &&str| all.get(other).is_some_and(|reached| reached.contains(module));
        all[module].iter().copied().filter(is_back).collect::<Vec<_>>().join(", ")
    };
    all.iter().filter(|(module, reached)| reached.contains(*module)).map(|(module, _)| members(module)).collect()
}

/// All files that a file imports, at once or through others.
fn reached<'modules>(
    imports: &BTreeMap<&'modules str, BTreeSet<&'modules str>>,
    from: &'modules str,
) -> BTreeSet<&'modules str> {
    let (mut known, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        left.extend(imports.get(module).into_iter().flatten().copied().filter(|next| known.insert(*next)));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("layers-{}-{:p}", std::process::id(), files));
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let law = Law { source: "src", rooms: &["low", "high"] };
        let complaints = law.complaints(&Sources::read(&folder));
        fs::remove_dir_all(folder).unwrap();
        complaints
    }

    #[test]
    fn imports_follow_the_order_of_rooms() {
        assert!(
            complaints(&[("low.rs", "pub struct A;"), ("high.rs", "use crate::low::A;\nfn f(a: A) {}")]).is_empty()
        );
        let upwards = complaints(&[("low.rs", "fn f() { crate::high::g() }"), ("high.rs", "pub fn g() {}")]);
        assert_eq!(upwards, ["src/low.rs: imports high, which stands after low"]);
        assert_eq!(complaints(&[("other.rs", "")]), ["src/other: no room of the flow; the rooms are low, high"]);
    }

    #[test]
    fn re_exports_lead_to_the_file_that_has_the_name() {
        let files = [
            ("low.rs", "mod one;\nmod two;\npub use one::One;\npub(crate) use two::{\n    Other, Inner as Two,\n};"),
            ("low/one.rs", "use super::{Two, self as low};"),
            ("low/two.rs", "use crate::low::One;"),
        ];
        assert_eq!(complaints(&files), ["src: a circle of imports: low::one, low::two"]);
        let straight = [files[0], files[1], ("low/two.rs", "#[cfg(test)]\nmod tests {\n    use super::super::One;\n}")];
        assert!(complaints(&straight).is_empty());
    }
}
