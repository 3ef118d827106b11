//! Vectors: the inputs and options that the routes of `OpenAI`, Text Embeddings Inference and the rerankers share.

use pullquote_core::engine::Work;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::unstopped;
use pullquote_core::tokens::{GivenIds, Role, Row, RowOptions, TextOrIds, TruncationSide};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::http::failure::{Amount, Cause, Failure, refused};
use crate::http::input::RequestControl;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::schema_placeholders::{DIMENSION, MAX_DOCUMENT_BYTES, MAX_INPUTS, MODEL_NAMES};

/// A text, a list of texts, or the same as token ids: at most `{max_inputs}`. Token ids need this model's special
/// tokens around them, or `add_special_tokens: false`. A text may also be an object with a `prompt_string`, or with a
/// `content` of text parts.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "must be a text, a list of texts, a list of token ids, a list of lists of token ids, or objects with a prompt_string or a content of text parts"
)]
#[schemars(inline)]
pub(crate) enum Texts {
    One(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS), inner(length(max = MAX_DOCUMENT_BYTES)))] Vec<String>),
    Ids(#[schemars(length(min = 1))] Vec<u32>),
    ManyIds(#[schemars(length(min = 1, max = MAX_INPUTS), inner(length(min = 1)))] Vec<Vec<u32>>),
    Object(TextObject),
    Mixed(#[schemars(length(min = 1, max = MAX_INPUTS))] Vec<MixedText>),
}

/// An entry of a list of different inputs.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum MixedText {
    Text(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Ids(#[schemars(length(min = 1))] Vec<u32>),
    Object(TextObject),
}

/// A text as llama.cpp's clients write it.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum TextObject {
    Prompt {
        prompt_string: String,
    },
    Content {
        /// The text is all parts, one after the other.
        content: Vec<TextPart>,
    },
}

/// Not tagged by `type`: serde would take a variant's number for its name, and a list for an object.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be an object with the type \"text\" and a text")]
#[schemars(inline)]
pub(crate) enum TextPart {
    Text {
        #[serde(rename = "type")]
        _type: PartType,
        text: String,
    },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum PartType {
    Text,
}

impl TextPart {
    /// All parts, one after the other.
    pub(crate) fn join(parts: Vec<Self>) -> String {
        parts.into_iter().map(|Self::Text { text, .. }| text).collect()
    }
}

/// A text or a list of texts, at most `{max_inputs}`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schemars(inline)]
pub(crate) enum Strings {
    One(#[schemars(length(max = MAX_DOCUMENT_BYTES))] String),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS), inner(length(max = MAX_DOCUMENT_BYTES)))] Vec<String>),
}

/// An input, checked.
pub(crate) enum Item {
    Text(String),
    /// Without the special tokens that were around them.
    Ids(Vec<i32>),
}

/// What happens to long texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truncation {
    /// False refuses texts over the limit.
    pub(crate) is_allowed: bool,
    pub(crate) options: RowOptions,
}

/// One of the names of the served model.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("enum" = MODEL_NAMES))]
pub(crate) struct ModelName(pub(super) Option<String>);

/// End of a long text that is dropped.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, extend("enum" = ["Left", "left", "Right", "right"]))]
pub(crate) enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

/// What texts are for, as Cohere, Jina and sentence-transformers name it; some models have a prompt for each.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Purpose {
    #[serde(alias = "search_query", alias = "retrieval.query")]
    Query,
    #[serde(alias = "document", alias = "corpus", alias = "search_document", alias = "retrieval.passage")]
    Passage,
    #[serde(alias = "clustering")]
    Classification,
    /// vLLM's task.
    Embed,
    /// vLLM's task for the vectors of tokens, which only `/pooling` has.
    #[serde(rename = "token_embed")]
    TokenEmbed,
}

impl Purpose {
    /// Those that every route has.
    pub(crate) const NAMES: [&str; 11] = [
        "query", "search_query", "retrieval.query", "passage", "document", "corpus", "search_document",
        "retrieval.passage", "classification", "clustering", "embed",
    ];

    /// The role, which chooses the prompt. A model with prompts has none for the other purposes.
    pub(crate) fn role(self, field: &str, app: &App) -> Result<Role, Failure> {
        let prompts = &app.model.prompts;
        match self {
            Self::Query => Ok(Role::Query),
            Self::Passage | Self::Embed => Ok(Role::Passage),
            Self::Classification if prompts.query.is_empty() && prompts.passage.is_empty() => Ok(Role::Passage),
            Self::Classification => {
                refused(field, "this model has prompts for queries and passages only; choose one of these")
            }
            Self::TokenEmbed => {
                refused(field, "this route has one vector for each text; POST /pooling has the task token_embed")
            }
        }
    }
}

/// The concatenated vectors of texts, and the work for them.
pub(crate) struct Vectors {
    pub(crate) values: Vec<f32>,
    pub(crate) dimension: usize,
    pub(crate) work: Work,
    pub(crate) _memory: Option<OwnedSemaphorePermit>,
}

impl Texts {
    /// The inputs, checked.
    pub(crate) fn read(self, field: &str, app: &App, adds_special_tokens: bool) -> Result<Vec<Item>, Failure> {
        let ids = |index: Option<usize>, ids: &[u32]| {
            let field = index.map_or_else(|| field.to_owned(), |index| format!("{field}[{index}]"));
            check_ids(ids, &field, app, adds_special_tokens).map(Item::Ids)
        };
        let items = match self {
            Self::One(text) => vec![Item::Text(text)],
            Self::Many(texts) => texts.into_iter().map(Item::Text).collect(),
            Self::Object(object) => vec![Item::Text(object.text())],
            Self::Ids(list) => vec![ids(None, &list)?],
            Self::ManyIds(lists) => {
                lists.iter().enumerate().map(|(index, list)| ids(Some(index), list)).collect::<Result<_, _>>()?
            }
            Self::Mixed(items) => {
                let item = |(index, item)| match item {
                    MixedText::Text(text) => Ok(Item::Text(text)),
                    MixedText::Object(object) => Ok(Item::Text(object.text())),
                    MixedText::Ids(list) => ids(Some(index), &list),
                };
                items.into_iter().enumerate().map(item).collect::<Result<_, _>>()?
            }
        };
        check_count(items.len(), field, app.settings.max_inputs)?;
        check_lengths(
            items.iter().map(|item| item.text().unwrap_or_default()),
            field,
            app.settings.max_document_bytes,
        )?;
        Ok(items)
    }
}

impl TextObject {
    fn text(self) -> String {
        match self {
            Self::Prompt { prompt_string } => prompt_string,
            Self::Content { content } => TextPart::join(content),
        }
    }
}

impl Strings {
    /// The texts, checked.
    pub(crate) fn read(self, field: &str, app: &App) -> Result<Vec<String>, Failure> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        };
        check_count(texts.len(), field, app.settings.max_inputs)?;
        check_lengths(texts.iter().map(String::as_str), field, app.settings.max_document_bytes)?;
        Ok(texts)
    }
}

