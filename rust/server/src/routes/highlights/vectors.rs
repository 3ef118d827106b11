//! The vectors of passages and queries, in the JSON or as bytes after it.
//!
//! A passage's vector is that of its own text, as from `/embed`, and not that of the window that found it, which is
//! larger than the passage. So each passage is encoded once more. All vectors have length one.

use std::fmt::Write;

use axum::http::{HeaderName, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pullquote_core::engine::Work;
use pullquote_core::error::ErrorKind;
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use pullquote_wire::request::VectorEncoding;
use pullquote_wire::result::Vector;
use uuid::Uuid;

use crate::app::App;
use crate::http::answer::WrittenAnswer;
use crate::http::dtype::{VALUE_BYTES, pack};
use crate::http::failure::{Cause, Failure};
use crate::http::input::{Input, RequestControl};
use crate::http::reply::Reply;
use crate::http::vector_headers::{OCTETS, headers};
use crate::routes::openai::check_json_dtype;
use crate::routes::vector_stream::VectorStream;
use crate::routes::vectors;

/// The content type of an answer with vectors after the JSON.
pub(crate) const FORM: &str = "multipart/form-data";

/// How the response has its vectors, if at all.
#[derive(Clone, Copy)]
pub(super) enum VectorFormat {
    Numbers,
    Base64(EmbeddingDtype),
    Bytes(EmbeddingDtype),
}

pub(super) enum ReturnedVectors {
    Written { passages: Written, queries: Written },
    Bytes(BinaryVectors),
}

/// Vectors that stand in JSON.
pub(super) enum Written {
    Numbers { values: Vec<f32>, dimension: usize },
    Base64(Vec<String>),
}

/// Vectors that come as bytes.
pub(super) struct BinaryVectors {
    dtype: EmbeddingDtype,
    dimension: usize,
    passages: Bytes,
    queries: Bytes,
}

impl VectorFormat {
    /// The format by a request's fields and its `Accept`, if it has vectors.
    pub(super) fn read(
        are_wanted: bool,
        format: VectorEncoding,
        dtype: Option<EmbeddingDtype>,
        as_form: bool,
    ) -> Result<Option<Self>, Failure> {
        let dtype = dtype.unwrap_or_default();
        if !are_wanted {
            return Ok(None);
        }
        Ok(Some(match format {
            _ if as_form => Self::Bytes(dtype),
            VectorEncoding::Base64 => Self::Base64(dtype),
            VectorEncoding::Float => {
                check_json_dtype(dtype)?;
                Self::Numbers
            }
        }))
    }

    /// Encodes passages and queries, and adds that to `work`.
    pub(super) fn encode(
        self,
        app: &App,
        passages: &[&str],
        queries: &[&str],
        end: &RequestControl,
        work: &mut Work,
    ) -> Result<ReturnedVectors, Failure> {
        let mut encode = |texts: &[&str], role| {
            let vectors = VectorStream::of(app, texts, role, end.clone())?.normalized(Some(true)).whole()?;
            work.encoded += texts.len();
            work.tokens += vectors.work.tokens;
            Ok::<_, Failure>(vectors)
        };
        let passages = encode(passages, Role::Passage)?;
        let queries = encode(queries, Role::Query)?;
        let dimension = passages.dimension;
        Ok(match self {
            Self::Numbers => {
                let write = |vectors: vectors::Vectors| Written::Numbers { values: vectors.values, dimension };
                ReturnedVectors::Written { passages: write(passages), queries: write(queries) }
            }
            Self::Base64(dtype) => {
                let write = |vectors: vectors::Vectors| {
                    let packed = pack(dtype, vectors.values, dimension);
                    let rows = packed.chunks_exact(dtype.row_bytes(dimension));
                    Written::Base64(rows.map(|row| STANDARD.encode(row)).collect())
                };
                ReturnedVectors::Written { passages: write(passages), queries: write(queries) }
            }
            Self::Bytes(dtype) => ReturnedVectors::Bytes(BinaryVectors {
                dtype,
                dimension,
                passages: pack(dtype, passages.values, dimension),
                queries: pack(dtype, queries.values, dimension),
            }),
        })
    }
}

/// The bytes of this number of vectors and their JSON, if an answer may have as many.
pub(super) fn check(app: &App, input: &Input, rows: usize) -> Result<usize, Failure> {
    let row_bytes = app.engine.spec().dimension * VALUE_BYTES;
    let (bytes, most) = (rows * row_bytes, input.memory.max_answer_bytes());
    if bytes > most {
        let message = format!(
            "the answer would have {rows} vectors, and this server returns at most {} in one; use less of top_k, or send \
             fewer documents at once",
            most / row_bytes
        );
        let cause = Cause::Core(ErrorKind::InvalidArgument);
        return Err(Failure::of_field(cause, "return_vectors", message));
    }
    Ok(bytes)
}

impl Written {
    pub(super) fn rows(&self) -> impl Iterator<Item = Vector<'_>> {
        (0..).map_while(|row| self.row(row))
    }

    pub(super) fn row(&self, row: usize) -> Option<Vector<'_>> {
        match self {
            Self::Numbers { values, dimension } => {
                values.chunks_exact(*dimension).nth(row).map(|row| Vector::Numbers(row.into()))
            }
            Self::Base64(rows) => rows.get(row).map(|row| Vector::Base64(row.into())),
        }
    }
}

impl BinaryVectors {
    /// The answer with three parts: the JSON, the passages' vectors in the order in which it has them, and the
    /// queries'.
    pub(super) fn form(self, answer: WrittenAnswer, work: Work) -> Reply {
        let boundary = format!("pullquote-{}", Uuid::new_v4().simple());
        let mut form = WrittenAnswer::default();
        let mut part = |name: &str,
                        content_type: &str,
                        headers: &[(HeaderName, HeaderValue)],
                        content: WrittenAnswer| {
            let mut head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\ncontent-type: {content_type}\r\n"
            );
            for (name, value) in headers {
                let _ = write!(head, "{name}: {}\r\n", value.to_str().unwrap_or_default());
            }
            let _ = write!(head, "content-length: {}\r\n\r\n", content.len());
            form.push(head);
            form.append(content);
            form.push(Bytes::from_static(b"\r\n"));
        };
        part("highlights", "application/json", &[], answer);
        for (name, vectors) in [("vectors", self.passages), ("queries", self.queries)] {
            let rows = vectors.len() / self.dtype.row_bytes(self.dimension);
            let mut content = WrittenAnswer::default();
            content.push(vectors);
            part(name, OCTETS, &headers(rows, self.dimension, self.dtype.into()), content);
        }
        form.push(format!("--{boundary}--\r\n"));
        let content_type =
            HeaderValue::from_str(&format!("{FORM}; boundary={boundary}")).unwrap_or(HeaderValue::from_static(FORM));
        Reply { headers: vec![(header::CONTENT_TYPE, content_type)], ..Reply::new(FORM, form.into_body(), work) }
    }
}
