//! Shared by the tests: model directories with tokenizers of three families, and an encoder without weights.

#![allow(dead_code, reason = "each test uses a part of this")]

pub(crate) mod shapes;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use pullquote_core::encoder::cosine::cosines;
use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{Batch, Collected, DeviceSpec, Encoder, EncoderSpec, Output, Ticket, Waker};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Embeddings, Engine, Pairing, Question, Request};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::{Call, unstopped};
use pullquote_core::text::formats::Format;
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::pieces;
use pullquote_core::tokens::Role;
use serde_json::{Value, json};

/// The default options.
pub(crate) fn question() -> Question {
    Question::new(&Options::default()).unwrap()
}

/// A request for pages of plain text without titles.
pub(crate) fn request<'text>(queries: &[&'text str], pages: &[&'text str], pairing: Pairing) -> Request<&'text str> {
    let (queries, pages) = (queries.to_vec(), pages.to_vec());
    Request { queries, pages, formats: vec![Format::Text], titles: Vec::new(), pairing }
}

/// Waits for [`Engine::highlights`].
pub(crate) fn highlights<Text: AsRef<str>>(
    engine: &Engine,
    request: &Request<Text>,
    question: &Question,
    call: &Call,
) -> Result<Answers> {
    engine.wait(call, engine.highlights(request, question, call))
}

/// Waits for [`Engine::embed`].
pub(crate) fn embed<Text: AsRef<str>>(engine: &Engine, texts: &[Text], role: Role, call: &Call) -> Result<Embeddings> {
    engine.wait(call, engine.embed(texts, role, call))
}

/// A query about one page of `sentences` sentences of different lengths.
pub(crate) fn owned_request(sentences: usize) -> Request<String> {
    Request {
        queries: vec!["Where is the cat?".to_owned()],
        pages: vec![(0..sentences).map(|n| format!("The cat {n} is in the moon. ").repeat(1 + n % 3)).collect()],
        formats: vec![Format::Text],
        titles: Vec::new(),
        pairing: Pairing::All,
    }
}

/// Deleted when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pullquote-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A model's directory without weights. `prompts` are those of queries and passages.
pub(crate) fn model(tokenizer: &Value, max_tokens: usize, prompts: (&str, &str)) -> (Folder, Model) {
    let folder = Folder::new();
    let write = |name: &str, value: &Value| fs::write(folder.path().join(name), value.to_string()).unwrap();
    // Without a scale the first call encodes more rows, to measure it.
    let scale = json!({"cosines": [0.0, 1.0]});
    let config =
        json!({"model_type": "bert", "vocab_size": 5000, "max_position_embeddings": max_tokens, "pullquote": scale});
    write("config.json", &config);
    write("tokenizer.json", tokenizer);
    write("config_sentence_transformers.json", &json!({"prompts": {"query": prompts.0, "passage": prompts.1}}));
    let model = Model::read(folder.path()).unwrap();
    (folder, model)
}

const WORDS: [&str; 12] = ["the", "cat", "moon", "is", "bread", "in", "Paris", "und", "der", "Haus", "ing", "ed"];

/// Characters that are tokens of every test tokenizer.
fn characters() -> Vec<char> {
    (' '..='~').chain("äöüéßçñ—“”’…。，？！漢字日本語かなカナกขคอาαβγабвд".chars()).collect()
}

fn special_tokens(names: &[&str]) -> Value {
    let token = |(id, content): (usize, &&str)| json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    names.iter().enumerate().map(token).collect()
}

fn template(first: (&str, usize), last: (&str, usize)) -> Value {
    let special = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let entry = |(token, id): (&str, usize)| (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}));
    json!({
        "type": "TemplateProcessing",
        "single": [special(first.0), sequence("A"), special(last.0)],
        "pair": [special(first.0), sequence("A"), special(last.0), sequence("B"), special(last.0)],
        "special_tokens": Value::Object([entry(first), entry(last)].into_iter().collect()),
    })
}

