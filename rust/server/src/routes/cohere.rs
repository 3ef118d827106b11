//! `POST /v1/embed` and `POST /v2/embed`, as Cohere's clients know them. `/rerank` is in `rerank`, and `/v1/tokenize`
//! in `tokens`.
//!
//! Cohere cuts long texts by default. The header `x-truncated` and `meta.warnings` count those that were cut.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::openai::check_dimensions;
use crate::app::App;
use crate::http::body::Object;
use crate::http::dtype::{NUMBER_BYTES, int8, pack};
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits::{check_count, check_lengths};
use crate::routes::rerank::ApiVersion;
use crate::routes::route::{Api, Route};
use crate::routes::schema_placeholders::{DIMENSION, MAX_DOCUMENT_BYTES, MAX_INPUTS, PURPOSES};
use crate::routes::schemas::Schemas;
use crate::routes::vector_stream::VectorStream;
use crate::routes::vectors::{
    Direction, FieldInputs, Item, ModelName, Purpose, TextPart, Truncation, Vectors, check_model,
};
use crate::routes::vllm::failure::VLLM;

pub(super) const API: Api = Api { tag: "cohere", errors: &VLLM };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let example = json!({
        "model": "{model_name}",
        "texts": ["The moon is white."],
        "input_type": "search_document",
        "embedding_types": ["float", "ubinary"],
    });
    let summary = "Embed texts, as Cohere does";
    let mut described = |route: Route| {
        route
            .reads(schemas.request::<CohereEmbedRequest>(), example.clone())
            .writes_json("A vector for each text, in order, of each type.", schemas.response::<CohereEmbeddings>())
            .fails(&[404])
    };
    vec![
        described(API.compute("/v1/embed", |app, input| embed(app, input, "1"), "cohereEmbedV1", summary)),
        described(API.compute("/v2/embed", |app, input| embed(app, input, "2"), "cohereEmbedV2", summary)),
    ]
}

/// Texts, as a list or as the parts of inputs.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with texts")]
#[schemars(extend("oneOf" = [
    {"required": ["texts"], "properties": {"texts": {"type": "array"}, "inputs": {"type": "null"}}},
    {"required": ["inputs"], "properties": {"inputs": {"type": "array"}, "texts": {"type": "null"}}},
]))]
pub(crate) struct CohereEmbedRequest {
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_INPUTS), inner(length(max = MAX_DOCUMENT_BYTES)))]
    texts: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_INPUTS))]
    inputs: Option<Vec<Object<EmbedInput>>>,
    /// Images have no vectors here; send texts.
    #[serde(default)]
    #[schemars(with = "()")]
    images: Option<IgnoredAny>,
    #[serde(default)]
    model: ModelName,
    /// What the texts are for, for models that have a prompt for each.
    #[serde(default)]
    #[schemars(extend("enum" = PURPOSES))]
    input_type: Option<String>,
    /// By default `float`; for `/v1/embed` that is a plain list.
    #[serde(default)]
    #[schemars(length(min = 1))]
    embedding_types: Option<Vec<EmbeddingType>>,
    /// Which end of a long text is dropped; `NONE` refuses it.
    #[serde(default)]
    truncate: Truncate,
    /// Maximum number of tokens of a text; longer texts are cut.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_tokens: Option<i64>,
    /// Length of the vectors; this model's cannot be cut.
    #[serde(default)]
    #[schemars(extend("enum" = [DIMENSION, null]))]
    output_dimension: Option<usize>,
}

/// Parts that are one text together.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct EmbedInput {
    content: Vec<TextPart>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
enum Truncate {
    None,
    Start,
    #[default]
    End,
}

/// Numbers of a vector: float32; 127 times the value, rounded, also plus 128; one bit for each value, also minus 128;
/// or base64 of float32.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum EmbeddingType {
    Float,
    Int8,
    Uint8,
    Binary,
    Ubinary,
    Base64,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CohereEmbeddings<'call> {
    id: String,
    #[schemars(extend("enum" = ["embeddings_by_type", "embeddings_floats"]))]
    response_type: &'static str,
    embeddings: TypedEmbeddings<'call>,
    texts: Vec<&'call str>,
    meta: CohereMeta,
}

