//! Vectors: many texts in, one array out, over as many requests as it takes.
//!
//! The array is one allocation. Each request has a part of it to itself, and what the network brings is written there, so
//! rows stand in the order of their texts whatever order the answers come in. How long a vector is, the first answer says;
//! later calls know it already, and where it has changed (another model) the call begins once more.
//!
//! The array is of float32, however the values travelled, or of the bytes that travelled ([`Item`]).

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
use serde::{Serialize, Serializer};

use crate::attempts::{Attempts, CallOptions};
use crate::exchange::{Answer, Request, Shared, compute};
use crate::packed::Packing;
use crate::raw::{BodyWriter, Dtype, EmbeddingHeaders, bad};
use crate::request_error::RequestError;
use crate::rows::{Rows, read_rows};
use crate::settings::invalid;

/// Raw vectors are asked for first, and whatever else a server has is taken.
const ACCEPT: &str = "application/octet-stream, application/json;q=0.5";

/// Texts that may go from thread to thread.
pub trait Text: AsRef<str> + Send + Sync + 'static {}

impl<T: AsRef<str> + Send + Sync + 'static> Text for T {}

/// What an array is made of.
pub(crate) trait Item: Zeroable + Copy + Send + Sync {
    /// Items of a vector of so many values.
    fn width(dtype: Dtype, dimension: usize) -> usize;

    /// Whether values that are claimed to be of this type can be an array's, where another was asked for.
    fn is_of(claimed: Dtype, asked: Dtype) -> bool;

    /// The body of an answer in its place.
    fn land(
        answer: &mut Answer<'_>,
        claim: EmbeddingHeaders,
        place: &mut [Self],
        copying: bool,
    ) -> impl Future<Output = Result<(), RequestError>> + Send;

    /// Vectors of JSON, if they can be an array's.
    fn read(rows: Rows, asked: Dtype) -> Result<(Vec<Self>, usize)>;
}

/// The vectors of texts: values of float32, or the bytes of another type.
#[derive(Debug)]
pub struct Vectors<I = f32> {
    /// One vector behind the other.
    pub values: Vec<I>,
    /// Values of a vector.
    pub dimension: usize,
    /// How many texts were longer than the model allows, as far as the server says.
    pub truncated: usize,
    /// Where in memory the network's bytes were written: the address of `values`, as long as nobody copies them.
    pub written_at: usize,
}

/// What an answer has, before its vectors have a place.
enum Opened<'client, I> {
    /// Its body is still to come.
    Raw(Box<Answer<'client>>, EmbeddingHeaders),
    /// It was JSON: the vectors' items, and how many values each has.
    Read(Vec<I>, usize),
}

/// A call's texts, and what is said about all of them.
struct EmbeddingCall<'call, T> {
    shared: &'call Shared,
    texts: Arc<[T]>,
    role: Role,
    /// How values are to travel.
    dtype: Dtype,
    call: CallOptions,
}

/// Where vectors are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Ours, which is that of Text Embeddings Inference.
    Embed,
    /// That of `OpenAI`'s kind, behind the server's address.
    OpenAi(&'static str),
}

