//! The call of `/embed`: many texts in, one array out, over several requests.
//!
//! The array is one allocation, and each request writes into its own slice of it. Rows are therefore in the order of
//! their texts, whatever the order of the answers. The first answer has the length of a vector. Later calls reuse it;
//! if it has changed (another model), the call starts again.
//!
//! The array has float32, whatever the type on the wire, or bytes of the type on the wire ([`Item`]).

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_vec;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use serde::{Serialize, Serializer};

use crate::call_options::CallOptions;
use crate::client::Client;
use crate::exchange::{ClientState, OpenResponse, Request, compute};
use crate::raw::{BodyWriter, EmbeddingHeaders, bad, to_native_endian, widen};
use crate::request_error::RequestError;
use crate::retry::Attempts;
use crate::rows::{Rows, read_rows};
use crate::settings::invalid;

/// Raw vectors, or else JSON.
const ACCEPT: &str = "application/octet-stream, application/json;q=0.5";

/// A text that may move between threads.
pub trait Text: AsRef<str> + Send + Sync + 'static {}

impl<T: AsRef<str> + Send + Sync + 'static> Text for T {}

pub(crate) trait Item: Zeroable + Copy + Send + Sync {
    /// Items of a vector.
    fn width(dtype: EmbeddingDtype, dimension: usize) -> usize;

    /// Whether an answer of type `found` fits, if `requested` was requested.
    fn accepts(found: EmbeddingDtype, requested: EmbeddingDtype) -> bool;

    /// Reads the body of an answer into its place.
    fn read_body(
        answer: &mut OpenResponse<'_>,
        headers: EmbeddingHeaders,
        place: &mut [Self],
    ) -> impl Future<Output = Result<(), RequestError>> + Send;

    fn from_json(rows: Rows, requested: EmbeddingDtype) -> Result<(Vec<Self>, usize)>;
}

/// The vectors of texts: values of float32, or the bytes of another type.
#[derive(Debug)]
pub struct Vectors<I = f32> {
    /// One vector after the other.
    pub values: Vec<I>,
    pub dimension: usize,
    /// Texts that the server truncated at the model's limit, if it counts them.
    pub truncated: usize,
}

enum EmbedAnswer<'client, I> {
    /// Raw, and its body is still to be read.
    Raw(Box<OpenResponse<'client>>, EmbeddingHeaders),
    /// JSON: the items of all vectors, and the values of one.
    Json(Vec<I>, usize),
}

struct EmbeddingCall<'call, T> {
    shared: &'call ClientState,
    texts: Arc<[T]>,
    role: Role,
    dtype: EmbeddingDtype,
    call: CallOptions,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Ours, as in Text Embeddings Inference.
    Embed,
    /// `OpenAI`'s, at this path.
    OpenAi(&'static str),
}

enum EmbedError {
    /// Vectors have another length than this call assumed.
    WrongDimension,
    Error(Error),
}

impl From<Error> for EmbedError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Client {
    /// Vectors of texts, as float32.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn embed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors>> + Send + use<T> {
        embed(Arc::clone(&self.shared), texts, role, self.shared.settings.wire_dtype.into(), call)
    }

    /// The bytes of vectors of texts, in this type.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn embed_packed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        dtype: EmbeddingDtype,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors<u8>>> + Send + use<T> {
        embed(Arc::clone(&self.shared), texts, role, dtype, call)
    }
}

async fn embed<T: Text, I: Item>(
    shared: Arc<ClientState>,
    texts: Vec<T>,
    role: Role,
    dtype: EmbeddingDtype,
    call: CallOptions,
) -> Result<Vectors<I>> {
    if texts.is_empty() {
        return Err(invalid("there are no texts to embed"));
    }
    let parts = parts(&texts, shared.settings.rows_per_request, shared.settings.bytes_per_request);
    let embedding = EmbeddingCall { shared: &shared, texts: texts.into(), role, dtype, call };
    let known = shared.dimension.load(Ordering::Relaxed);
    match embedding.embed(&parts, known).await {
        Err(EmbedError::WrongDimension) if known != 0 => match embedding.embed(&parts, 0).await {
            Err(EmbedError::WrongDimension) => Err(bad("its vectors have different lengths")),
            Err(EmbedError::Error(error)) => Err(error),
            Ok(vectors) => Ok(vectors),
        },
        Err(EmbedError::WrongDimension) => {
            Err(bad("vectors of one call have several lengths: do all servers have the same model?"))
        }
        Err(EmbedError::Error(error)) => Err(error),
        Ok(vectors) => Ok(vectors),
    }
}

/// The texts of each request: at most `rows` texts and `bytes` bytes, or one longer text.
fn parts<T: Text>(texts: &[T], rows: usize, bytes: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut first, mut size) = (0, 0);
    for (index, text) in texts.iter().enumerate() {
        let length = text.as_ref().len();
        if index > first && (index - first == rows || size + length > bytes) {
            parts.push(first..index);
            (first, size) = (index, 0);
        }
        size += length;
    }
    parts.push(first..texts.len());
    parts
}

