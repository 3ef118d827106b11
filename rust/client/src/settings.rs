//! The settings of `Client(...)`, as JSON from `python/pullquote/client.py`, which has their defaults and documents
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::engine::options::seconds;
use pullquote_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub urls: Vec<String>,
    pub api_key: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub model: Option<String>,
    pub timeout: f64,
    pub connect_timeout: f64,
    pub max_in_flight: usize,
    pub rows_per_request: usize,
    pub bytes_per_request: usize,
    pub max_answer_bytes: usize,
    pub retries: u32,
    pub retry_budget: f32,
    pub proxy: Option<String>,
    /// PEM.
    pub ca_certs: Option<String>,
    pub wire_dtype: EmbeddingDtype,
}

impl Settings {
    /// Reads settings.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with the name of a setting, and without the JSON: it may contain a key.
    pub fn read(json: &str) -> Result<Self> {
        let settings: Self =
            serde_json::from_str(json).map_err(|error| invalid(format!("a setting is wrong: {error}")))?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        if self.urls.is_empty() {
            return Err(invalid("url is an empty list; name at least one server, like \"http://127.0.0.1:8080\""));
        }
        let counts = [
            ("max_in_flight", self.max_in_flight),
            ("rows_per_request", self.rows_per_request),
            ("bytes_per_request", self.bytes_per_request),
            ("max_answer_bytes", self.max_answer_bytes),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(invalid(format!("{name} must be at least 1, not 0")));
        }
        if !(0.0..=1.0).contains(&self.retry_budget) {
            return Err(invalid(format!("retry_budget must be from 0.0 to 1.0, not {}", self.retry_budget)));
        }
        if !self.wire_dtype.is_float() {
            let name = self.wire_dtype.name();
            return Err(invalid(format!(
                "wire_dtype must be \"float32\", \"float16\" or \"bfloat16\", which become float32 again, not {name:?}; \
                 embed(..., embedding_dtype={name:?}) returns it"
            )));
        }
        seconds(self.timeout)?;
        seconds(self.connect_timeout)?;
        Ok(())
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        seconds(self.timeout).unwrap_or(Duration::MAX)
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