/// Why a part has no vectors.
enum Failed {
    /// Vectors have another length than this call believed.
    Length,
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(crate) async fn embed<T: Text, I: Item>(
    shared: &Shared,
    texts: Arc<[T]>,
    role: Role,
    dtype: Dtype,
    call: CallOptions,
) -> Result<Vectors<I>> {
    if texts.is_empty() {
        return Err(invalid("there are no texts to embed"));
    }
    let parts = parts(&texts, shared.settings.rows_per_request, shared.settings.bytes_per_request);
    let asked = EmbeddingCall { shared, texts, role, dtype, call };
    let known = shared.dimension.load(Ordering::Relaxed);
    match asked.embed(&parts, known).await {
        Err(Failed::Length) if known != 0 => match asked.embed(&parts, 0).await {
            Err(Failed::Length) => Err(bad("its vectors have now one length and now another")),
            Err(Failed::Error(error)) => Err(error),
            Ok(done) => Ok(done),
        },
        Err(Failed::Length) => {
            Err(bad("vectors of one call have several lengths: do all servers have the same model?"))
        }
        Err(Failed::Error(error)) => Err(error),
        Ok(done) => Ok(done),
    }
}

/// Cuts texts into requests, each of at most so many texts and so many bytes; a longer text has one of its own.
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
    /// All parts, with vectors of this length; 0 is not known.
    async fn embed<I: Item>(&self, parts: &[Range<usize>], known: usize) -> Result<Vectors<I>, Failed> {
        let mut first = None;
        let mut dimension = known;
        if dimension == 0 {
            let opened = self.open_first(&parts[0]).await?;
            dimension = opened.dimension();
            first = Some(opened);
        }
        let width = I::width(self.dtype, dimension);
        let size = self.texts.len().checked_mul(width).ok_or_else(|| bad("its vectors fit no memory"))?;
        // Of a large array the system's own zeros, which cost nothing before they are written over.
        let mut vectors: Vec<I> = try_zeroed_vec(size).map_err(|()| bad("its vectors fit no memory"))?;
        let mut rest = vectors.as_mut_slice();
        let mut landings = Vec::with_capacity(parts.len());
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len() * width);
            rest = behind;
            landings.push(self.land(part, place, first.take()));
        }
        let in_flight = self.shared.settings.max_in_flight;
        let cut: Vec<usize> = stream::iter(landings).buffer_unordered(in_flight).try_collect().await?;
        self.shared.dimension.store(dimension, Ordering::Relaxed);
        let written_at = vectors.as_ptr() as usize;
        Ok(Vectors { values: vectors, dimension, truncated: cut.into_iter().sum(), written_at })
    }

    /// The first answer, which says how long vectors are.
    async fn open_first<I: Item>(&self, part: &Range<usize>) -> Result<Opened<'_, I>> {
        let mut attempts = self.shared.attempts(self.call);
        loop {
            let route = self.route();
            let failed = match self.open(part, route, &attempts).await {
                Ok(opened) => return Ok(opened),
                Err(failed) => failed,
            };
            self.again(&mut attempts, route, failed).await?;
        }
    }

    /// The vectors of a part in their place; how many of its texts were cut.
    async fn land<I: Item>(
        &self,
        part: &Range<usize>,
        place: &mut [I],
        first: Option<Opened<'_, I>>,
    ) -> Result<usize, Failed> {
        let mut attempts = self.shared.attempts(self.call);
        let mut retry = first;
        loop {
            let route = self.route();
            let opened = match retry.take() {
                Some(opened) => Ok(opened),
                None => self.open(part, route, &attempts).await,
            };
            let failed = match opened {
                Ok(opened) if I::width(self.dtype, opened.dimension()) * part.len() != place.len() => {
                    return Err(Failed::Length);
                }
                Ok(Opened::Read(items, _)) => {
                    place.copy_from_slice(&items);
                    return Ok(0);
                }
                Ok(Opened::Raw(mut answer, claim)) => {
                    match I::land(&mut answer, claim, place, self.shared.settings.copying).await {
                        Ok(()) => return Ok(claim.truncated),
                        Err(failure) => (failure, Some(answer.index())),
                    }
                }
                Err(failed) => failed,
            };
            self.again(&mut attempts, route, failed).await?;
        }
    }

    fn route(&self) -> Route {
        match (self.shared.speaks_openai.load(Ordering::Relaxed), self.shared.endpoints.are_openai()) {
            (false, _) => Route::Embed,
            (true, false) => Route::OpenAi("/v1/embeddings"),
            (true, true) => Route::OpenAi("/embeddings"),
        }
    }

    /// Waits for the next attempt. A server without our route is asked as `OpenAI`'s are, from then on, unless it does not know
    /// that either: then the address led nowhere, and the next call may find our route there.
    async fn again(
        &self,
        attempts: &mut Attempts<'_>,
        route: Route,
        (failure, endpoint): (RequestError, Option<usize>),
    ) -> Result<()> {
        if failure.error.kind() == ErrorKind::NotFound && self.role == Role::Passage {
            let is_ours = route == Route::Embed;
            self.shared.speaks_openai.store(is_ours || self.shared.endpoints.are_openai(), Ordering::Relaxed);
            if is_ours {
                return Ok(());
            }
        }
        attempts.after(failure, endpoint).await
    }

    async fn open<I: Item>(
        &self,
        part: &Range<usize>,
        route: Route,
        attempts: &Attempts<'_>,
    ) -> Result<Opened<'_, I>, (RequestError, Option<usize>)> {
        let request = self.request(part, route).map_err(|error| (error.into(), None))?;
        let mut answer = self.shared.open(&request, attempts).await?;
        let index = Some(answer.index());
        let claim = EmbeddingHeaders::read(answer.response.headers(), part.len()).and_then(|claim| match claim {
            Some(claim) if !I::is_of(claim.dtype, self.dtype) => Err(claim.other_dtype(self.dtype)),
            claim => Ok(claim),
        });
        if let Some(claim) = claim.map_err(|error| (answer.wrong(&error).into(), index))? {
            answer.is_raw();
            return Ok(Opened::Raw(Box::new(answer), claim));
        }
        let most = self.shared.settings.max_answer_bytes;
        let body = answer.whole(most).await.map_err(|failure| (failure, index))?;
        let rows = compute(body.len(), || I::read(read_rows(&body, part.len())?, self.dtype));
        let (items, dimension) = rows.map_err(|error| (answer.wrong(&error).into(), index))?;
        Ok(Opened::Read(items, dimension))
    }

    fn request(&self, part: &Range<usize>, route: Route) -> Result<Request> {
        let texts = Texts(&self.texts[part.clone()]);
        let size = texts.0.iter().map(|text| text.as_ref().len()).sum();
        let dtype = (self.dtype != Dtype::Float32).then_some(self.dtype);
        let (path, written) = match route {
            Route::OpenAi(_) if self.role == Role::Query => {
                return Err(invalid("role=\"query\" means nothing to a server with OpenAI's route only; leave it out"));
            }
            Route::OpenAi(path) => {
                let model = self.shared.settings.model.as_deref();
                // Nothing says what base64 holds: it is asked for where it can only be float32.
                let encoding_format = if dtype.is_none() { "base64" } else { "float" };
                let body = OfOpenAi { input: texts, model, encoding_format, embedding_dtype: dtype };
                (path, compute(size, || serde_json::to_vec(&body)))
            }
            Route::Embed => {
                let prompt_name = (self.role == Role::Query).then_some("query");
                let body = Native { inputs: texts, as_model_says: true, prompt_name, embedding_dtype: dtype };
                ("/embed", compute(size, || serde_json::to_vec(&body)))
            }
        };
        let body = Bytes::from(written.map_err(|error| invalid(format!("the texts do not fit JSON: {error}")))?);
        Ok(Request { accept: ACCEPT, ..Request::post(path, body) })
    }
}

