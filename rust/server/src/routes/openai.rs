//! `POST /v1/embeddings`, as clients of `OpenAI`, vLLM, llama.cpp and infinity know them.
//!
//! A text over the model's limit is refused, unless the request asks for truncation; under `/embeddings`, as Text
//! Embeddings Inference and infinity have it, it is cut. Vectors come as numbers, in base64, or as bytes (see
//! [`crate::routes::vector_stream`]), as `OpenAI`, vLLM and `Accept` ask for them.

pub(super) mod failure;
pub(super) mod models;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_core::engine::Work;
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::failure::OPENAI;
use super::llama_cpp::{self, EUCLIDEAN, NOT_NORMALIZED};
use super::token_vectors::{TokenEncoding, TokenVectors, write_lists};
use crate::app::App;
use crate::http::body;
use crate::http::dtype::{Endianness, NUMBER_BYTES, NumberFormat, write_list};
use crate::http::failure::{Cause, Failure, refused};
use crate::http::input::{Input, RequestControl};
use crate::http::negotiation;
use crate::http::reply::Reply;
use crate::http::request_id::RequestId;
use crate::http::unix_time;
use crate::http::vector_headers::OCTETS;
use crate::routes::route::{Api, JSON, Route};
use crate::routes::schema_placeholders::{DIMENSION, PURPOSES};
use crate::routes::schemas::Schemas;
use crate::routes::vector_stream::{VECTOR_BYTES, VectorStream, vector_bytes};
use crate::routes::vectors::{
    Direction, FieldInputs, ModelName, Purpose, Texts, Truncation, check_model, vector_schema,
};
use crate::routes::vllm::failure::VLLM;

const API: Api = Api { tag: "openai", errors: &OPENAI };

pub(super) fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let vectors = vec![(JSON, schemas.written(embeddings_schema)), vector_bytes()];
    let example = json!({"model": "{model_name}", "input": ["The moon is white.", "Bread is baked from flour."]});
    let request = schemas.request::<EmbeddingsRequest>();
    let embeddings = |route: Route| {
        route
            .described(format!(
                "A text that is longer than {{max_tokens}} tokens is refused by `/v1/embeddings`, and cut by `/embeddings`; \
                 `truncate` and `truncate_prompt_tokens` decide otherwise. {VECTOR_BYTES}"
            ))
            .reads(request.clone(), example.clone())
            .writes(200, "A vector for each text, in order.", vectors.clone())
            .fails(&[404])
    };
    vec![
        embeddings(API.compute(
            "/v1/embeddings",
            |app, input| create_embeddings(app, input, false),
            "createEmbeddings",
            "Embed texts",
        )),
        embeddings(API.compute(
            "/embeddings",
            |app, input| create_embeddings(app, input, true),
            "createTruncatedEmbeddings",
            "Embed texts, cut at the model's limit",
        )),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object with an input")]
pub(crate) struct EmbeddingsRequest {
    input: Texts,
    #[serde(default)]
    encoding_format: EncodingFormat,
    #[serde(default)]
    embedding_dtype: Option<EmbeddingDtype>,
    /// The same as `embedding_dtype`, as vLLM's clients call it.
    #[serde(default)]
    embed_dtype: Option<EmbeddingDtype>,
    #[serde(default)]
    endianness: Endianness,
    #[serde(default)]
    model: ModelName,
    /// Ignored.
    #[serde(default, rename = "user")]
    _user: Option<String>,
    /// Put the model's special tokens around texts. Token ids have them, or need `false`.
    #[serde(default)]
    add_special_tokens: Option<bool>,
    /// Cut texts over the model's limit; by default `/v1/embeddings` refuses them, and `/embeddings` cuts them.
    #[serde(default, alias = "auto_truncate")]
    truncate: Option<bool>,
    /// Cut texts to this number of tokens; -1 is the model's limit.
    #[serde(default)]
    #[schemars(range(min = -1))]
    truncate_prompt_tokens: Option<i64>,
    /// Which end of a long text is dropped.
    #[serde(default, alias = "truncation_side")]
    truncation_direction: Option<Direction>,
    /// Bring vectors to length 1. False returns them as they were before; by default the model's own files decide.
    #[serde(default, alias = "use_activation", alias = "normalized")]
    normalize: Option<bool>,
    /// The same for llama.cpp's clients: 2 is length 1, and -1 returns vectors as they were before.
    #[serde(default)]
    #[schemars(extend("enum" = [EUCLIDEAN, NOT_NORMALIZED, null]))]
    embd_normalize: Option<i64>,
    /// What the texts are for, for models that have a prompt for each.
    #[serde(default, alias = "prompt_name", alias = "task")]
    #[schemars(extend("enum" = PURPOSES))]
    input_type: Option<Purpose>,
    /// Lower runs first.
    #[serde(default)]
    priority: Option<i32>,
    /// Only text.
    #[serde(default, rename = "modality")]
    _modality: Option<Modality>,
    /// Messages of a chat have no vector here; send `input`.
    #[serde(default)]
    #[schemars(with = "()")]
    messages: Option<IgnoredAny>,
    /// Length of the vectors; this model's cannot be cut.
    #[serde(default)]
    #[schemars(extend("enum" = [DIMENSION, null]))]
    dimensions: Option<usize>,
}

/// Numbers in JSON, or their little-endian bytes: in base64, or as vLLM sends them, with a description of each vector
/// in a header `metadata` (at most 60 KiB), or without. The last two return bytes whatever `accept` says.
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

/// The modality that infinity's clients send.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Modality {
    Text,
}

