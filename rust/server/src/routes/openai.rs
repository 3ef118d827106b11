//! `POST /v1/embeddings` and `GET /v1/models`, as `OpenAI`'s clients know them.
//!
//! Whatever model a request names, the one that is served answers, and says its name. Fields that belong to `OpenAI`'s own
//! business (`user`) are read over. Vectors come as numbers, in base64, or as bytes (see [`crate::http::binary_body`]), as `OpenAI`, vLLM and
//! `Accept` ask for them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::error::ErrorKind;
use pullquote_core::tokens::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Name;
use crate::app::App;
use crate::http::admission::{Input, Reply, compute};
use crate::http::binary_body::{Encoding, OCTETS};
use crate::http::body;
use crate::http::dtype::{Dtype, NUMBER_BYTES, write_list};
use crate::http::failure::{Cause, Failure};
use crate::http::middleware::RequestId;
use crate::http::negotiation;
use crate::openapi::limits::DIMENSION;
use crate::routes::vectors::Texts;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with an input")]
pub(crate) struct EmbeddingsRequest {
    input: Texts,
    #[serde(default)]
    encoding_format: EncodingFormat,
    #[serde(default)]
    embedding_dtype: Option<Dtype>,
    /// The same as `embedding_dtype`, as vLLM's clients call it.
    #[serde(default)]
    embed_dtype: Option<Dtype>,
    #[serde(default, rename = "endianness")]
    _endianness: Endianness,
    /// Length of the vectors; this model's cannot be cut.
    #[serde(default)]
    #[schemars(extend("enum" = [DIMENSION, null]))]
    dimensions: Option<usize>,
}

/// Numbers in JSON, or their little-endian bytes: in base64, or as vLLM sends them, with a description of each vector in a header
/// `metadata` (at most 60 KiB), or without. The last two return bytes whatever `accept` says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum EncodingFormat {
    #[default]
    Float,
    Base64,
    Bytes,
    BytesOnly,
}

/// Byte order of numbers, as vLLM's clients name it; always little-endian.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Endianness {
    #[default]
    Native,
    Little,
}

/// What follows the vectors.
#[derive(Serialize)]
struct EmbeddingsFooter<'app> {
    model: &'app str,
    usage: EmbeddingsUsage,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
struct EmbeddingsUsage {
    /// Tokens that were encoded.
    prompt_tokens: usize,
    /// The same.
    total_tokens: usize,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Models<'app> {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: [ServedModel<'app>; 1],
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ServedModel<'app> {
    id: &'app str,
    #[schemars(extend("const" = "model"))]
    object: &'static str,
    /// Start of the server, in seconds since 1970.
    created: u64,
    owned_by: &'static str,
    /// Maximum number of tokens of a text.
    max_model_len: usize,
}

/// What [`answer`] writes without serde.
pub(crate) fn embeddings_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": {"const": "list"},
            "data": {"type": "array", "items": {
                "type": "object",
                "required": ["object", "index", "embedding"],
                "properties": {
                    "object": {"const": "embedding"},
                    "index": {"type": "integer", "minimum": 0, "description": "Index of the text in the request."},
                    "embedding": {"anyOf": [vector_schema(generator), {"type": "string", "description": "With base64: its bytes."}]},
                },
            }},
            "model": {"type": "string"},
            "usage": generator.subschema_for::<EmbeddingsUsage>(),
        },
    })
}

/// A vector of the model, as numbers.
pub(crate) fn vector_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "number"}, "minItems": DIMENSION, "maxItems": DIMENSION})
}

async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    compute(&app, request, answer).await
}

