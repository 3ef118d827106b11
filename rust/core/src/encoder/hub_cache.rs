//! The cache that all programs share for models of the Hugging Face Hub, read without a library and without the
//! network.
//!
//! A model `org/name` is the folder `models--org--name`: `refs/<branch or tag>` has a commit's 40 hexadecimal digits,
//! and `snapshots/<commit>` the files, mostly links into `blobs`. Newer versions of `huggingface_hub` write the hub's
//! list of files to `trees/<commit>.json`, and an empty file in `.no_exist/<commit>` for a file that the hub does not
//! have.
//!
//! A snapshot has the files that some program requested, so this module says which files of a model pullquote needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::Value;

use super::model::{Body, Model, Transformer};
use crate::error::{Error, ErrorKind, Result};

/// Files that describe a model and its tokenizer, in its folder or in a module's.
const SMALL_FILES: [&str; 5] = [
    "artifact.metadata",
    "config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
];
/// Files with weights, the best first: a file, or an index of files whose names begin and end alike.
const WEIGHTS: [(&str, Option<(&str, &str)>); 4] = [
    ("model.safetensors", None),
    ("model.safetensors.index.json", Some(("model-", ".safetensors"))),
    ("pytorch_model.bin", None),
    ("pytorch_model.bin.index.json", Some(("pytorch_model-", ".bin"))),
];
const MODULES: &str = "modules.json";
/// Each repository of the hub has this file, and only a download of all files fetches it.
const WHOLE_SNAPSHOT: &str = ".gitattributes";

/// The files of a repository that pullquote needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededFiles {
    /// Paths in the repository.
    pub files: Vec<String>,
    /// Paths that a model must have and this one has not.
    pub missing: Vec<String>,
}

/// A model's entry in the cache.
#[derive(Clone, Debug)]
pub struct CachedModel {
    /// For example `BAAI/bge-small-en-v1.5`.
    pub name: String,
    /// A commit.
    pub revision: String,
    /// Branches and tags that were this commit when they were downloaded.
    pub refs: Vec<String>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Why it would not load; `None` if it would, as far as its tokenizer and weights are sound.
    pub problem: Option<Error>,
}

/// The cached files of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// 40 hexadecimal digits.
    pub commit: String,
    /// Files that are needed, and missing or too short. `modules.json` is one of them if it is unknown whether the hub
    /// has it.
    pub missing: Vec<String>,
}

/// The files that a model needs, out of all `files` of its repository. `modules` is the content of `modules.json`, if
/// there is one; without `weights`, what a host needs that encodes with a model of its own.
///
/// # Errors
/// [`ErrorKind::InvalidModel`] for a damaged `modules.json`.
pub fn needed_files(files: &[&str], modules: Option<&[u8]>, weights: bool) -> Result<NeededFiles> {
    let modules = modules.map_or_else(|| Ok(vec![ModuleEntry::default()]), read_modules)?;
    let mut needed = NeededFiles::default();
    let folders: BTreeSet<&str> = modules.iter().map(ModuleEntry::folder).chain([""]).collect();
    for folder in folders {
        let inside: Vec<&str> = files.iter().filter_map(|file| in_folder(file, folder)).collect();
        let mut add = |name: &str| needed.files.push(join(folder, name));
        let is_small = |name: &str| {
            SMALL_FILES.contains(&name)
                || (folder.is_empty() && name == MODULES)
                || (name.starts_with("sentence_") && name.ends_with("_config.json"))
        };
        inside.iter().copied().filter(|name| is_small(name)).for_each(&mut add);
        let has_weights = modules.iter().any(|module| module.folder() == folder && module.has_weights());
        if weights
            && has_weights
            && let Some((name, shards)) = WEIGHTS.iter().find(|(name, _)| inside.contains(name))
        {
            add(name);
            let is_shard =
                |name: &str| shards.is_some_and(|(head, tail)| name.starts_with(head) && name.ends_with(tail));
            inside.iter().copied().filter(|name| is_shard(name)).for_each(&mut add);
        }
    }
    for module in &modules {
        let mut require = |names: &[&str]| {
            let paths: Vec<String> = names.iter().map(|name| join(module.folder(), name)).collect();
            if !paths.iter().any(|path| needed.files.contains(path)) {
                needed.missing.push(paths[0].clone());
            }
        };
        module.required_files().iter().for_each(|name| require(&[name]));
        if weights && module.has_weights() {
            require(&WEIGHTS.map(|(name, _)| name));
        }
    }
    Ok(needed)
}