/// A checked request.
struct CheckedRequest {
    inputs: FieldInputs,
    end: RequestControl,
    normalize: Option<bool>,
    format: EncodingFormat,
    numbers: NumberFormat,
}

/// A checked request for vectors of whole texts, and its tokens.
pub(super) struct PooledEmbeddings {
    encoding: VectorStream,
    format: EncodingFormat,
    numbers: NumberFormat,
}

/// A checked request for the vectors of tokens.
pub(super) struct TokenEmbeddings {
    vectors: TokenVectors,
    format: EncodingFormat,
    numbers: NumberFormat,
}

/// How an API writes a list of vectors.
#[derive(Clone, Copy)]
pub(super) struct ListShape {
    /// What `id` begins with.
    pub(super) id: &'static str,
    /// The name of an entry.
    pub(super) object: &'static str,
    /// The field of its vector.
    pub(super) field: &'static str,
}

const EMBEDDINGS: ListShape = ListShape { id: "embd", object: "embedding", field: "embedding" };

/// The fields after the vectors.
#[derive(Serialize)]
struct EmbeddingsFooter<'app> {
    id: String,
    created: u64,
    model: &'app str,
    usage: EmbeddingsUsage,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct EmbeddingsUsage {
    /// Tokens that were encoded.
    prompt_tokens: usize,
    /// The same.
    total_tokens: usize,
    /// Always 0.
    completion_tokens: usize,
    /// The number of texts that were cut.
    truncated: usize,
}

impl EmbeddingsUsage {
    pub(super) const fn of(work: &Work) -> Self {
        let Work { tokens, truncated, .. } = *work;
        Self { prompt_tokens: tokens, total_tokens: tokens, completion_tokens: 0, truncated }
    }
}

/// The schema of the answer that [`answer`] writes without serde.
pub(crate) fn embeddings_schema(generator: &mut SchemaGenerator) -> Schema {
    list_schema(EMBEDDINGS, vector_schema, generator)
}

/// `vectors` are those of an entry.
pub(super) fn list_schema(
    shape: ListShape,
    vectors: fn(&mut SchemaGenerator) -> Schema,
    generator: &mut SchemaGenerator,
) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["object", "data", "id", "created", "model", "usage"],
        "properties": {
            "object": {"const": "list"},
            "id": {"type": "string"},
            "created": {"type": "integer", "description": "In seconds since 1970."},
            "data": {"type": "array", "items": {
                "type": "object",
                "required": ["object", "index", shape.field],
                "properties": {
                    "object": {"const": shape.object},
                    "index": {"type": "integer", "minimum": 0, "description": "Index of the text in the request."},
                    shape.field: {"anyOf": [vectors(generator), {"type": "string", "description": "With base64: its bytes."}]},
                },
            }},
            "model": {"type": "string"},
            "usage": generator.subschema_for::<EmbeddingsUsage>(),
        },
    })
}

