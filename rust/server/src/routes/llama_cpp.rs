//! llama.cpp's own route for vectors. Those that it has in common with others are theirs, `/reranking` is in
//! [`super::rerank`], and `/v1/health` in [`super::health`].

use pullquote_core::tokens::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use super::openai::failure::OPENAI;
use super::vectors::vector_schema;
use super::vectors::{Direction, FieldInputs, ModelName, Texts, Truncation, check_model};
use crate::app::App;
use crate::http::dtype::{NUMBER_BYTES, write_list};
use crate::http::failure::{Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::route::{Api, Route};
use crate::routes::schemas::Schemas;
use crate::routes::vector_stream::VectorStream;

pub(super) const API: Api = Api { tag: "llamacpp", errors: &OPENAI };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    vec![
        API.compute("/embedding", vectors, "embedding", "Embed texts, as llama.cpp's own route does")
            .described("A text that is longer than {max_tokens} tokens is refused.")
            .reads(schemas.request::<EmbeddingRequest>(), json!({"content": "The moon is white."}))
            .writes_json("For each text, in order, a list with its vector.", schemas.written(embedding_schema))
            .fails(&[404]),
    ]
}

/// The values of `embd_normalize` that are honoured.
pub(super) const EUCLIDEAN: i64 = 2;
pub(super) const NOT_NORMALIZED: i64 = -1;

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with a content")]
pub(crate) struct EmbeddingRequest {
    #[serde(alias = "input")]
    content: Texts,
    /// 2 brings vectors to length 1, as by default whatever the model's files say; -1 returns them as they were before.
    #[serde(default)]
    #[schemars(extend("enum" = [EUCLIDEAN, NOT_NORMALIZED, null]))]
    embd_normalize: Option<i64>,
    #[serde(default)]
    model: ModelName,
}

/// Whether vectors are brought to length 1; `None` if the client does not say.
pub(super) fn normalize(embd_normalize: Option<i64>) -> Result<Option<bool>, Failure> {
    match embd_normalize {
        None => Ok(None),
        Some(EUCLIDEAN) => Ok(Some(true)),
        Some(NOT_NORMALIZED) => Ok(Some(false)),
        Some(norm) => refused("embd_normalize", format!("it must be {EUCLIDEAN} or {NOT_NORMALIZED}, not {norm}")),
    }
}

/// There is a list around each vector, because llama.cpp can be started without pooling.
fn vectors(app: &App, input: &Input) -> Result<Reply, Failure> {
    let request: EmbeddingRequest = input.parse()?;
    check_model(&request.model, app)?;
    let normalize = normalize(request.embd_normalize)?.or(Some(true));
    let items = request.content.read("content", app, true)?;
    let truncation = Truncation::new(app, false, Direction::Right);
    let inputs = FieldInputs { field: "content", items, role: Role::Passage, truncation };
    let encoding = VectorStream::of_field(app, &inputs, input.end())?;
    let vectors = encoding.normalized(normalize).whole()?;
    let mut answer = input.answer().with_vectors(vectors.values.len() * NUMBER_BYTES);
    answer.entries(vectors.rows().enumerate(), |json, (index, vector)| {
        json.extend_from_slice(format!(r#"{{"index":{index},"embedding":["#).as_bytes());
        write_list(json, vector);
        json.extend_from_slice(b"]}");
    })?;
    Ok(Reply::new("application/json", answer.finish()?.into_body(), vectors.work))
}

/// The schema of the answer that [`vectors`] writes without serde.
pub(crate) fn embedding_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {
        "type": "object",
        "required": ["index", "embedding"],
        "properties": {
            "index": {"type": "integer", "minimum": 0, "description": "Index of the text in the request."},
            "embedding": {"type": "array", "items": vector_schema(generator), "minItems": 1, "maxItems": 1},
        },
    }})
}