impl Item {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Ids(_) => None,
        }
    }

    pub(crate) fn source(&self) -> TextOrIds<'_> {
        match self {
            Self::Text(text) => TextOrIds::Text(text),
            Self::Ids(ids) => TextOrIds::Ids(ids),
        }
    }
}

impl Truncation {
    /// At the model's limit.
    pub(crate) fn new(app: &App, is_allowed: bool, direction: Direction) -> Self {
        let side = match direction {
            Direction::Left => TruncationSide::Left,
            Direction::Right => TruncationSide::Right,
        };
        let options = RowOptions { max_tokens: app.engine.max_tokens(), side, adds_special_tokens: true };
        Self { is_allowed, options }
    }

    /// Cuts texts to this number of tokens; -1 is the model's limit, and `None` leaves all as it is.
    pub(crate) fn to(mut self, tokens: Option<i64>, field: &str, app: &App) -> Result<Self, Failure> {
        let Some(tokens) = tokens else { return Ok(self) };
        let (limit, special) = (app.engine.max_tokens(), app.engine.tokens().special_tokens());
        let invalid = |message: String| refused(field, message);
        self.is_allowed = true;
        match usize::try_from(tokens) {
            Err(_) if tokens == -1 => Ok(self),
            Ok(tokens) if tokens > limit => invalid(format!(
                "{tokens} is greater than this model's maximum context length, {limit} tokens. Please request a smaller truncation size."
            )),
            Ok(tokens) if tokens > special => {
                self.options.max_tokens = tokens;
                Ok(self)
            }
            _ => invalid(format!(
                "{tokens} leaves no token of a text: it must be -1, or from {} to {limit}; {special} tokens are special",
                special + 1
            )),
        }
    }

    /// Whether the engine's own truncation is the same.
    pub(crate) fn is_default(&self, app: &App) -> bool {
        let RowOptions { max_tokens, side, adds_special_tokens } = self.options;
        max_tokens >= app.engine.max_tokens() && side == TruncationSide::Right && adds_special_tokens
    }
}

