//! Which files of a repository a model needs, and what a cache has of them.

use std::fs;
use std::path::{Path, PathBuf};

use pullquote_core::encoder::hub_cache::{Snapshot, find, list, needed_files};
use pullquote_core::error::ErrorKind;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const PLAIN: &str = r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"#;

/// A cache with one model, which a test fills.
struct Cache {
    folder: PathBuf,
}

impl Cache {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pullquote-hub-cache-{test}-{}", std::process::id()));
        let cache = Self { folder };
        cache.write("refs/main", COMMIT);
        cache
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.folder.join("models--org--name").join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is writable");
        fs::write(path, content).expect("the folder is writable");
    }

    fn snapshot(&self, files: &[&str]) {
        for file in files {
            self.write(&format!("snapshots/{COMMIT}/{file}"), "");
        }
    }

    fn tree(&self, files: &[(&str, usize)]) {
        let entries: Vec<String> =
            files.iter().map(|(path, size)| format!(r#""{path}": {{"size": {size}}}"#)).collect();
        self.write(
            &format!("trees/{COMMIT}.json"),
            &format!(r#"{{"format_version": 1, "files": {{{}}}}}"#, entries.join(",")),
        );
    }

    fn missing(&self) -> Vec<String> {
        self.find("main").expect("there is a snapshot").missing
    }

    fn find(&self, revision: &str) -> Option<Snapshot> {
        find(&self.folder, "org/name", revision, true).expect("no file is damaged")
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn needed(files: &[&str], modules: Option<&str>) -> (Vec<String>, Vec<String>) {
    let needed = needed_files(files, modules.map(str::as_bytes), true).expect("the modules are sound");
    (needed.files, needed.missing)
}

#[test]
fn needed_files_are_those_that_are_read() {
    let own = ["config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "sentence_bert_config.json"];
    let own = [&own[..], &["config_sentence_transformers.json", "model.safetensors", "1_Pooling/config.json"]].concat();
    let others = ["README.md", "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json", "tf_model.h5", "vocab.txt"];
    let (mut files, missing) = needed(&[&own[..], &others].concat(), Some(PLAIN));
    let mut expected = own;
    files.sort();
    expected.sort_unstable();
    assert_eq!(files, expected);
    assert!(missing.is_empty());
}

#[test]
fn one_kind_of_weights_is_needed() {
    let base = ["config.json", "tokenizer.json"];
    let cases: [(&[&str], &[&str]); 4] = [
        (&["model.safetensors", "pytorch_model.bin"], &["model.safetensors"]),
        (&["pytorch_model.bin", "flax_model.msgpack"], &["pytorch_model.bin"]),
        (
            &["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            &["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (&["model.safetensors", "model_fp16.safetensors", "model-00001-of-00002.safetensors"], &["model.safetensors"]),
    ];
    for (weights, chosen) in cases {
        let (files, missing) = needed(&[&base[..], weights].concat(), None);
        assert_eq!(files, [&base[..], chosen].concat());
        assert!(missing.is_empty());
    }
}

#[test]
fn modules_have_files_in_their_folders() {
    let modules = r#"[{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Dense", "type": "sentence_transformers.models.Dense"}]"#;
    let files = ["modules.json", "model.safetensors", "0_Transformer/config.json", "0_Transformer/tokenizer.json"];
    let files =
        [&files[..], &["0_Transformer/pytorch_model.bin", "1_Dense/config.json", "1_Dense/model.safetensors"]].concat();
    let (found, missing) = needed(&files, Some(modules));
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(!found.contains(&"model.safetensors".to_owned()), "no module is in the model's own folder");
    assert!(missing.is_empty());
}

#[test]
fn missing_files_are_named() {
    let (_, missing) = needed(&["config.json", "vocab.txt", "model.onnx", "modules.json"], Some(PLAIN));
    assert_eq!(missing, ["tokenizer.json", "model.safetensors", "1_Pooling/config.json"]);
    for path in ["../other", "/etc"] {
        let modules = format!(r#"[{{"path": "{path}", "type": "x.Transformer"}}]"#);
        let error = needed_files(&[], Some(modules.as_bytes()), true).expect_err("it leaves the folder");
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.message().contains(path));
    }
}

#[test]
fn a_cached_revision_is_found_by_branch_and_by_commit() {
    let cache = Cache::new("revisions");
    cache.snapshot(&["config.json", "tokenizer.json", "model.safetensors", ".gitattributes"]);
    for revision in ["main", COMMIT] {
        assert_eq!(cache.find(revision), Some(Snapshot { commit: COMMIT.to_owned(), missing: Vec::new() }));
    }
    cache.write("refs/damaged", "../../..");
    for revision in ["other", "../main", "damaged", &"0".repeat(40)] {
        assert_eq!(cache.find(revision), None, "{revision}");
    }
    assert_eq!(find(Path::new("/no/such/folder"), "org/name", "main", true).expect("nothing is damaged"), None);
}

#[test]
fn absence_of_modules_must_be_known() {
    let cache = Cache::new("modules");
    cache.snapshot(&["config.json", "tokenizer.json", "model.safetensors"]);
    assert_eq!(cache.missing(), ["modules.json"]);
    cache.write(&format!(".no_exist/{COMMIT}/modules.json"), "");
    assert!(cache.missing().is_empty());
}

#[test]
fn a_stored_tree_shows_missing_and_truncated_files() {
    let cache = Cache::new("tree");
    cache.snapshot(&["config.json", "tokenizer.json", "model.safetensors"]);
    cache.tree(&[("config.json", 0), ("tokenizer.json", 0), ("model.safetensors", 0), ("README.md", 9)]);
    assert!(cache.missing().is_empty());
    cache.tree(&[("config.json", 0), ("tokenizer.json", 9), ("model.safetensors", 0), ("tokenizer_config.json", 2)]);
    assert_eq!(cache.missing(), ["tokenizer.json", "tokenizer_config.json"]);
}

#[test]
fn files_of_an_index_must_be_there() {
    let cache = Cache::new("shards");
    cache.snapshot(&["config.json", "tokenizer.json", "model-1.safetensors", ".gitattributes"]);
    let index = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    cache.write(&format!("snapshots/{COMMIT}/model.safetensors.index.json"), index);
    assert_eq!(cache.missing(), ["model-2.safetensors"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_lost_blob_is_missing() {
    let cache = Cache::new("links");
    cache.snapshot(&["config.json", "tokenizer.json", ".gitattributes"]);
    let link = cache.folder.join("models--org--name/snapshots").join(COMMIT).join("model.safetensors");
    std::os::unix::fs::symlink("../../blobs/lost", &link).expect("the folder is writable");
    assert_eq!(cache.missing(), ["model.safetensors"]);
    cache.write("blobs/lost", "found");
    assert!(cache.missing().is_empty());
}

#[test]
fn list_reports_models_that_do_not_load() {
    let cache = Cache::new("list");
    cache.snapshot(&["tokenizer.json", "model.safetensors", ".gitattributes"]);
    cache.write(&format!("snapshots/{COMMIT}/config.json"), r#"{"model_type": "t5"}"#);
    let [model] = &list(&cache.folder)[..] else { panic!("there is one model") };
    assert_eq!((model.name.as_str(), model.revision.as_str(), model.bytes), ("org/name", COMMIT, 20));
    assert_eq!(model.refs, ["main"]);
    let problem = model.problem.as_ref().expect("t5 is not known");
    assert_eq!(problem.kind(), ErrorKind::UnsupportedModel);
    assert!(problem.message().contains("t5"));
}