/// A list of vectors, or one for each type.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum TypedEmbeddings<'call> {
    Floats(Vec<&'call [f32]>),
    ByType(ByType<'call>),
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(inline)]
struct ByType<'call> {
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<Vec<&'call [f32]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    int8: Option<Vec<Vec<i8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uint8: Option<Vec<Vec<u8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<Vec<Vec<i8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ubinary: Option<Vec<Vec<u8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct CohereMeta {
    api_version: ApiVersion,
    billed_units: InputTokens,
    tokens: InputTokens,
    /// What the client may not expect, such as texts that were cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
struct InputTokens {
    /// Tokens that were encoded.
    input_tokens: usize,
}

fn embed(app: &App, input: &Input, version: &'static str) -> Result<Reply, Failure> {
    let request: CohereEmbedRequest = input.parse()?;
    check_model(&request.model, app)?;
    check_dimensions(request.output_dimension, app.engine.spec().dimension)?;
    if request.images.is_some() {
        return refused("images", "images are not supported; send texts");
    }
    if request.embedding_types.as_ref().is_some_and(Vec::is_empty) {
        return refused("embedding_types", "the list of types is empty; name one, or leave it out for float");
    }
    let role = match request.input_type.as_deref() {
        None => Role::Passage,
        Some(name) => purpose(name)?.role("input_type", app)?,
    };
    let (texts, field) = match (request.texts, request.inputs) {
        (Some(texts), None) => (texts, "texts"),
        (None, Some(inputs)) => {
            (inputs.into_iter().map(|Object(input)| TextPart::join(input.content)).collect(), "inputs")
        }
        _ => {
            return refused("texts", "pass texts or inputs, not both");
        }
    };
    check_count(texts.len(), field, app.settings.max_inputs)?;
    check_lengths(texts.iter().map(String::as_str), field, app.settings.max_document_bytes)?;
    let direction = if request.truncate == Truncate::Start { Direction::Left } else { Direction::Right };
    let mut truncation = Truncation::new(app, true, direction).to(request.max_tokens, "max_tokens", app)?;
    truncation.is_allowed = request.truncate != Truncate::None;
    let items: Vec<Item> = texts.into_iter().map(Item::Text).collect();
    let inputs = FieldInputs { field, items, role, truncation };
    let vectors = VectorStream::of_field(app, &inputs, input.end())?.whole()?;
    let work = vectors.work;
    let (response_type, embeddings) = match request.embedding_types {
        None if version == "1" => ("embeddings_floats", TypedEmbeddings::Floats(vectors.rows().collect())),
        types => {
            let types = types.unwrap_or_else(|| vec![EmbeddingType::Float]);
            ("embeddings_by_type", TypedEmbeddings::ByType(ByType::of(&vectors, &types)))
        }
    };
    let tokens = InputTokens { input_tokens: work.tokens };
    let cut = || {
        format!(
            "{} of {} texts were cut to {} tokens",
            work.truncated,
            inputs.items.len(),
            truncation.options.max_tokens
        )
    };
    let answer = CohereEmbeddings {
        id: input.id.0.clone(),
        response_type,
        embeddings,
        texts: inputs.items.iter().filter_map(Item::text).collect(),
        meta: CohereMeta {
            api_version: ApiVersion { version },
            billed_units: tokens,
            tokens,
            warnings: (work.truncated > 0).then(cut).into_iter().collect(),
        },
    };
    // Numbers, and less for all other types together.
    Reply::written(input.answer().with_vectors(vectors.values.len() * 2 * NUMBER_BYTES), &answer, work)
}

fn purpose(name: &str) -> Result<Purpose, Failure> {
    serde_json::from_value(name.into()).map_err(|_| {
        let names = Purpose::NAMES.map(|name| format!("`{name}`")).join(", ");
        let message = format!("Unsupported input_type {name:?}; it must be one of {names}");
        Failure::of_field(Cause::Unprocessable, "input_type", message)
    })
}

impl<'call> ByType<'call> {
    fn of(vectors: &'call Vectors, types: &[EmbeddingType]) -> Self {
        let mut all = Self::default();
        let rows = || vectors.rows();
        let int8s = |row: &[f32]| row.iter().map(|value| int8(*value)).collect::<Vec<i8>>();
        let bits = |row: &[f32]| Vec::from(pack(EmbeddingDtype::Binary, row.to_vec(), row.len()));
        for kind in types {
            match kind {
                EmbeddingType::Float => all.float = Some(rows().collect()),
                EmbeddingType::Int8 => all.int8 = Some(rows().map(int8s).collect()),
                EmbeddingType::Uint8 => {
                    let unsigned = |row: &[f32]| int8s(row).into_iter().map(above_zero).collect();
                    all.uint8 = Some(rows().map(unsigned).collect());
                }
                EmbeddingType::Binary => {
                    let signed = |row: &[f32]| bits(row).into_iter().map(around_zero).collect();
                    all.binary = Some(rows().map(signed).collect());
                }
                EmbeddingType::Ubinary => all.ubinary = Some(rows().map(bits).collect()),
                EmbeddingType::Base64 => {
                    let packed = |row: &[f32]| STANDARD.encode(pack(EmbeddingDtype::Float32, row.to_vec(), row.len()));
                    all.base64 = Some(rows().map(packed).collect());
                }
            }
        }
        all
    }
}

/// From -128..127 to 0..255.
const fn above_zero(value: i8) -> u8 {
    value.cast_unsigned() ^ 0x80
}

/// From 0..255 to -128..127.
const fn around_zero(value: u8) -> i8 {
    (value ^ 0x80).cast_signed()
}

#[cfg(test)]
mod tests {
    use pullquote_core::engine::Work;

    use super::*;

    #[test]
    fn embedding_types_are_those_of_cohere() {
        let values = vec![0.5, -0.25, 0.0, 1.0, -1.0, 1.0, -1.0, 0.25];
        let vectors = Vectors { values, dimension: 8, work: Work::default(), _memory: None };
        let all = [EmbeddingType::Int8, EmbeddingType::Uint8, EmbeddingType::Binary, EmbeddingType::Ubinary];
        let typed = ByType::of(&vectors, &all);
        assert_eq!(typed.int8.unwrap(), [[64, -32, 0, 127, -127, 127, -127, 32]]);
        assert_eq!(typed.uint8.unwrap(), [[192, 96, 128, 255, 1, 255, 1, 160]]);
        assert_eq!(typed.ubinary.unwrap(), [[0b1001_0101]]);
        assert_eq!(typed.binary.unwrap(), [[149_i16 - 128].map(|bits| i8::try_from(bits).unwrap())]);
        assert!(typed.float.is_none() && typed.base64.is_none());
    }
}