pub(super) fn create_embeddings(app: &App, input: &Input, truncates: bool) -> Result<Reply, Failure> {
    EmbeddingsRequest::parse(app, input, truncates)?.into_reply(app, input, EMBEDDINGS)
}

/// Fields that only vLLM has: their errors have its body.
const VLLM_FIELDS: [&str; 5] =
    ["truncate_prompt_tokens", "truncation_side", "embed_dtype", "endianness", "use_activation"];

fn of_vllm(mut failure: Failure) -> Failure {
    if failure.message.starts_with("unknown variant") {
        // pydantic's name for it, which vLLM's clients look for.
        failure.message.push_str(" (literal_error)");
    }
    if failure.field.as_deref().is_some_and(|field| VLLM_FIELDS.contains(&field)) {
        failure.shape = Some(&VLLM);
    }
    failure
}

impl PooledEmbeddings {
    pub(super) fn into_reply(self, app: &App, input: &Input, shape: ListShape) -> Result<Reply, Failure> {
        let Self { encoding, format, numbers } = self;
        let usage = EmbeddingsUsage::of(&encoding.work());
        if format == EncodingFormat::Bytes {
            let metadata = metadata(app, &encoding, numbers, usage, &input.id)?;
            let mut reply = encoding.into_reply(app, numbers, input.id.clone())?;
            reply.headers.push((HeaderName::from_static("metadata"), metadata));
            return Ok(reply);
        }
        if format == EncodingFormat::BytesOnly {
            return encoding.into_reply(app, numbers, input.id.clone());
        }
        let vectors = encoding.whole()?;
        let (size, work, dimension) = ((vectors.rows().len(), vectors.values.len()), vectors.work, vectors.dimension);
        if format == EncodingFormat::Float {
            let row = |index: usize| &vectors.values[index * dimension..(index + 1) * dimension];
            return shape.reply(app, input, work, size, |json, index| write_list(json, row(index)));
        }
        let packed = numbers.pack(vectors.values, dimension);
        let bytes = numbers.dtype.row_bytes(dimension);
        let row = |index: usize| &packed[index * bytes..(index + 1) * bytes];
        shape.reply(app, input, work, size, |json, index| write_base64(json, row(index)))
    }
}

impl TokenEmbeddings {
    /// A list of vectors for each text, or their bytes in base64.
    pub(super) fn into_reply(self, app: &App, input: &Input, shape: ListShape) -> Result<Reply, Failure> {
        let Self { vectors, format, numbers } = self;
        let (width, work, size) = (vectors.width, vectors.work, (vectors.lengths.len(), vectors.values.len()));
        let texts: Vec<&[f32]> = vectors.texts().collect();
        if format == EncodingFormat::Float {
            return shape.reply(app, input, work, size, |json, index| write_lists(json, texts[index], width));
        }
        let packed = |index: usize| numbers.pack(texts[index].to_vec(), width);
        shape.reply(app, input, work, size, |json, index| write_base64(json, &packed(index)))
    }
}