/// The files that a model needs, out of those in its directory and in the folders of its modules.
///
/// # Errors
/// [`ErrorKind::InvalidModel`] for a damaged `modules.json` or index of weights.
pub(crate) fn model_files(directory: &Path) -> Result<Vec<String>> {
    let modules = fs::read(directory.join(MODULES)).ok();
    let entries = modules.as_deref().map_or_else(|| Ok(Vec::new()), read_modules)?;
    let folders: BTreeSet<&str> = entries.iter().map(ModuleEntry::folder).chain([""]).collect();
    let mut names = Vec::new();
    for folder in folders {
        names.extend(names_in(&directory.join(folder)).into_iter().map(|name| join(folder, &name)));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut needed = needed_files(&names, modules.as_deref(), true)?.files;
    for index in needed.clone().iter().filter(|name| name.ends_with(".index.json")) {
        needed.extend(shards(directory, index)?);
    }
    needed.sort_unstable();
    needed.dedup();
    Ok(needed)
}

/// The snapshot of a revision (a commit, branch or tag) in the cache folder; `None` if the cache has none.
pub fn find(cache: &Path, name: &str, revision: &str, weights: bool) -> Result<Option<Snapshot>> {
    let repository = cache.join(folder_name(name));
    let commit = if is_commit(revision) { Some(revision.to_owned()) } else { read_ref(&repository, revision) };
    let Some(commit) = commit.filter(|commit| repository.join("snapshots").join(commit).is_dir()) else {
        return Ok(None);
    };
    let missing = missing_files(&repository, &commit, weights)?;
    Ok(Some(Snapshot { commit, missing }))
}

/// Every model of the cache folder, by name. Empty if there is no such folder.
pub fn list(cache: &Path) -> Vec<CachedModel> {
    let mut found = Vec::new();
    for folder in names_in(cache) {
        let Some(name) = folder.strip_prefix("models--").map(|name| name.replacen("--", "/", 1)) else { continue };
        let repository = cache.join(&folder);
        let refs = files_below(&repository.join("refs"));
        for commit in names_in(&repository.join("snapshots")).into_iter().filter(|commit| is_commit(commit)) {
            let directory = repository.join("snapshots").join(&commit);
            let of_commit = |name: &&String| read_ref(&repository, name).as_ref() == Some(&commit);
            found.push(CachedModel {
                name: name.clone(),
                refs: refs.keys().filter(of_commit).cloned().collect(),
                bytes: files_below(&directory).values().sum(),
                problem: check(&repository, &commit).err(),
                revision: commit,
            });
        }
    }
    found
}

/// Whether a revision is a commit, which never changes.
pub fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub fn folder_name(name: &str) -> String {
    format!("models--{}", name.replace('/', "--"))
}

/// Checks a model's description: whether its weights are worth a download.
pub fn check_description(directory: &Path) -> Result<()> {
    let model = Model::read(directory)?;
    if model.body == Body::Transformer { Transformer::read(&model).map(drop) } else { Ok(()) }
}

/// All that can be checked without reading weights.
fn check(repository: &Path, commit: &str) -> Result<()> {
    let missing = missing_files(repository, commit, true)?;
    let described = check_description(&repository.join("snapshots").join(commit));
    // No further file would make an unsupported model load.
    let is_unsupported = described.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnsupportedModel);
    if !missing.is_empty() && !is_unsupported {
        return Err(Error::new(ErrorKind::ModelNotFound, format!("the cache lacks {}", missing.join(", "))));
    }
    described
}

fn missing_files(repository: &Path, commit: &str, weights: bool) -> Result<Vec<String>> {
    let directory = repository.join("snapshots").join(commit);
    let present = files_below(&directory);
    let listed = read_tree(repository, commit);
    let files = listed.as_ref().unwrap_or(&present);
    let knows_modules = listed.is_some()
        || present.contains_key(WHOLE_SNAPSHOT)
        || repository.join(".no_exist").join(commit).join(MODULES).exists();
    let modules = match present.get(MODULES) {
        Some(_) => Some(fs::read(directory.join(MODULES)).map_err(|error| damaged(&directory.join(MODULES), &error))?),
        // Without it, pooling would be the mean: wrong vectors for a model with another one.
        None if files.contains_key(MODULES) || (weights && !knows_modules) => return Ok(vec![MODULES.to_owned()]),
        None => None,
    };
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let needed = needed_files(&names, modules.as_deref(), weights)?;
    let is_whole =
        |name: &str, bytes: u64| listed.as_ref().and_then(|files| files.get(name)).is_none_or(|size| *size == bytes);
    let is_missing = |name: &String| present.get(name).is_none_or(|bytes| !is_whole(name, *bytes));
    let mut missing = needed.missing;
    for name in needed.files {
        if name.ends_with(".index.json") && present.contains_key(&name) {
            missing.extend(shards(&directory, &name)?.into_iter().filter(|shard| is_missing(shard)));
        }
        missing.push(name);
    }
    missing.retain(is_missing);
    missing.sort_unstable();
    missing.dedup();
    Ok(missing)
}

