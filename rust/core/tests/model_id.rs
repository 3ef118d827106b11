//! A model's id: what changes it, and what does not.

use std::fs;
use std::path::{Path, PathBuf};

use pullquote_core::encoder::model::Model;
use pullquote_core::error::ErrorKind;

const MODULES: &str = r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
const DENSE: &str =
    r#"{"in_features": 4, "out_features": 2, "activation_function": "torch.nn.modules.activation.Tanh"}"#;

/// A folder that a test fills.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("pullquote-model-id-{test}-{}", std::process::id())));
        for (name, content) in [
            ("config.json", r#"{"model_type": "bert", "vocab_size": 9, "max_position_embeddings": 9}"#),
            ("modules.json", MODULES),
            ("tokenizer.json", "{}"),
            ("model.safetensors", "weights"),
            ("1_Pooling/config.json", r#"{"pooling_mode_mean_tokens": true}"#),
            ("2_Dense/config.json", DENSE),
            ("2_Dense/model.safetensors", "more weights"),
        ] {
            folder.write(name, content);
        }
        folder
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is writable");
        // Another name first, so that a change of equal length is another file.
        fs::write(self.0.join("draft"), content).expect("the folder is writable");
        fs::rename(self.0.join("draft"), path).expect("the folder is writable");
    }

    fn id(&self) -> String {
        id_of(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn id_of(directory: &Path) -> String {
    Model::read(directory).expect("the small files are sound").id().expect("all files can be read")
}

#[test]
fn all_that_vectors_depend_on_changes_the_id() {
    let folder = Folder::new("changes");
    let mut ids = vec![folder.id()];
    assert!(ids[0].len() == 32 && ids[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", ids[0]);
    for (name, content) in [
        ("model.safetensors", "Weights"),
        ("2_Dense/model.safetensors", "other weights"),
        ("tokenizer.json", r#"{"version": "1.0"}"#),
        ("config.json", r#"{"model_type": "bert", "vocab_size": 8, "max_position_embeddings": 9}"#),
        ("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true}"#),
        ("config_sentence_transformers.json", r#"{"prompts": {"query": "q: "}}"#),
    ] {
        folder.write(name, content);
        ids.push(folder.id());
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
}

#[test]
fn other_files_and_another_place_keep_the_id() {
    let (folder, copy) = (Folder::new("keeps"), Folder::new("copy"));
    let id = folder.id();
    for name in ["README.md", "static_vectors.bin", "onnx/model.onnx", "1_Pooling/notes.txt"] {
        folder.write(name, "nothing that vectors depend on");
    }
    assert_eq!((folder.id(), copy.id()), (id.clone(), id));
}

#[test]
fn weights_in_several_files_count_all() {
    let folder = Folder::new("shards");
    fs::remove_file(folder.0.join("model.safetensors")).expect("the file was written");
    folder.write("model.safetensors.index.json", r#"{"weight_map": {"a": "first.safetensors", "b": "b.safetensors"}}"#);
    folder.write("first.safetensors", "1");
    folder.write("b.safetensors", "2");
    let before = folder.id();
    folder.write("first.safetensors", "3");
    assert_ne!(folder.id(), before);
    fs::remove_file(folder.0.join("b.safetensors")).expect("the file was written");
    let error = Model::read(&folder.0).expect("the small files are sound").id().expect_err("a file is missing");
    assert_eq!(error.kind(), ErrorKind::InvalidModel);
}