impl ListShape {
    /// The answer with `count` entries and this number of values; `write` appends the vectors of one. Apart from its index, the text around them
    /// is the same, so this writes it without serde.
    fn reply(
        self,
        app: &App,
        input: &Input,
        work: Work,
        (count, values): (usize, usize),
        write: impl Fn(&mut Vec<u8>, usize),
    ) -> Result<Reply, Failure> {
        let Self { id, object, field } = self;
        let mut answer = input.answer().with_vectors(values * NUMBER_BYTES);
        answer.append(|json| json.extend_from_slice(br#"{"object":"list","data":"#))?;
        answer.entries(0..count, |json, index| {
            json.extend_from_slice(format!(r#"{{"object":"{object}","index":{index},"{field}":"#).as_bytes());
            write(json, index);
            json.push(b'}');
        })?;
        let footer = EmbeddingsFooter {
            id: format!("{id}-{}", input.id.0),
            created: unix_time().as_secs(),
            model: &app.settings.model_name,
            usage: EmbeddingsUsage::of(&work),
        };
        let rest = serde_json::to_vec(&footer).map_err(|error| body::not_json(&error))?;
        answer.append(|json| {
            json.push(b',');
            json.extend_from_slice(&rest[1..]);
        })?;
        Ok(Reply::new("application/json", answer.finish()?.into_body(), work))
    }
}

fn write_base64(json: &mut Vec<u8>, bytes: &[u8]) {
    json.push(b'"');
    json.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    json.push(b'"');
}

impl EmbeddingsRequest {
    /// Checks a request and tokenizes its texts. `truncates` is what happens to long texts by default.
    pub(super) fn parse(app: &App, input: &Input, truncates: bool) -> Result<PooledEmbeddings, Failure> {
        let read = |request: Self| {
            let request = request.check(app, input, truncates, app.engine.spec().dimension)?;
            let CheckedRequest { inputs, end, normalize, format, numbers } = request;
            let encoding = VectorStream::of_field(app, &inputs, end)?;
            Ok(PooledEmbeddings { encoding: encoding.normalized(normalize), format, numbers })
        };
        input.parse().and_then(read).map_err(of_vllm)
    }

    /// Checks a request for the vectors of tokens, which have this width, and encodes them.
    pub(super) fn token_vectors(app: &App, input: &Input, width: usize) -> Result<TokenEmbeddings, Failure> {
        let read = |request: Self| {
            // It is the task.
            let request = Self { input_type: None, ..request }.check(app, input, false, width)?;
            let CheckedRequest { inputs, end, normalize, format, numbers } = request;
            if !matches!(format, EncodingFormat::Float | EncodingFormat::Base64) {
                let message = "it must be float or base64; bytes alone do not show where the tokens of a text end";
                return refused("encoding_format", message);
            }
            let normalizes = normalize.unwrap_or(app.model.normalize);
            check_int8(Some(normalizes), numbers.dtype)?;
            let encoding = TokenEncoding::of_field(app, &inputs, width, end)?;
            Ok(TokenEmbeddings { vectors: encoding.whole(app, normalizes)?, format, numbers })
        };
        input.parse().and_then(read).map_err(of_vllm)
    }

    /// `width` is that of the vectors.
    fn check(self, app: &App, input: &Input, truncates: bool, width: usize) -> Result<CheckedRequest, Failure> {
        check_model(&self.model, app)?;
        check_dimensions(self.dimensions, width)?;
        if self.messages.is_some() {
            return refused("messages", "messages of a chat are not supported; send their text as input");
        }
        let numbers = NumberFormat { dtype: self.dtype()?, endianness: self.endianness };
        let format = self.format(&input.headers);
        if format == EncodingFormat::Float {
            check_json_dtype(numbers.dtype)?;
        }
        let normalize = self.normalize()?;
        check_int8(normalize, numbers.dtype)?;
        let role = self.input_type.map_or(Ok(Role::Passage), |purpose| purpose.role("input_type", app))?;
        let direction = self.truncation_direction.unwrap_or_default();
        let mut truncation = Truncation::new(app, self.truncate.unwrap_or(truncates), direction)
            .to(self.truncate_prompt_tokens, "truncate_prompt_tokens", app)?;
        truncation.options.adds_special_tokens = self.add_special_tokens.unwrap_or(true);
        let items = self.input.read("input", app, truncation.options.adds_special_tokens)?;
        let inputs = FieldInputs { field: "input", items, role, truncation };
        let end = input.end().with_priority(self.priority.unwrap_or(input.limits.priority));
        Ok(CheckedRequest { inputs, end, normalize, format, numbers })
    }

    fn normalize(&self) -> Result<Option<bool>, Failure> {
        match (self.normalize, llama_cpp::normalize(self.embd_normalize)?) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                refused("embd_normalize", "normalize says something else, and both mean the same; leave one out")
            }
            (ours, theirs) => Ok(ours.or(theirs)),
        }
    }

    fn dtype(&self) -> Result<EmbeddingDtype, Failure> {
        match (self.embedding_dtype, self.embed_dtype) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                refused("embed_dtype", "embedding_dtype says something else, and both mean the same; leave one out")
            }
            (ours, theirs) => Ok(ours.or(theirs).unwrap_or_default()),
        }
    }

