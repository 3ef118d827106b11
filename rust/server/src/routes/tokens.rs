//! Tokens of texts and texts of tokens, for clients of Text Embeddings Inference, vLLM, llama.cpp and Cohere.

use std::cell::Cell;

use pullquote_core::engine::Work;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens;
use schemars::JsonSchema;
use serde::ser::{Error as _, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{cohere, tei, vllm};
use crate::app::App;
use crate::http::answer::{AnswerWriter, Listed};
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::rerank::ApiVersion;
use crate::routes::route::Route;
use crate::routes::schema_placeholders::{MAX_DOCUMENT_BYTES, MAX_INPUTS};
use crate::routes::schemas::Schemas;
use crate::routes::vectors::{ModelName, Strings, check_model};

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let tokens = json!({"type": "array", "items": {"type": "array", "items": schemas.response::<Token>()}});
    let answers =
        json!({"anyOf": [tokens, schemas.response::<TokenizedPrompt>(), schemas.response::<TokenizedContent>()]});
    let decoded = json!({"type": "array", "items": {"type": "string"}});
    let text_of_ids = "Return the text of token ids, as vLLM and llama.cpp do";
    vec![
        tei::API
            .compute("/tokenize", tokenize, "tokenize", "Tokenize texts")
            .reads(schemas.request::<TokenizeRequest>(), json!({"inputs": "The moon is white."}))
            .writes_json("A list of tokens for each text, in order; for a `prompt` or a `content`, its ids.", answers)
            .fails(&[404]),
        tei::API
            .compute("/decode", decode, "decode", "Return the texts of token ids")
            .reads(schemas.request::<DecodeRequest>(), json!({"ids": [101, 7852, 102]}))
            .writes_json("A text for each list.", decoded),
        vllm::API
            .compute("/detokenize", detokenize, "detokenize", text_of_ids)
            .reads(schemas.request::<DetokenizeRequest>(), json!({"tokens": [101, 7852, 102]}))
            .writes_json("The text.", schemas.response::<DetokenizedText>())
            .fails(&[404]),
        cohere::API
            .compute("/v1/tokenize", cohere_tokenize, "cohereTokenize", "Tokenize a text, as Cohere does")
            .reads(schemas.request::<CohereTokenizeRequest>(), json!({"text": "The moon is white."}))
            .writes_json("Token ids.", schemas.response::<CohereTokens>())
            .fails(&[404]),
        cohere::API
            .compute(
                "/v1/detokenize",
                cohere_detokenize,
                "cohereDetokenize",
                "Return the text of token ids, as Cohere does",
            )
            .reads(schemas.request::<DetokenizeRequest>(), json!({"tokens": [7852]}))
            .writes_json("The text.", schemas.response::<CohereText>())
            .fails(&[404]),
    ]
}

/// Inputs as Text Embeddings Inference has them, a prompt as vLLM does, or a content as llama.cpp does.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with inputs, a prompt or a content")]
#[schemars(extend("oneOf" = [
    {
        "required": ["inputs"],
        "properties": {"inputs": {"not": {"type": "null"}}, "prompt": {"type": "null"}, "content": {"type": "null"}},
    },
    {
        "required": ["prompt"],
        "properties": {"prompt": {"type": "string"}, "inputs": {"type": "null"}, "content": {"type": "null"}},
    },
    {
        "required": ["content"],
        "properties": {"content": {"type": "string"}, "inputs": {"type": "null"}, "prompt": {"type": "null"}},
    },
]))]
pub(crate) struct TokenizeRequest {
    #[serde(default)]
    inputs: Option<Strings>,
    #[serde(default)]
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    prompt: Option<String>,
    #[serde(default)]
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    content: Option<String>,
    #[serde(default)]
    model: ModelName,
    /// Include the model's special tokens. The default is false for a `content`, and true otherwise.
    #[serde(default, alias = "add_special")]
    add_special_tokens: Option<bool>,
    /// Return the texts of the tokens of a `prompt` too.
    #[serde(default)]
    return_token_strs: bool,
    /// Return the texts of the tokens of a `content` too.
    #[serde(default)]
    with_pieces: bool,
}

