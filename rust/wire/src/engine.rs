//! The arguments of `Highlighter`, `AsyncHighlighter` and `Engine`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::schema::ByteCount;

/// Bytes of the cache by default: about 5 MB of text with a small model.
pub const CACHE_BYTES: usize = 256 * 1024 * 1024;

crate::settings! {
    /// The arguments of an engine. `encoder` is here where it has a name; other encoders are Python objects.
    #[derive(Debug)]
    pub struct EngineSettings {
        ["model and devices" for "highlight cite embed serve job mcp"]

        /// Name of a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5, or the directory of one.
        ///
        /// An existing directory wins, and a name without an owner is one of `sentence-transformers`. The cache that all
        /// programs share is read first; what it lacks is downloaded.
        #[schemars(extend(
            "x-python" = "str | Path | None", "x-default" = "the embedded all-MiniLM-L6-v2", "x-docs" = "models.md",
            "x-help" = "Name of a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5, or the directory of one; private \
                        and gated models need the environment variable HF_TOKEN (default: the embedded all-MiniLM-L6-v2)."
        ))]
        model: Option<String> = None,
        /// Devices that compute: `"cpu"`, `"cuda:0"`, ..., or a list of them.
        ///
        /// `"auto"` is every CUDA device if `pullquote-torch` is installed and finds one, else the CPU. `["cpu:0", "cpu:1"]` are
        /// logical devices that share the cores.
        #[schemars(extend(
            "x-python" = "str | Sequence[str]", "x-flag" = "--device", "x-metavar" = "DEVICE", "default" = "auto",
            "x-help" = "Device that computes: cpu, cuda:0, ...; repeatable (default: auto)."
        ))]
        devices: Vec<String> = vec!["auto".to_owned()],
        /// Number type: `"float32"`, `"bfloat16"`, `"float16"`, `"int8"` or `"auto"`.
        ///
        /// `"auto"` is float16 on CUDA. On a CPU with AVX2 it is int8 for the embedded model. Else it is bfloat16 if the processor
        /// has instructions for it, or float32. int8 is for CPUs only, and the fastest there.
        #[schemars(extend("x-docs" = "models.md#number-types"))]
        dtype: String = "auto".to_owned(),
        /// Maximum threads for text, and as many for a CPU device.
        ///
        /// The default counts the cores of affinity and control groups, and is at most `OMP_NUM_THREADS` and 32. `"caller"` is
        /// for `pullquote.engine.Engine`: it starts no threads, and encodes in its steps.
        #[schemars(with = "Option<usize>", range(min = 1), extend(
            "x-python" = "int | Literal[\"caller\"] | None", "x-default" = "one for each core"
        ))]
        threads: Option<Threads> = None,
        /// Bytes of the cache of pages and queries; 0 disables it.
        ///
        /// It holds parsed pages and their vectors, so that another query on them encodes only itself, and vectors of queries.
        /// It evicts what was used least recently.
        #[schemars(extend("x-commands" = "serve job"))]
        #[schemars(with = "ByteCount")]
        cache_bytes: usize = CACHE_BYTES,
        /// Numbers of the cores that these threads run on.
        #[schemars(extend("x-python" = "Iterable[int] | None", "x-commands" = "", "x-default" = "the caller's affinity"))]
        cores: Option<Vec<usize>> = None,
        /// `torch` computes the model with libtorch, on CPUs too; or a custom encoder.
        ///
        /// Instead of a model: a function from a list of strings to float32 `[n, dimension]`, or an object with such a method
        /// `encode` (a sentence-transformers model, for example). One thread calls it, with the texts of all waiting callers. Its
        /// tokens are bytes of UTF-8. An `async` function runs in an event loop of its own. Or with the `model` whose tokenizer
        /// it needs: an object with a method `encode_ids(ids, lengths)`, int32 ids of all rows, concatenated without padding,
        /// and the length of each row; or an object whose `__pullquote_encoder__()` returns a `pullquote.encoder` capsule.
        #[schemars(extend(
            "x-python" = "CustomEncoder | Literal[\"torch\"] | None", "x-metavar" = "MODULE:FUNCTION",
            "x-docs" = "models.md#your-own-encoder",
            "x-help" = "Instead of a model, a Python function from a list of strings to float32 [n, dimension]; or torch, to \
                        compute the model with libtorch."
        ))]
        encoder: Option<NamedEncoder> = None,
        /// `auto` queues the kernels of frequent shapes of batches as CUDA graphs. Not yet run on a GPU.
        ///
        /// It is for CUDA devices where rows are not padded; after an error a device continues without (`device_states`).
        #[serde(deserialize_with = "auto_or_false")]
        #[schemars(extend(
            "x-python" = "Literal[\"auto\", False]", "x-const" = "auto", "x-docs" = "gpus.md#cuda-graphs",
            "x-help" = "Queue the kernels of frequent shapes of batches as CUDA graphs; not yet run on a GPU."
        ))]
        cuda_graphs: bool = false,
        /// Name or directory of a reranker, such as cross-encoder/ms-marco-MiniLM-L6-v2: it scores the best passages again.
        ///
        /// It reads query and passage together, on the devices and in the `dtype` of the model; `rerank_top` says how many. The
        /// order of passages and their scores are its own then.
        #[schemars(extend(
            "x-python" = "str | Path | None", "x-docs" = "models.md#rerankers",
            "x-help" = "Name or directory of a reranker, such as cross-encoder/ms-marco-MiniLM-L6-v2, which scores the best \
                        passages again (default: none)."
        ))]
        reranker: Option<String> = None,
        /// Name or directory of a pruner, such as hotchpotch/open-provence-reranker-v1: passages are the sentences that it keeps.
        ///
        /// It reads the query with the best passages and the sentences around them, as a `reranker` does and instead of one. Passages
        /// are then runs of sentences above its threshold, or above `min_score`, and scores its probabilities.
        #[schemars(extend(
            "x-python" = "str | Path | None", "x-docs" = "models.md#pruners",
            "x-help" = "Name or directory of a pruner, such as hotchpotch/open-provence-reranker-v1; passages are then runs of the \
                        sentences that it keeps (default: none)."
        ))]
        pruner: Option<String> = None,
        /// Branch, tag or commit of a named model.
        ///
        /// A branch stays at the commit that the cache has: `pullquote models get NAME` fetches the newest.
        #[schemars(extend("x-default" = "main"))]
        revision: Option<String> = None,

        ["prompts and vectors" for "highlight cite embed serve mcp"]

        /// Values of a vector to keep; vectors are cut, and scaled to unit length.
        #[schemars(range(min = 1), extend(
            "x-default" = "all", "x-docs" = "models.md#shorter-vectors"
        ))]
        truncate_dim: Option<usize> = None,
        /// Name of the query's prompt in the model's files.
        #[schemars(extend(
            "x-default" = "query", "x-docs" = "models.md#prompts"
        ))]
        prompt_name: Option<String> = None,
        /// Text before queries; `prompts` has what is used, and its source.
        #[schemars(extend("x-default" = "the model's", "x-help" = "Text before queries. (default: the model's)"))]
        query_prompt: Option<String> = None,
        /// Text before passages.
        #[schemars(extend("x-default" = "the model's"))]
        passage_prompt: Option<String> = None,

        ["batches" for "serve job"]

        /// Maximum tokens of a batch.
        #[schemars(range(min = 1), extend("x-default" = "the device's"))]
        max_batch_tokens: Option<usize> = None,
        /// Maximum texts of a batch.
        #[schemars(range(min = 1), extend("x-default" = "as many as fit; 64 for a custom encoder"))]
        max_batch_size: Option<usize> = None,
        /// Seconds that texts wait for others when they do not fill a batch; with 0, batches grow only while the devices are
        /// busy.
        #[serde(with = "crate::seconds::or_zero")]
        #[schemars(with = "f64", range(min = 0), extend("x-commands" = "serve"))]
        batch_timeout: Duration = Duration::ZERO,
        /// Batches in flight on each device.
        ///
        /// The default is 2 on CUDA, and one more than its threads on a CPU.
        #[schemars(range(min = 1), extend("x-commands" = "serve", "x-default" = "the device's"))]
        depth: Option<usize> = None,
        /// Seconds without a finished batch after which other devices take over a device's batches.
        ///
        /// It gets new ones after it has finished those. A single device has no timeout.
        #[serde(with = "crate::seconds::optional")]
        #[schemars(with = "Option<f64>", extend("exclusiveMinimum" = 0, "x-commands" = "serve", "x-default" = "10"))]
        device_timeout: Option<Duration> = None,

        ["named models, and profiles" for ""]

        /// Token for private and gated models; it is sent to no other host than the hub's.
        #[schemars(extend("format" = "password", "x-default" = "`HF_TOKEN`, or that of `hf auth login`"))]
        token: Option<String> = None,
        /// Folder of the cache of named models.
        #[schemars(extend(
            "x-python" = "str | Path | None", "x-default" = "`HF_HUB_CACHE`, or `hub` in `HF_HOME`"
        ))]
        cache_dir: Option<String> = None,
        /// Take named models from the cache only, and never use the network, as with `HF_HUB_OFFLINE=1`.
        local_files_only: bool = false,
        /// Make CUDA devices wait after each stage, so that `stages` separates them. Slower.
        profile: bool = false,
    }
}

/// The maximum number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// None: callers do all work.
    Caller,
    Count(usize),
}

/// An encoder that a name is enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum NamedEncoder {
    Torch,
}

impl Serialize for Threads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Caller => serializer.serialize_str("caller"),
            Self::Count(count) => count.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ThreadsVisitor)
    }
}

struct ThreadsVisitor;

impl Visitor<'_> for ThreadsVisitor {
    type Value = Threads;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("at least 1, or null for one for each core; for an Engine also \"caller\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Threads, E> {
        if text == "caller" { Ok(Threads::Caller) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Threads, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(count), &"at least 1");
        usize::try_from(count).ok().filter(|count| *count > 0).map(Threads::Count).ok_or_else(wrong)
    }
}

struct AutoOrFalse;

impl Visitor<'_> for AutoOrFalse {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"auto\", or false for none")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<bool, E> {
        if text == "auto" { Ok(true) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<bool, E> {
        if on { Err(E::invalid_value(de::Unexpected::Bool(on), &self)) } else { Ok(false) }
    }
}

fn auto_or_false<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    deserializer.deserialize_any(AutoOrFalse)
}
