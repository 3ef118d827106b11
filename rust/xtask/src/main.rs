//! `cargo xtask generate` writes what is generated from the code; `cargo xtask check` says what is stale or untidy.

mod errors;
mod kinds;
mod layers;
mod results;
mod settings;
mod third_party;
mod tidy;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf);
    let mut complaints = Vec::new();
    let mut generated = BTreeMap::from([
        ("python/pullquote/errors.py", errors::python()),
        ("python/pullquote/_document_formats.py", kinds::python()),
        ("rust/server/page/kinds.js", kinds::page()),
        ("python/pullquote/_results/fields.py", results::python()),
    ]);
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| error.to_string());
    let third_party = [("THIRD_PARTY.md", third_party::markdown(&root))];
    for (path, text) in settings::files(read).into_iter().chain(versions::files(read)).chain(third_party) {
        match text {
            Ok(text) => _ = generated.insert(path, text),
            Err(error) => complaints.push(format!("{path}: {error}")),
        }
    }
    // The page has parts of both.
    if let Some(page) = generated.get_mut("docs/python-api.md") {
        *page = results::docs(page);
    }
    match std::env::args().nth(1).as_deref() {
        Some("generate") => {
            for (path, text) in &generated {
                complaints.extend(fs::write(root.join(path), text).err().map(|error| format!("{path}: {error}")));
            }
        }
        Some("check") => {
            let stale =
                |(path, text): &(&&str, &String)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text);
            let stale = generated
                .iter()
                .filter(stale)
                .map(|(path, _)| format!("{path} is stale; run: cargo run --release -p xtask -- generate"));
            complaints.extend(
                stale
                    .chain(tidy::complaints(&root))
                    .chain(layers::complaints(&root))
                    .chain(versions::complaints(&root)),
            );
        }
        _ => complaints.push("usage: xtask generate | check".to_owned()),
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