/// Its text is its name in the vocabulary if the model put it around the text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Token<'call> {
    id: i32,
    text: &'call str,
    /// Whether the model put it around the text.
    special: bool,
    /// Start in bytes of UTF-8.
    start: Option<usize>,
    /// End in bytes of UTF-8.
    stop: Option<usize>,
}

/// The token ids of a prompt.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenizedPrompt<'call> {
    #[schemars(with = "Vec<i32>")]
    tokens: &'call TokenList<'call>,
    /// With `return_token_strs`.
    #[schemars(with = "Option<Vec<String>>")]
    token_strs: Option<TokenList<'call>>,
    #[schemars(with = "usize")]
    count: Counted<'call>,
    /// Maximum number of tokens of a text.
    max_model_len: usize,
}

/// The number of tokens of a list that stands before it.
struct Counted<'call>(&'call TokenList<'call>);

impl Serialize for Counted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.count.get().serialize(serializer)
    }
}

/// The token ids of a content.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenizedContent<'call> {
    #[schemars(with = "Vec<ContentToken>")]
    tokens: TokenList<'call>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum ContentToken<'call> {
    Id(i32),
    /// With `with_pieces`.
    Piece {
        id: i32,
        piece: &'call str,
    },
}

/// Token ids of a text, or of several texts.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with ids")]
pub(crate) struct DecodeRequest {
    ids: Ids,
    /// Leave out the model's special tokens.
    #[serde(default = "super::tei::yes")]
    skip_special_tokens: bool,
}

/// A list of token ids, or a list of lists of them, at most `{max_inputs}`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list of token ids or a list of lists of token ids")]
#[schemars(inline)]
enum Ids {
    One(#[schemars(length(min = 1))] Vec<u32>),
    Many(#[schemars(length(min = 1, max = MAX_INPUTS))] Vec<Vec<u32>>),
}

/// Token ids, as vLLM, llama.cpp and Cohere have them.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with tokens")]
pub(crate) struct DetokenizeRequest {
    tokens: Vec<u32>,
    #[serde(default)]
    model: ModelName,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DetokenizedText<'call> {
    /// As vLLM's clients read it.
    prompt: &'call str,
    /// The same, as llama.cpp's clients read it.
    content: &'call str,
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a text")]
pub(crate) struct CohereTokenizeRequest {
    #[schemars(length(max = MAX_DOCUMENT_BYTES))]
    text: String,
    #[serde(default)]
    model: ModelName,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CohereTokens<'call> {
    /// Without the model's special tokens.
    #[schemars(with = "Vec<i32>")]
    tokens: TokenList<'call>,
    #[schemars(with = "Vec<String>")]
    token_strings: TokenList<'call>,
    meta: TokensMeta,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CohereText {
    text: String,
    meta: TokensMeta,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct TokensMeta {
    api_version: ApiVersion,
}

const META: TokensMeta = TokensMeta { api_version: ApiVersion { version: "1" } };

/// The tokens of a text, which are found while they are written: only those of a part of the text are in memory.
struct TokenList<'call> {
    app: &'call App,
    call: &'call Call<'static>,
    text: &'call str,
    adds_special_tokens: bool,
    entry: TokenEntry,
    /// How many were written.
    count: Cell<usize>,
}

/// What is written of a token.
#[derive(Clone, Copy)]
enum TokenEntry {
    Token,
    Id,
    Name,
    Piece,
}

impl Serialize for TokenList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut unwritten = None;
        let mut write = |token: tokens::Token<'_>| {
            self.count.set(self.count.get() + 1);
            self.write(token, &mut list).map_err(|error| {
                unwritten = Some(error);
                Error::new(ErrorKind::Internal, "the answer cannot be written")
            })
        };
        let check = || self.call.check();
        let visited = self.app.engine.tokens().visit(self.text, self.adds_special_tokens, &check, &mut write);
        match (visited, unwritten) {
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(S::Error::custom(error)),
            (Ok(()), None) => list.end(),
        }
    }
}

impl TokenList<'_> {
    fn write<S: SerializeSeq>(&self, token: tokens::Token<'_>, list: &mut S) -> Result<(), S::Error> {
        let tokens::Token { id, name, span } = token;
        match self.entry {
            TokenEntry::Id => list.serialize_element(&ContentToken::Id(id)),
            TokenEntry::Name => list.serialize_element(name),
            TokenEntry::Piece => list.serialize_element(&ContentToken::Piece { id, piece: name }),
            TokenEntry::Token => list.serialize_element(&Token {
                id,
                text: span.map_or(name, |span| span.of(self.text)),
                special: span.is_none(),
                start: span.map(|span| span.start),
                stop: span.map(|span| span.end),
            }),
        }
    }
}