    /// `Accept` decides between JSON and bytes. An `encoding_format` of bytes overrides it, because clients that send
    /// one have the default `Accept` of their HTTP library.
    fn format(&self, headers: &HeaderMap) -> EncodingFormat {
        let asks_for_bytes = matches!(self.encoding_format, EncodingFormat::Bytes | EncodingFormat::BytesOnly);
        if !asks_for_bytes && negotiation::preferred(headers, &["application/json", OCTETS]) == OCTETS {
            return EncodingFormat::BytesOnly;
        }
        self.encoding_format
    }
}

/// The longest `metadata` header; many HTTP clients reject longer ones.
const LONGEST_METADATA: usize = 60 * 1024;

/// vLLM's description of the bytes, for a header.
fn metadata(
    app: &App,
    encoding: &VectorStream,
    numbers: NumberFormat,
    usage: EmbeddingsUsage,
    id: &RequestId,
) -> Result<HeaderValue, Failure> {
    let dimension = app.engine.spec().dimension;
    let bytes = numbers.dtype.row_bytes(dimension);
    let row = |index: usize| {
        json!({
            "index": index,
            "embed_dtype": numbers.dtype.name(),
            "endianness": numbers.byte_order(),
            "start": index * bytes,
            "end": (index + 1) * bytes,
            "shape": [dimension],
        })
    };
    let metadata = json!({
        "id": id.0,
        "created": unix_time().as_secs(),
        "model": app.settings.model_name,
        "data": (0..encoding.rows()).map(row).collect::<Vec<_>>(),
        "usage": usage,
    });
    let text = metadata.to_string();
    let fitting = HeaderValue::from_str(&text).ok().filter(|_| text.len() <= LONGEST_METADATA);
    fitting.ok_or_else(|| {
        let message = format!(
            "the description of {} texts does not fit a header; request bytes_only, whose x-embedding headers have the same",
            encoding.rows()
        );
        Failure::of_field(Cause::Unprocessable, "encoding_format", message)
    })
}

/// int8 has no room for values outside -1 to 1.
pub(super) fn check_int8(normalize: Option<bool>, dtype: EmbeddingDtype) -> Result<(), Failure> {
    if normalize == Some(false) && dtype == EmbeddingDtype::Int8 {
        let message = "false with int8 would clip values at -1 and 1; leave it out, or request another dtype";
        return refused("normalize", message);
    }
    Ok(())
}

/// Numbers in JSON are float32 only. Float16 is shorter as base64, and clients of `OpenAI`'s API would read the whole
/// numbers of a quantized vector as its values.
pub(super) fn check_json_dtype(dtype: EmbeddingDtype) -> Result<(), Failure> {
    if dtype == EmbeddingDtype::Float32 {
        return Ok(());
    }
    let message = format!(
        "numbers of JSON are float32; {} comes as bytes, by accept: {OCTETS}, and from /v1/embeddings in base64 too",
        dtype.name()
    );
    refused("embedding_dtype", message)
}

/// Shorter vectors need a model that was trained for them, and model files do not say which were.
pub(super) fn check_dimensions(request: Option<usize>, own: usize) -> Result<(), Failure> {
    match request {
        Some(request) if request != own => refused(
            "dimensions",
            format!("this model's vectors have {own} dimensions and cannot be cut to {request}; leave it out"),
        ),
        _ => Ok(()),
    }
}