/// Ids that a text of this model may have. All others are refused, so that no client gets the vector of another text.
fn check_ids(ids: &[u32], field: &str, app: &App, adds_special_tokens: bool) -> Result<Vec<i32>, Failure> {
    let invalid = |message: String| refused(field, message);
    if ids.is_empty() {
        return invalid("the list of token ids is empty".to_owned());
    }
    match app.engine.tokens().inner_ids(ids, adds_special_tokens)? {
        GivenIds::Valid(ids) => Ok(ids),
        GivenIds::Unknown(id) => invalid(format!(
            "this model's tokenizer has no token {id}; the ids are of another tokenizer. Send the text (LangChain: \
             check_embedding_ctx_length=False)"
        )),
        GivenIds::Unmarked => invalid(
            "these token ids do not have this model's special tokens around them, so they may be of another tokenizer, such \
             as OpenAI's. Send the text (LangChain: check_embedding_ctx_length=False), the ids of POST /tokenize, or \
             \"add_special_tokens\": false for ids of this model without special tokens"
                .to_owned(),
        ),
    }
}

/// What a field has to embed, and how it becomes tokens.
pub(crate) struct FieldInputs {
    pub(crate) field: &'static str,
    pub(crate) items: Vec<Item>,
    pub(crate) role: Role,
    /// As the client asked.
    pub(crate) truncation: Truncation,
}

impl FieldInputs {
    /// Tokenizes the items; none is without tokens.
    pub(crate) fn rows(&self, app: &App, end: &RequestControl) -> Result<Vec<Row>, Failure> {
        let sources: Vec<TextOrIds> = self.items.iter().map(Item::source).collect();
        let rows = app.engine.rows(&sources, self.role, &self.truncation.options, &end.call())?;
        if let Some(index) = rows.iter().position(|row| row.ids.is_empty()) {
            let message = "it has no tokens without special tokens; leave add_special_tokens out";
            return refused(format!("{}[{index}]", self.field), message);
        }
        Ok(rows)
    }

    /// Refuses texts over the limit unless the client lets them be truncated: this number, with the first one's length.
    pub(crate) fn check_truncated(&self, app: &App, count: usize) -> Result<(), Failure> {
        let Self { field, items, role, truncation } = self;
        if count == 0 || truncation.is_allowed {
            return Ok(());
        }
        let (limit, all) = (truncation.options.max_tokens, items.len());
        for (index, item) in items.iter().enumerate() {
            let row = app.engine.tokens().row_of(item.source(), *role, &truncation.options, &unstopped)?;
            if row.is_truncated() {
                let message = format!(
                    "{count} of {all} texts are too large: {field}[{index}] has {} tokens, and this model's maximum context length \
                     is {limit} tokens. Please reduce the length of the input prompt, or ask for truncation (truncate: true, or \
                     truncate_prompt_tokens: -1)",
                    row.length
                );
                return Err(Failure::of_amount(Amount::TooMuch, *field, message));
            }
        }
        Err(Failure::of_amount(Amount::TooMuch, *field, format!("a text has more than {limit} tokens")))
    }
}

/// Whether a request names the served model, by one of its names; `None` names no other.
pub(crate) fn check_model(ModelName(request): &ModelName, app: &App) -> Result<(), Failure> {
    let names = &app.settings.served_model_name;
    let is_served =
        |request: &str| request == app.settings.model_name || names.iter().any(|name| name == request || name == "*");
    match request.as_deref() {
        Some(request) if !request.is_empty() && !is_served(request) => {
            let message = format!(
                "the model {request:?} does not exist here, only {:?}; --served-model-name gives it more names",
                app.settings.model_name
            );
            Err(Failure::of_field(Cause::Core(ErrorKind::NotFound), "model", message))
        }
        _ => Ok(()),
    }
}

/// As [`check_model`], for scores, which may be the reranker's. Returns the name of the model that gives them.
pub(crate) fn check_score_model(name: &ModelName, app: &App) -> Result<String, Failure> {
    match app.engine.reranker_name() {
        Some(reranker) if name.0.as_ref() == Some(&reranker) => Ok(reranker),
        _ => check_model(name, app).map(|()| app.settings.model_name.clone()),
    }
}

impl Vectors {
    /// Each text's vector.
    pub(crate) fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dimension)
    }
}

/// A vector of the model, as numbers.
pub(crate) fn vector_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "number"}, "minItems": DIMENSION, "maxItems": DIMENSION})
}