fn tokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: TokenizeRequest = input.parse()?;
    check_model(&request.model, app)?;
    let adds_special_tokens = request.add_special_tokens.unwrap_or(request.content.is_none());
    let call = input.call(None);
    let list = |text, entry| TokenList { app, call: &call, text, adds_special_tokens, entry, count: Cell::new(0) };
    match (request.inputs, request.prompt, request.content) {
        (Some(inputs), None, None) => {
            let texts = inputs.read("inputs", app)?;
            let lists = Listed(|| texts.iter().map(|text| list(text, TokenEntry::Token)));
            Reply::written(limited(input, "inputs"), &lists, Work::default())
        }
        (None, Some(prompt), None) => {
            check_lengths([prompt.as_str()], "prompt", app.settings.max_document_bytes)?;
            let tokens = list(&prompt, TokenEntry::Id);
            let answer = TokenizedPrompt {
                token_strs: request.return_token_strs.then(|| list(&prompt, TokenEntry::Name)),
                count: Counted(&tokens),
                tokens: &tokens,
                max_model_len: app.engine.max_tokens(),
            };
            Reply::written(limited(input, "prompt"), &answer, Work::default())
        }
        (None, None, Some(content)) => {
            check_lengths([content.as_str()], "content", app.settings.max_document_bytes)?;
            let entry = if request.with_pieces { TokenEntry::Piece } else { TokenEntry::Id };
            let answer = TokenizedContent { tokens: list(&content, entry) };
            Reply::written(limited(input, "content"), &answer, Work::default())
        }
        _ => refused("inputs", "one of inputs, prompt and content must be there, and not two of them"),
    }
}

fn limited(input: &Input, field: &'static str) -> AnswerWriter {
    input.answer().advising(field, "send fewer or shorter texts")
}

fn decode(app: &App, input: &Input) -> Result<Reply, Failure> {
    let DecodeRequest { ids, skip_special_tokens } = input.parse()?;
    let lists = match ids {
        Ids::One(ids) if ids.is_empty() => {
            return refused("ids", "the list of token ids is empty");
        }
        Ids::One(ids) => vec![ids],
        Ids::Many(lists) => lists,
    };
    check_count(lists.len(), "ids", app.settings.max_inputs)?;
    let texts: Vec<String> =
        lists.iter().map(|ids| text_of(app, ids, "ids", skip_special_tokens)).collect::<Result<_, _>>()?;
    Reply::json(input, &texts, Work::default())
}

fn detokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let text = detokenized(app, input)?;
    Reply::json(input, &DetokenizedText { prompt: &text, content: &text }, Work::default())
}

fn cohere_tokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let CohereTokenizeRequest { text, model } = input.parse()?;
    check_model(&model, app)?;
    check_lengths([text.as_str()], "text", app.settings.max_document_bytes)?;
    let call = input.call(None);
    let list =
        |entry| TokenList { app, call: &call, text: &text, adds_special_tokens: false, entry, count: Cell::new(0) };
    let answer = CohereTokens { tokens: list(TokenEntry::Id), token_strings: list(TokenEntry::Name), meta: META };
    Reply::written(limited(input, "text"), &answer, Work::default())
}

fn cohere_detokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    Reply::json(input, &CohereText { text: detokenized(app, input)?, meta: META }, Work::default())
}

fn detokenized(app: &App, input: &Input) -> Result<String, Failure> {
    let DetokenizeRequest { tokens, model } = input.parse()?;
    check_model(&model, app)?;
    text_of(app, &tokens, "tokens", false)
}

fn text_of(app: &App, ids: &[u32], field: &str, skips_special_tokens: bool) -> Result<String, Failure> {
    let unknown = |error: Error| Failure::of_field(Cause::Unprocessable, field, error.message());
    app.engine.tokens().decode(ids, skips_special_tokens).map_err(unknown)
}
