//! The static vectors of an engine's model: read from disk, or made from the model and kept there.
//!
//! The file is in the model's folder, or in the user's cache if the model's folder is read-only. It begins with a hash
//! of all that the vectors depend on, so that one of another model is never used.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::context::CallContext;
use super::embed::all_rows;
use super::{Effort, Engine, Question, Request};
use crate::encoder::EncoderSpec;
use crate::encoder::model::Model;
use crate::encoder::model::weight_files::weight_files;
use crate::encoder::user_cache::{self, write_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::ranking::candidates::CandidateLimits;
use crate::ranking::shortlist::shortlist_length;
use crate::ranking::static_vectors::StaticVectors;
use crate::tokens::TokenPage;

/// In the model's folder.
const FILE: &str = "static_vectors.bin";
/// Changes with the file's layout, and with how vectors are made.
const VERSION: u8 = 1;
/// Calls with [`Effort::Auto`] make vectors of vocabularies up to this size: that costs less than such a call
/// saves.
const MAX_VOCABULARY: usize = 1 << 16;
const ROWS: usize = 4096;
/// What vectors depend on besides the weights. A file that a model lacks counts as empty.
const SMALL_FILES: [&str; 4] = ["config.json", "modules.json", "tokenizer.json", "1_Pooling/config.json"];

/// Where the vectors of a model are kept.
#[derive(Clone, Debug)]
pub(super) struct StaticVectorsFile {
    model: Model,
    dimension: usize,
}

impl StaticVectorsFile {
    /// `None` if the vectors come from a host or a function, whose weights are unknown.
    pub(super) fn new(model: &Model, spec: &EncoderSpec) -> Option<Self> {
        let is_known = !["host", "python"].contains(&spec.backend.as_str()) && model.late_interaction.is_none();
        is_known.then(|| Self { model: model.clone(), dimension: spec.dimension })
    }

    /// `None` without weights.
    fn key(&self) -> Option<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[VERSION]).update(&(self.dimension as u64).to_le_bytes());
        for name in SMALL_FILES {
            hasher.update(blake3::hash(&fs::read(self.model.file(name)).unwrap_or_default()).as_bytes());
        }
        for file in weight_files(&self.model.directory).ok()?.1 {
            std::io::copy(&mut fs::File::open(file).ok()?, &mut hasher).ok()?;
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// The places of the file, the best first.
    fn paths(&self, key: [u8; 32]) -> Vec<PathBuf> {
        let name = format!("static_vectors-{}.bin", blake3::Hash::from_bytes(key).to_hex());
        std::iter::once(self.model.file(FILE)).chain(user_cache::folder().map(|cache| cache.join(name))).collect()
    }

    fn read(&self, key: [u8; 32]) -> Option<StaticVectors> {
        let read = |path: &PathBuf| StaticVectors::from_bytes(fs::read(path).ok()?.strip_prefix(&key)?);
        self.paths(key).iter().find_map(read)
    }

    /// Writes to the first place that takes it. A full disk costs the next process the time to make them again.
    fn write(&self, key: [u8; 32], vectors: &StaticVectors) {
        let bytes = [key.as_slice(), &vectors.to_bytes()].concat();
        let _ = self.paths(key).iter().any(|path| write_whole(path, &bytes));
    }
}

impl Engine {
    /// The number of pages to search, which are the best by static vectors. `None` unless pages share a limit and such
    /// vectors cost less than they save.
    pub(super) fn shortlist(
        &self,
        request: &Request<&str>,
        question: &Question,
        limits: &CandidateLimits,
    ) -> Option<usize> {
        let applies = question.effort == Effort::Auto
            && question.lexical_weight.uses_terms()
            && request.queries.len() == 1
            && self.static_vectors_file.is_some()
            && self.spec.vocabulary <= MAX_VOCABULARY;
        shortlist_length(request.pages.len(), limits.shared_passages.filter(|_| applies)?)
    }

    /// The vectors of the model's tokens. The first call reads them, or encodes the whole vocabulary, which is not part
    /// of any call's work.
    pub(super) async fn static_vectors(&self, context: &CallContext<'_, '_>) -> Result<Arc<StaticVectors>> {
        if let Some(vectors) = self.static_vectors.get() {
            return Ok(Arc::clone(vectors));
        }
        if self.is_late_interaction() {
            let message = "effort=\"instant\" needs a model with one vector for a text; this one has a vector for each token. Use \
                           \"auto\"";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if self.tokens.has_only_bytes() {
            let message = "effort=\"instant\" needs a model with a vocabulary; this encoder takes texts. Use \"auto\"";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let file = self.static_vectors_file.as_ref();
        let key = file.and_then(StaticVectorsFile::key);
        let kept = file.zip(key).and_then(|(file, key)| file.read(key));
        let is_of_model = |vectors: &StaticVectors| vectors.vocabulary() == self.spec.vocabulary;
        let vectors = if let Some(vectors) = kept.filter(is_of_model) {
            vectors
        } else {
            let vectors = self.encode_vocabulary(context).await?;
            if let Some((file, key)) = file.zip(key) {
                file.write(key, &vectors);
            }
            vectors
        };
        Ok(Arc::clone(self.static_vectors.get_or_init(|| Arc::new(vectors))))
    }

    async fn encode_vocabulary(&self, context: &CallContext<'_, '_>) -> Result<StaticVectors> {
        let ids: Vec<i32> = (0..self.spec.vocabulary).filter_map(|id| i32::try_from(id).ok()).collect();
        let mut vectors = Vec::with_capacity(ids.len() * self.spec.dimension);
        for ids in ids.chunks(ROWS) {
            let rows = ids.iter().map(|id| (self.tokens.single_token_row(*id), false)).collect();
            let rows = all_rows(&Arc::new(TokenPage::of_rows(rows)));
            vectors.extend(context.scheduler.submit(rows, &context.call.uncounted())?.await?);
        }
        Ok(StaticVectors::new(&vectors, self.spec.dimension))
    }
}