impl<I> Opened<'_, I> {
    const fn dimension(&self) -> usize {
        match self {
            Self::Raw(_, claim) => claim.dimension,
            Self::Read(_, dimension) => *dimension,
        }
    }
}

impl Item for f32 {
    fn width(_: Dtype, dimension: usize) -> usize {
        dimension
    }

    /// Whatever becomes float32 will do: a server need not know of narrower types.
    fn is_of(claimed: Dtype, _: Dtype) -> bool {
        claimed.is_float()
    }

    async fn land(
        answer: &mut Answer<'_>,
        claim: EmbeddingHeaders,
        place: &mut [f32],
        copying: bool,
    ) -> Result<(), RequestError> {
        let mut landing = BodyWriter::new(claim, place, copying)?;
        if let Some(place) = landing.whole()
            && answer.fill(place).await?
        {
            return landing.landed().map_err(|error| answer.wrong(&error).into());
        }
        while let Some(chunk) = answer.chunk().await? {
            landing.write(&chunk).map_err(|error| answer.wrong(&error))?;
        }
        landing.finish().map_err(|error| answer.wrong(&error).into())
    }

    fn read(rows: Rows, _: Dtype) -> Result<(Vec<f32>, usize)> {
        Ok((rows.values, rows.dimension))
    }
}

impl Item for u8 {
    fn width(dtype: Dtype, dimension: usize) -> usize {
        dtype.row_bytes(dimension)
    }

    fn is_of(claimed: Dtype, asked: Dtype) -> bool {
        claimed == asked
    }

    async fn land(
        answer: &mut Answer<'_>,
        claim: EmbeddingHeaders,
        place: &mut [u8],
        _: bool,
    ) -> Result<(), RequestError> {
        let mut packing = Packing::new(claim, place)?;
        while let Some(chunk) = answer.chunk().await? {
            packing.write(&chunk).map_err(|error| answer.wrong(&error))?;
        }
        packing.finish().map_err(|error| answer.wrong(&error).into())
    }

    fn read(_: Rows, asked: Dtype) -> Result<(Vec<u8>, usize)> {
        let name = asked.name();
        Err(bad(format!("its vectors are JSON, which has no {name}; does that server know of embedding_dtype?")))
    }
}

/// The body of `/embed`.
#[derive(Serialize)]
#[serde(bound = "")]
struct Native<'texts, T: Text> {
    inputs: Texts<'texts, T>,
    /// Whether vectors are as the library's are: the route itself would bring all to length one.
    as_model_says: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<Dtype>,
}

/// The body of `/v1/embeddings`.
#[derive(Serialize)]
#[serde(bound = "")]
struct OfOpenAi<'texts, T: Text> {
    input: Texts<'texts, T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'texts str>,
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_dtype: Option<Dtype>,
}

struct Texts<'texts, T>(&'texts [T]);

impl<T: Text> Serialize for Texts<'_, T> {
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