fn answer(app: &App, input: &Input) -> Result<Reply, Failure> {
    let asked: EmbeddingsRequest = body::parse(&input.headers, &input.body)?;
    check_dimensions(asked.dimensions, app)?;
    let dtype = asked.dtype()?;
    let format = asked.format(&input.headers);
    if format == EncodingFormat::Float {
        check_json_dtype(dtype)?;
    }
    let texts = asked.input.read("input", app)?;
    let encoding = Encoding::of(app, &texts, Role::Passage, input.end())?;
    let usage = EmbeddingsUsage { prompt_tokens: encoding.work().tokens, total_tokens: encoding.work().tokens };
    if format == EncodingFormat::Bytes {
        let metadata = metadata(app, &encoding, dtype, usage, &input.id)?;
        let mut reply = encoding.answer(app, dtype, false, input.id.clone())?;
        reply.headers.push((HeaderName::from_static("metadata"), metadata));
        return Ok(reply);
    }
    if format == EncodingFormat::BytesOnly {
        return encoding.answer(app, dtype, false, input.id.clone());
    }
    let vectors = encoding.whole()?;
    let (rows, work, dimension) = (vectors.rows().len(), vectors.work, vectors.dimension);
    let mut json = Vec::with_capacity(vectors.values.len() * NUMBER_BYTES);
    json.extend_from_slice(br#"{"object":"list","data":["#);
    // What stands around a vector is the same for all but its index, so it is not serde that writes it.
    let mut write = |index: usize, embedding: &dyn Fn(&mut Vec<u8>)| {
        let comma = if index > 0 { "," } else { "" };
        json.extend_from_slice(format!(r#"{comma}{{"object":"embedding","index":{index},"embedding":"#).as_bytes());
        embedding(&mut json);
        json.push(b'}');
    };
    if format == EncodingFormat::Float {
        vectors.rows().enumerate().for_each(|(index, vector)| write(index, &|json| write_list(json, vector)));
    } else {
        let packed = dtype.pack(vectors.values, dimension);
        let bytes = dtype.row_bytes(dimension);
        for index in 0..rows {
            let row = STANDARD.encode(&packed[index * bytes..(index + 1) * bytes]);
            write(index, &|json| {
                json.push(b'"');
                json.extend_from_slice(row.as_bytes());
                json.push(b'"');
            });
        }
    }
    let rest = serde_json::to_vec(&EmbeddingsFooter { model: &app.settings.model_name, usage })
        .map_err(|error| body::unfit(&error))?;
    json.extend_from_slice(b"],");
    json.extend_from_slice(&rest[1..]);
    Ok(Reply::new("application/json", json.into(), work))
}

impl EmbeddingsRequest {
    fn dtype(&self) -> Result<Dtype, Failure> {
        match (self.embedding_dtype, self.embed_dtype) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                let message = "embedding_dtype says something else, and both mean the same; leave one out";
                Err(Failure::of_field(Cause::Unprocessable, "embed_dtype", message))
            }
            (ours, theirs) => Ok(ours.or(theirs).unwrap_or_default()),
        }
    }

    /// `Accept` decides between JSON and bytes. Bytes that are asked for in the body itself come whatever it says: the clients
    /// that do so send the `Accept` of their HTTP library.
    fn format(&self, headers: &HeaderMap) -> EncodingFormat {
        let asks_for_bytes = matches!(self.encoding_format, EncodingFormat::Bytes | EncodingFormat::BytesOnly);
        if !asks_for_bytes && negotiation::preferred(headers, &["application/json", OCTETS]) == OCTETS {
            return EncodingFormat::BytesOnly;
        }
        self.encoding_format
    }
}

/// Bytes that vLLM's clients read a header of: many of them read none that is longer.
const LONGEST_METADATA: usize = 60 * 1024;

/// What vLLM says of the bytes in a header.
fn metadata(
    app: &App,
    encoding: &Encoding,
    dtype: Dtype,
    usage: EmbeddingsUsage,
    id: &RequestId,
) -> Result<HeaderValue, Failure> {
    let dimension = app.engine.spec().dimension;
    let bytes = dtype.row_bytes(dimension);
    let row = |index: usize| {
        json!({
            "index": index,
            "embed_dtype": dtype.name(),
            "endianness": "little",
            "start": index * bytes,
            "end": (index + 1) * bytes,
            "shape": [dimension],
        })
    };
    let metadata = json!({
        "id": id.0,
        "created": app.started,
        "model": app.settings.model_name,
        "data": (0..encoding.rows()).map(row).collect::<Vec<_>>(),
        "usage": usage,
    });
    let text = metadata.to_string();
    let fitting = HeaderValue::from_str(&text).ok().filter(|_| text.len() <= LONGEST_METADATA);
    fitting.ok_or_else(|| {
        let message = format!(
            "what it says of {} texts does not fit a header; ask for bytes_only, whose x-embedding headers say the same",
            encoding.rows()
        );
        Failure::of_field(Cause::Unprocessable, "encoding_format", message)
    })
}

/// In JSON numbers are float32 and nothing else: float16 would be longer there than its bytes in base64, and whole numbers
/// would be taken for values by every client of `OpenAI`'s.
pub(super) fn check_json_dtype(dtype: Dtype) -> Result<(), Failure> {
    if dtype == Dtype::Float32 {
        return Ok(());
    }
    let message = format!(
        "numbers of JSON are float32; {} comes as bytes, by accept: {OCTETS}, and from /v1/embeddings in base64 too",
        dtype.name()
    );
    Err(Failure::of_field(Cause::Unprocessable, "embedding_dtype", message))
}

/// Cutting vectors off is for models that were trained for it; none of those that are read here says so.
pub(super) fn check_dimensions(asked: Option<usize>, app: &App) -> Result<(), Failure> {
    let own = app.engine.spec().dimension;
    match asked {
        Some(asked) if asked != own => Err(Failure::of_field(
            Cause::Unprocessable,
            "dimensions",
            format!("this model's vectors have {own} dimensions and cannot be cut to {asked}; leave it out"),
        )),
        _ => Ok(()),
    }
}

async fn models(State(app): State<Arc<App>>) -> Response {
    Json(Models { object: "list", data: [served(&app)] }).into_response()
}

async fn model(State(app): State<Arc<App>>, Name(model): Name) -> Result<Response, Failure> {
    if model == app.settings.model_name {
        return Ok(Json(served(&app)).into_response());
    }
    let message = format!("there is no model {model:?} here, only {:?}", app.settings.model_name);
    Err(Failure::of_field(Cause::Core(ErrorKind::NotFound), "model", message))
}

fn served(app: &App) -> ServedModel<'_> {
    ServedModel {
        id: &app.settings.model_name,
        object: "model",
        created: app.started,
        owned_by: "pullquote",
        max_model_len: app.engine.max_tokens(),
    }
}