impl<T: Text> EmbeddingCall<'_, T> {
    /// Embeds all parts. `known` is the dimension, or 0.
    async fn embed<I: Item>(&self, parts: &[Range<usize>], known: usize) -> Result<Vectors<I>, EmbedError> {
        let mut first = None;
        let mut dimension = known;
        if dimension == 0 {
            let answer = self.open_first(&parts[0]).await?;
            dimension = answer.dimension();
            first = Some(answer);
        }
        let width = I::width(self.dtype, dimension);
        let size = self.texts.len().checked_mul(width).ok_or_else(|| bad("its vectors fit no memory"))?;
        // The system zeroes the pages of a large array when they are first written.
        let mut vectors: Vec<I> = try_zeroed_vec(size).map_err(|()| bad("its vectors fit no memory"))?;
        let mut rest = vectors.as_mut_slice();
        let mut reads = Vec::with_capacity(parts.len());
        for part in parts {
            let (place, others) = rest.split_at_mut(part.len() * width);
            rest = others;
            reads.push(self.read_part(part, place, first.take()));
        }
        let in_flight = self.shared.settings.max_in_flight;
        let truncated: Vec<usize> = stream::iter(reads).buffer_unordered(in_flight).try_collect().await?;
        self.shared.dimension.store(dimension, Ordering::Relaxed);
        Ok(Vectors { values: vectors, dimension, truncated: truncated.into_iter().sum() })
    }

    /// The first answer, which has the dimension.
    async fn open_first<I: Item>(&self, part: &Range<usize>) -> Result<EmbedAnswer<'_, I>> {
        let mut attempts = self.shared.attempts(self.call);
        loop {
            let route = self.route();
            let failure = match self.open(part, route, &attempts).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            self.retry(&mut attempts, route, failure).await?;
        }
    }

    /// Reads the vectors of a part into their place. Returns the number of truncated texts.
    async fn read_part<I: Item>(
        &self,
        part: &Range<usize>,
        place: &mut [I],
        mut first: Option<EmbedAnswer<'_, I>>,
    ) -> Result<usize, EmbedError> {
        let mut attempts = self.shared.attempts(self.call);
        loop {
            let route = self.route();
            let answer = match first.take() {
                Some(answer) => Ok(answer),
                None => self.open(part, route, &attempts).await,
            };
            let failure = match answer {
                Ok(answer) if I::width(self.dtype, answer.dimension()) * part.len() != place.len() => {
                    return Err(EmbedError::WrongDimension);
                }
                Ok(EmbedAnswer::Json(items, _)) => {
                    place.copy_from_slice(&items);
                    return Ok(0);
                }
                Ok(EmbedAnswer::Raw(mut answer, headers)) => match I::read_body(&mut answer, headers, place).await {
                    Ok(()) => return Ok(headers.truncated),
                    Err(failure) => (failure, Some(answer.index())),
                },
                Err(failure) => failure,
            };
            self.retry(&mut attempts, route, failure).await?;
        }
    }

    fn route(&self) -> Route {
        match (self.shared.uses_openai.load(Ordering::Relaxed), self.shared.endpoints.are_openai()) {
            (false, _) => Route::Embed,
            (true, false) => Route::OpenAi("/v1/embeddings"),
            (true, true) => Route::OpenAi("/embeddings"),
        }
    }

    /// Waits for the next attempt. After a 404 from our route, all requests use `OpenAI`'s; after a 404 from that one
    /// too, the next call tries ours again.
    async fn retry(
        &self,
        attempts: &mut Attempts<'_>,
        route: Route,
        (failure, endpoint): (RequestError, Option<usize>),
    ) -> Result<()> {
        if failure.error.kind() == ErrorKind::NotFound && self.role == Role::Passage {
            let is_ours = route == Route::Embed;
            self.shared.uses_openai.store(is_ours || self.shared.endpoints.are_openai(), Ordering::Relaxed);
            if is_ours {
                return Ok(());
            }
        }
        attempts.backoff(failure, endpoint).await
    }

    async fn open<I: Item>(
        &self,
        part: &Range<usize>,
        route: Route,
        attempts: &Attempts<'_>,
    ) -> Result<EmbedAnswer<'_, I>, (RequestError, Option<usize>)> {
        let request = self.request(part, route).map_err(|error| (error.into(), None))?;
        let mut answer = self.shared.open(&request, attempts).await?;
        let index = Some(answer.index());
        let headers = EmbeddingHeaders::read(answer.response.headers(), part.len()).and_then(|headers| match headers {
            Some(headers) if !I::accepts(headers.dtype, self.dtype) => Err(headers.wrong_dtype(self.dtype)),
            headers => Ok(headers),
        });
        if let Some(headers) = headers.map_err(|error| (answer.error(&error).into(), index))? {
            return Ok(EmbedAnswer::Raw(Box::new(answer), headers));
        }
        let limit = self.shared.settings.max_answer_bytes;
        let body = answer.read_all(limit).await.map_err(|failure| (failure, index))?;
        let rows = compute(body.len(), || I::from_json(read_rows(&body, part.len())?, self.dtype));
        let (items, dimension) = rows.map_err(|error| (answer.error(&error).into(), index))?;
        Ok(EmbedAnswer::Json(items, dimension))
    }

    fn request(&self, part: &Range<usize>, route: Route) -> Result<Request> {
        let texts = TextList(&self.texts[part.clone()]);
        let size = texts.0.iter().map(|text| text.as_ref().len()).sum();
        let dtype = (self.dtype != EmbeddingDtype::Float32).then_some(self.dtype);
        let (path, json) = match route {
            Route::OpenAi(_) if self.role == Role::Query => {
                return Err(invalid(
                    "role=\"query\" needs another route than OpenAI's, the only one of this server; leave it out",
                ));
            }
            Route::OpenAi(path) => {
                let model = self.shared.settings.model.as_deref();
                // Base64 does not name its type, so it is only requested for float32.
                let encoding_format = if dtype.is_none() { "base64" } else { "float" };
                let body = OpenAiBody { input: texts, model, encoding_format, embedding_dtype: dtype };
                (path, compute(size, || serde_json::to_vec(&body)))
            }
            Route::Embed => {
                let prompt_name = (self.role == Role::Query).then_some("query");
                let body = EmbedBody { inputs: texts, as_model_says: true, prompt_name, embedding_dtype: dtype };
                ("/embed", compute(size, || serde_json::to_vec(&body)))
            }
        };
        let body = Bytes::from(json.map_err(|error| invalid(format!("the texts cannot be written as JSON: {error}")))?);
        Ok(Request { accept: ACCEPT, ..Request::post(path, body) })
    }
}