/// `WordPiece` as in BERT, with the truncation and padding in `MiniLM`'s file.
pub(crate) fn word_piece() -> Value {
    let names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let mut vocabulary: HashMap<String, usize> =
        names.iter().enumerate().map(|(id, name)| ((*name).to_owned(), id)).collect();
    for token in characters().iter().map(char::to_string).chain(WORDS.iter().map(ToString::to_string)) {
        for form in [token.to_lowercase(), format!("##{}", token.to_lowercase())] {
            let id = vocabulary.len();
            vocabulary.entry(form).or_insert(id);
        }
    }
    json!({
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": special_tokens(&names),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(("[CLS]", 2), ("[SEP]", 3)),
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    })
}

/// Unigram with spaces as `▁`, as in XLM-RoBERTa. With `whole` it splits at white space first, as the published file
/// does.
pub(crate) fn sentence_piece(whole: bool) -> Value {
    let names = ["<s>", "<pad>", "</s>", "<unk>"];
    let mut vocabulary: Vec<(String, f64)> = names.iter().map(|name| ((*name).to_owned(), 0.0)).collect();
    vocabulary.push(("▁".to_owned(), -2.5));
    vocabulary.extend(characters().iter().map(|c| (c.to_string(), -6.0 - f64::from(u32::from(*c) % 7) / 10.0)));
    for word in WORDS {
        vocabulary.push((word.to_owned(), -7.0));
        vocabulary.push((format!("▁{word}"), -4.0));
    }
    vocabulary.push(("e.".to_owned(), -3.0));
    vocabulary.push(("。漢".to_owned(), -3.0));
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let pre_tokenizer = if whole {
        json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]})
    } else {
        metaspace
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": special_tokens(&names),
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": pre_tokenizer,
        "post_processor": template(("<s>", 0), ("</s>", 2)),
        "decoder": null,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": false},
    })
}

/// Byte-level BPE, as in GPT-2 and `ModernBERT`.
pub(crate) fn byte_level() -> Value {
    let names = ["<s>", "<pad>", "</s>", "<unk>"];
    let mut vocabulary: HashMap<String, usize> =
        names.iter().enumerate().map(|(id, name)| ((*name).to_owned(), id)).collect();
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let merges = ["t h", "th e", "Ġ the", "o n", "Ġ m", "o o", "Ġm oo", ". .", "a t", "c at", "Ġ cat", "Ġ Ġ"];
    for token in alphabet.iter().map(char::to_string).chain(merges.iter().map(|merge| merge.replace(' ', ""))) {
        let id = vocabulary.len();
        vocabulary.entry(token).or_insert(id);
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": special_tokens(&names),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": template(("<s>", 0), ("</s>", 2)),
        "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": merges},
    })
}

/// A tokenizer of no known family: it prepends a character to the whole text.
pub(crate) fn unknown_family() -> Value {
    let mut tokenizer = sentence_piece(false);
    tokenizer["normalizer"] = json!({"type": "Prepend", "prepend": "x"});
    tokenizer
}

/// Ids that make the fake encoder reject a batch, or return NaN.
#[derive(Clone, Copy, Default)]
pub(crate) struct Poison {
    pub(crate) reject: Option<i32>,
    pub(crate) nan: Option<i32>,
}

/// For every submitted batch, its device and the lengths of its rows.
pub(crate) type Log = Arc<Mutex<Vec<(usize, Vec<u32>)>>>;

/// An encoder without weights: a row's vector depends on its ids only. Of two batches, the later one finishes first.
pub(crate) struct FakeEncoder {
    spec: EncoderSpec,
    poison: Poison,
    running: Vec<VecDeque<(Ticket, Batch)>>,
    waker: Option<Waker>,
    next: u64,
    pub(crate) log: Log,
    /// The number of queries of each collected batch.
    pub(crate) query_counts: Arc<Mutex<Vec<usize>>>,
}

pub(crate) const DIMENSION: usize = 16;
/// Of a token's vector.
pub(crate) const TOKEN_WIDTH: usize = 2;

