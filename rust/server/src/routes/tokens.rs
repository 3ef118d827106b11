//! Tokens of texts and texts of tokens, for clients of Text Embeddings Inference, vLLM, llama.cpp and Cohere.

use pullquote_core::engine::Work;
use pullquote_core::error::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{cohere, tei, vllm};
use crate::app::App;
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

#[derive(Serialize, JsonSchema)]
pub(crate) struct Token {
    id: i32,
    text: String,
    /// Whether the model put it around the text.
    special: bool,
    /// Start in bytes of UTF-8.
    start: Option<usize>,
    /// End in bytes of UTF-8.
    stop: Option<usize>,
}

/// The token ids of a prompt.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenizedPrompt {
    count: usize,
    /// Maximum number of tokens of a text.
    max_model_len: usize,
    tokens: Vec<i32>,
    /// With `return_token_strs`.
    token_strs: Option<Vec<String>>,
}

/// The token ids of a content.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenizedContent {
    tokens: Vec<ContentToken>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum ContentToken {
    Id(i32),
    /// With `with_pieces`.
    Piece {
        id: i32,
        piece: String,
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
pub(crate) struct CohereTokens {
    /// Without the model's special tokens.
    tokens: Vec<i32>,
    token_strings: Vec<String>,
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

fn tokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: TokenizeRequest = input.parse()?;
    check_model(&request.model, app)?;
    let adds_special_tokens = request.add_special_tokens.unwrap_or(request.content.is_none());
    match (request.inputs, request.prompt, request.content) {
        (Some(inputs), None, None) => tokens_of_inputs(app, inputs, adds_special_tokens),
        (None, Some(prompt), None) => {
            let listed = list(app, &prompt, "prompt", adds_special_tokens)?;
            let (count, max_model_len) = (listed.len(), app.engine.max_tokens());
            let (tokens, texts): (Vec<i32>, Vec<String>) = listed.into_iter().unzip();
            let token_strs = request.return_token_strs.then_some(texts);
            Reply::json(&TokenizedPrompt { count, max_model_len, tokens, token_strs }, Work::default())
        }
        (None, None, Some(content)) => {
            let token = |(id, piece)| {
                if request.with_pieces { ContentToken::Piece { id, piece } } else { ContentToken::Id(id) }
            };
            let tokens = list(app, &content, "content", adds_special_tokens)?.into_iter().map(token).collect();
            Reply::json(&TokenizedContent { tokens }, Work::default())
        }
        _ => refused("inputs", "one of inputs, prompt and content must be there, and not two of them"),
    }
}

fn tokens_of_inputs(app: &App, inputs: Strings, adds_special_tokens: bool) -> Result<Reply, Failure> {
    let listed = |text: &String| {
        let tokens = app.engine.tokens().list(text, adds_special_tokens)?.into_iter().map(|token| Token {
            id: token.id,
            special: token.span.is_none(),
            text: token.span.map_or(token.text, |span| span.of(text).to_owned()),
            start: token.span.map(|span| span.start),
            stop: token.span.map(|span| span.end),
        });
        Ok(tokens.collect())
    };
    let lists: Vec<Vec<Token>> = inputs.read("inputs", app)?.iter().map(listed).collect::<Result<_, Failure>>()?;
    Reply::json(&lists, Work::default())
}

/// The ids of a text's tokens, with their names.
fn list(app: &App, text: &str, field: &str, adds_special_tokens: bool) -> Result<Vec<(i32, String)>, Failure> {
    check_lengths([text], field, app.settings.max_document_bytes)?;
    Ok(app.engine.tokens().list(text, adds_special_tokens)?.into_iter().map(|token| (token.id, token.text)).collect())
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
    Reply::json(&texts, Work::default())
}

fn detokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let text = detokenized(app, input)?;
    Reply::json(&DetokenizedText { prompt: &text, content: &text }, Work::default())
}

fn cohere_tokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    let CohereTokenizeRequest { text, model } = input.parse()?;
    check_model(&model, app)?;
    let (tokens, token_strings) = list(app, &text, "text", false)?.into_iter().unzip();
    Reply::json(&CohereTokens { tokens, token_strings, meta: META }, Work::default())
}

fn cohere_detokenize(app: &App, input: &Input) -> Result<Reply, Failure> {
    Reply::json(&CohereText { text: detokenized(app, input)?, meta: META }, Work::default())
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