impl<I> EmbedAnswer<'_, I> {
    const fn dimension(&self) -> usize {
        match self {
            Self::Raw(_, headers) => headers.dimension,
            Self::Json(_, dimension) => *dimension,
        }
    }
}

impl Item for f32 {
    fn width(_: EmbeddingDtype, dimension: usize) -> usize {
        dimension
    }

    /// Any float: a server need not support narrower types.
    fn accepts(found: EmbeddingDtype, _: EmbeddingDtype) -> bool {
        found.is_float()
    }

    async fn read_body(
        answer: &mut OpenResponse<'_>,
        headers: EmbeddingHeaders,
        place: &mut [f32],
    ) -> Result<(), RequestError> {
        if headers.dtype == EmbeddingDtype::Float32 {
            read_bytes(answer, headers, bytemuck::cast_slice_mut(place)).await?;
            to_native_endian(place);
        } else {
            let mut narrow = vec![0; headers.bytes()];
            read_bytes(answer, headers, &mut narrow).await?;
            widen(headers.dtype, &narrow, place);
        }
        Ok(())
    }

    fn from_json(rows: Rows, _: EmbeddingDtype) -> Result<(Vec<f32>, usize)> {
        Ok((rows.values, rows.dimension))
    }
}

impl Item for u8 {
    fn width(dtype: EmbeddingDtype, dimension: usize) -> usize {
        dtype.row_bytes(dimension)
    }

    fn accepts(found: EmbeddingDtype, requested: EmbeddingDtype) -> bool {
        found == requested
    }

    async fn read_body(
        answer: &mut OpenResponse<'_>,
        headers: EmbeddingHeaders,
        place: &mut [u8],
    ) -> Result<(), RequestError> {
        read_bytes(answer, headers, place).await
    }

    fn from_json(_: Rows, requested: EmbeddingDtype) -> Result<(Vec<u8>, usize)> {
        let name = requested.name();
        Err(bad(format!("its vectors are JSON, which has no {name}; does that server support embedding_dtype?")))
    }
}

async fn read_bytes(
    answer: &mut OpenResponse<'_>,
    headers: EmbeddingHeaders,
    place: &mut [u8],
) -> Result<(), RequestError> {
    let mut writer = BodyWriter::new(headers, place)?;
    while let Some(chunk) = answer.chunk().await? {
        writer.write(&chunk).map_err(|error| answer.error(&error))?;
    }
    writer.finish().map_err(|error| answer.error(&error).into())
}

#[derive(Serialize)]
#[serde(bound = "")]
struct EmbedBody<'texts, T: Text> {
    inputs: TextList<'texts, T>,
    /// Vectors as the library returns them: the route's default is length one.
    as_model_says: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<EmbeddingDtype>,
}

#[derive(Serialize)]
#[serde(bound = "")]
struct OpenAiBody<'texts, T: Text> {
    input: TextList<'texts, T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'texts str>,
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<EmbeddingDtype>,
}

struct TextList<'texts, T>(&'texts [T]);

impl<T: Text> Serialize for TextList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(AsRef::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_in_texts_and_bytes_and_lose_none() {
        let texts = ["a", "bb", "cccccccccc", "d", "e", "f"];
        assert_eq!(parts(&texts, 2, 5), [0..2, 2..3, 3..5, 5..6]);
        assert_eq!(parts(&texts, 100, 1000), vec![Range { start: 0, end: 6 }]);
        assert_eq!(parts(&texts[..1], 1, 1), vec![Range { start: 0, end: 1 }]);
    }
}