/// The files that an index of weights names.
fn shards(directory: &Path, index: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = directory.join(index);
    let bytes = fs::read(&path).map_err(|error| damaged(&path, &error))?;
    let index_file: Index = serde_json::from_slice(&bytes).map_err(|error| damaged(&path, &error))?;
    let folder = index.rsplit_once('/').map_or("", |(folder, _)| folder);
    Ok(index_file.weight_map.into_values().map(|file| join(folder, &file)).collect())
}

/// A module in `modules.json`; the default is that of a model without this file.
#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    r#type: String,
}

impl Default for ModuleEntry {
    fn default() -> Self {
        Self { path: String::new(), r#type: "Transformer".to_owned() }
    }
}

impl ModuleEntry {
    fn folder(&self) -> &str {
        let path = self.path.trim_start_matches("./").trim_end_matches('/');
        if path == "." { "" } else { path }
    }

    fn kind(&self) -> &str {
        self.r#type.rsplit('.').next().unwrap_or_default()
    }

    fn has_weights(&self) -> bool {
        matches!(self.kind(), "Transformer" | "StaticEmbedding" | "Dense" | "LayerNorm")
    }

    fn required_files(&self) -> &'static [&'static str] {
        match self.kind() {
            "Transformer" => &["config.json", "tokenizer.json"],
            "StaticEmbedding" => &["tokenizer.json"],
            "Pooling" | "Dense" | "LayerNorm" => &["config.json"],
            // The loader refuses those that it does not know.
            _ => &[],
        }
    }
}

fn read_modules(bytes: &[u8]) -> Result<Vec<ModuleEntry>> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidModel, format!("modules.json is damaged: {why}"));
    let modules: Vec<ModuleEntry> = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    match modules.iter().find(|module| !is_inside(&module.path)) {
        Some(module) => Err(invalid(format!("the path {:?} leaves the model's folder", module.path))),
        None => Ok(modules),
    }
}

/// The hub's list of files with their sizes, if a program stored it.
fn read_tree(repository: &Path, commit: &str) -> Option<BTreeMap<String, u64>> {
    let bytes = fs::read(repository.join("trees").join(format!("{commit}.json"))).ok()?;
    let tree: Value = serde_json::from_slice(&bytes).ok()?;
    let version = tree.get("format_version")?.as_u64()?;
    let size = |file: &Value| file.get("lfs_size").or_else(|| file.get("size"))?.as_u64();
    let files = tree.get("files")?.as_object()?.iter().map(|(path, file)| Some((path.clone(), size(file)?)));
    if version == 1 { files.collect() } else { None }
}

fn read_ref(repository: &Path, revision: &str) -> Option<String> {
    let path = is_inside(revision).then(|| repository.join("refs").join(revision))?;
    let commit = fs::read_to_string(path).ok()?.trim().to_owned();
    is_commit(&commit).then_some(commit)
}

/// Paths of all files below a folder, with their sizes. Follows links, and leaves out those to nowhere.
fn files_below(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for name in names_in(folder) {
        let path = folder.join(&name);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => drop(found.insert(name, metadata.len())),
            Ok(metadata) if metadata.is_dir() => {
                found.extend(files_below(&path).into_iter().map(|(below, bytes)| (join(&name, &below), bytes)));
            }
            _ => {}
        }
    }
    found
}

/// Names in a folder, sorted. Leaves out names that are not Unicode: the hub has none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The name of a file directly in this folder.
fn in_folder<'path>(path: &'path str, folder: &str) -> Option<&'path str> {
    let name = if folder.is_empty() { path } else { path.strip_prefix(folder)?.strip_prefix('/')? };
    (!name.contains('/')).then_some(name)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn is_inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {error}", path.display()))
}
