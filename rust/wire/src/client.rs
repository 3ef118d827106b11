//! The settings of `Client` and `AsyncClient`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schema::ByteCount;

crate::settings! {
    /// The settings of a client. Not `Debug`: a key is in it.
    pub struct ClientSettings {
        ["use a server" for "highlight cite embed mcp"]

        /// Address of `pullquote serve`, such as `http://127.0.0.1:8080` or `unix:/run/pullquote.sock`; or a list of servers with
        /// the same model.
        ///
        /// Each request goes to the least busy server, and servers that fail are skipped for a while. `embed` also works with
        /// servers that have Text Embeddings Inference's `/embed` or OpenAI's API, whose URL may end in `/v1`.
        #[schemars(extend(
            "x-python" = "str | Sequence[str]", "x-default" = "required", "x-flag" = "--server", "x-metavar" = "URL",
            "x-help" = "Address of pullquote serve, such as http://127.0.0.1:8080 or unix:/run/pullquote.sock; repeatable."
        ))]
        url: Vec<String> = Vec::new(),
        /// The server's key, sent as `Authorization: Bearer`.
        #[schemars(extend("format" = "password", "x-metavar" = "KEY", "x-env" = "PULLQUOTE_API_KEY"))]
        api_key: Option<String> = None,
        /// PEM file with the only trusted certificate authorities.
        #[schemars(extend("x-python" = "str | Path | None", "x-metavar" = "PATH", "x-default" = "the system's"))]
        ca_certs: Option<String> = None,

        ["requests" for ""]

        /// Sent with every request.
        #[schemars(extend("x-python" = "Mapping[str, str] | None"))]
        headers: Option<BTreeMap<String, String>> = None,
        /// The model's name, which OpenAI's API requires.
        model: Option<String> = None,
        /// Seconds for one HTTP request.
        ///
        /// The server reads it too, as `Request-Timeout-Ms`. A call's own `timeout` is for all of its requests.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0, "x-commands" = "mcp"))]
        timeout: Duration = Duration::from_secs(60),
        /// Seconds for connecting.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        connect_timeout: Duration = Duration::from_secs(10),
        /// Maximum concurrent requests of all callers.
        #[schemars(range(min = 1))]
        max_in_flight: usize = 16,
        /// Maximum texts of one request for vectors; more texts are split over several requests.
        #[schemars(range(min = 1))]
        rows_per_request: usize = 256,
        /// Maximum bytes of UTF-8 of one request for vectors.
        #[schemars(range(min = 1))]
        #[schemars(with = "ByteCount")]
        bytes_per_request: usize = 1024 * 1024,
        /// Maximum bytes of a JSON answer. The shape of vectors bounds binary answers.
        #[schemars(range(min = 1))]
        #[schemars(with = "ByteCount")]
        max_answer_bytes: usize = 256 * 1024 * 1024,
        /// Maximum retries of a request after 408, 429, 502, 503, 504, a broken connection, or its `timeout`.
        ///
        /// Retries wait a random, growing time, and at least the server's `Retry-After`.
        retries: u32 = 3,
        /// Maximum share of retries among all requests, beyond ten in ten seconds.
        #[schemars(range(min = 0, max = 1))]
        retry_budget: f64 = 0.2,
        /// Proxy, such as `http://host:3128`; environment variables are ignored.
        proxy: Option<String> = None,
        /// Type in which the server sends vectors that are returned as float32: `float32`, `float16` or `bfloat16`.
        wire_dtype: WireDtype = WireDtype::Float32,
    }
}

/// A type that converts to float32 without a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum WireDtype {
    #[default]
    Float32,
    Float16,
    Bfloat16,
}