impl FakeEncoder {
    pub(crate) fn new(devices: usize, notifies: bool, poison: Poison) -> Self {
        let device = |index| DeviceSpec::new(format!("fake:{index}"), 2, 64);
        let mut spec = EncoderSpec::new("test", DIMENSION, 64, 5000, (0..devices).map(device).collect());
        spec.capabilities.notifies = notifies;
        let running = (0..devices).map(|_| VecDeque::new()).collect();
        Self { spec, poison, running, waker: None, next: 0, log: Arc::default(), query_counts: Arc::default() }
    }

    /// Lets devices compute cosines with queries.
    pub(crate) fn with_cosines(mut self) -> Self {
        self.spec.capabilities.cosines = true;
        self
    }

    pub(crate) fn with_token_vectors(mut self) -> Self {
        self.spec.capabilities.token_width = Some(TOKEN_WIDTH);
        self
    }
}

/// The vector of a row: a running hash of its ids, spread over the dimensions.
pub(crate) fn fake_vector(ids: &[i32]) -> Vec<f32> {
    let mut state = 1_u64;
    for id in ids {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(u64::from(id.cast_unsigned()) + 1_442_695_040_888_963_407);
    }
    let mut value = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(u16::try_from(state >> 48).unwrap()) / 65536.0 - 0.5
    };
    (0..DIMENSION).map(|_| value()).collect()
}

/// The concatenated vectors of a batch's rows.
pub(crate) fn fake_vectors(batch: &Batch) -> Vec<f32> {
    let mut ids = batch.ids.as_slice();
    let row = |length: &u32| {
        let (row, later) = ids.split_at(*length as usize);
        ids = later;
        fake_vector(row)
    };
    batch.lengths.iter().flat_map(row).collect()
}

impl Encoder for FakeEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.log.lock().unwrap().push((device, batch.lengths.clone()));
        if batch.ids.iter().any(|id| Some(*id) == self.poison.reject) {
            return Err(Error::new(ErrorKind::Encoder, "poisoned batch"));
        }
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        self.running[device].push_back((ticket, batch.clone()));
        if let Some(waker) = &self.waker {
            waker();
        }
        Ok(ticket)
    }

    fn is_finished(&mut self, Ticket { number, .. }: Ticket) -> bool {
        // The later of two batches finishes first.
        number.is_multiple_of(2)
            || self.running.iter().all(|batches| batches.iter().all(|(other, _)| other.number != number + 1))
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let running = &mut self.running[ticket.device];
        let index = running.iter().position(|(other, _)| *other == ticket).unwrap();
        let (_, batch) = running.remove(index).unwrap();
        self.query_counts.lock().unwrap().push(batch.queries.len() / DIMENSION);
        let (mut start, mut values) = (0, Vec::new());
        for length in &batch.lengths {
            let ids = &batch.ids[start..start + *length as usize];
            start += *length as usize;
            let mut vector = fake_vector(ids);
            if ids.iter().any(|id| Some(*id) == self.poison.nan) {
                vector[3] = f32::NAN;
            }
            match batch.output {
                Output::Vectors => values.extend(vector),
                Output::TokenVectors => {
                    values.extend(ids.iter().flat_map(|id| [f32::from(i16::try_from(*id).unwrap()), vector[3]]));
                }
                Output::Scores | Output::Labels => unreachable!("its capabilities lack pairs"),
                Output::Cosines => {
                    let queries = batch.queries.chunks_exact(DIMENSION);
                    let is_nan = vector.iter().any(|value| value.is_nan());
                    let scores = queries.flat_map(|query| cosines(query, &vector));
                    values.extend(scores.map(|score| if is_nan { f32::NAN } else { score }));
                }
            }
        }
        receive(Cow::Owned(values));
        Ok(Collected::default())
    }
}

/// The sentences of a text, in a call that nothing ends.
pub(crate) fn sentences(text: &str) -> Vec<ByteSpan> {
    pieces::sentences(text, &unstopped).unwrap()
}
