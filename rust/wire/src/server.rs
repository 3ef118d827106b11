//! The settings of `pullquote serve`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schema::ByteCount;

const MEBIBYTE: usize = 1024 * 1024;

crate::settings! {
    /// The settings of a server. Not `Debug`: keys are in it.
    pub struct ServerSettings {
        ["address" for "serve"]

        /// Address to listen on; 0.0.0.0 is every address of this machine.
        host: String = "127.0.0.1".to_owned(),
        /// Port; 0 picks a free one, which the first line of output shows.
        #[schemars(range(max = 65535))]
        port: u16 = 8080,
        /// Listen on a Unix socket instead, whose file the server creates and removes.
        #[schemars(extend("x-metavar" = "PATH"))]
        uds: Option<PathBuf> = None,
        /// Permissions of that file, as chmod takes them; clients need write permission.
        #[serde(with = "octal")]
        #[schemars(with = "String")]
        uds_mode: u32 = 0o600,
        /// Name of the model in answers.
        #[schemars(extend("x-metavar" = "NAME", "x-default" = "that of its directory"))]
        model_name: String = String::new(),
        /// Another name that requests may give the model, or * for all; repeatable. Requests for other models get 404.
        #[schemars(extend("x-metavar" = "NAME"))]
        served_model_name: Vec<String> = Vec::new(),
        /// Path under which all routes are as well, such as /v1 or /api.
        #[schemars(extend("x-metavar" = "PATH", "x-default" = "none"))]
        url_prefix: String = String::new(),

        ["timeouts, in seconds" for "serve"]

        /// Time for a request, from its first line; clients may shorten it (Request-Timeout-Ms).
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        timeout: Duration = Duration::from_secs(60),
        /// Time for a request's headers, and idle time between two requests of a connection.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        header_timeout: Duration = Duration::from_secs(30),
        /// Time for a request's body.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        body_timeout: Duration = Duration::from_secs(30),
        /// Time without progress while a client reads a response; then the server closes the connection.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        write_timeout: Duration = Duration::from_secs(30),
        /// Time to finish accepted requests, after the first SIGTERM.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        shutdown_timeout: Duration = Duration::from_secs(75),

        ["limits" for "serve"]

        /// Open connections; excess connections get 503.
        ///
        /// The system keeps up to 1,024 more until the server accepts them. Half as many bodies, or as many as requests may
        /// queue and run, are read at the same time; above that, the slowest get 408.
        #[schemars(range(min = 1))]
        max_connections: usize = 2048,
        /// Bytes of a request's headers, of which there may be 4,000; more get 431. Over HTTP/2, each header counts 32 bytes
        /// more.
        // hyper reads 8192 at once.
        #[schemars(range(min = 8192))]
        #[schemars(with = "ByteCount")]
        max_header_bytes: usize = 32 * 1024,
        /// Bytes of a request's body; larger ones get 413.
        #[schemars(range(min = 1024))]
        #[schemars(with = "ByteCount")]
        max_body_bytes: usize = 32 * MEBIBYTE,
        /// Requests in progress, which share batches.
        #[schemars(range(min = 1))]
        max_concurrent: usize = 64,
        /// How much lower the priority of threads that compute is than that of threads that answer, on Linux: 0 to 19.
        ///
        /// Small requests are then answered sooner while large ones compute. Programs of the same session or control group come
        /// first as well: on a busy core, 10 leaves a tenth to the computing, and 5 a quarter. Services of systemd and
        /// containers are groups of their own, which lose nothing to others.
        #[schemars(range(min = 0, max = 19))]
        nice: i32 = 10,
        /// Queued requests; excess requests get 429.
        max_queue: usize = 512,
        /// Queued and running requests of one key; excess requests get 429, and those of other keys do not.
        #[schemars(range(min = 1), extend("x-default" = "no limit"))]
        max_key_requests: Option<usize> = None,
        /// Bytes of the bodies of queued and running requests and of the texts that they name, and as many of answers that
        /// clients have not read; excess requests get 429.
        ///
        /// Bodies that are being read count as they arrive. At the limit, the slowest of them get 408.
        #[schemars(with = "ByteCount")]
        max_queue_bytes: usize = 256 * MEBIBYTE,
        /// Bytes of memory that the process may use. Running requests count at up to 160 times their bytes; those that do not
        /// fit wait, and one that never will gets 413.
        #[schemars(range(min = 1), extend("x-default" = "those of the machine or its container"))]
        #[schemars(with = "Option<ByteCount>")]
        max_memory_bytes: Option<usize> = None,
        /// Documents of a request; more get 422.
        #[schemars(range(min = 1))]
        max_documents: usize = 1000,
        /// Bytes of UTF-8 of a document; more get 422.
        #[schemars(range(min = 1))]
        #[schemars(with = "ByteCount")]
        max_document_bytes: usize = 8 * MEBIBYTE,
        /// Queries of a request; more get 422.
        #[schemars(range(min = 1))]
        max_queries: usize = 64,
        /// Bytes of UTF-8 of a query; more get 422.
        #[schemars(range(min = 1))]
        #[schemars(with = "ByteCount")]
        max_query_bytes: usize = 64 * 1024,
        /// Texts of a request for vectors; more get 422.
        #[schemars(range(min = 1))]
        max_inputs: usize = 2048,

        ["stored documents" for "serve"]

        /// SQLite file for stored documents.
        #[schemars(extend("x-metavar" = "PATH", "x-default" = "in memory"))]
        store: Option<PathBuf> = None,
        /// Maximum number of stored documents; excess documents get 507, and none is evicted.
        store_documents: usize = 100_000,
        /// Maximum bytes of ids, titles and texts of stored documents; excess documents get 507.
        #[schemars(with = "ByteCount")]
        store_bytes: usize = 256 * MEBIBYTE,

        ["uploaded files" for "serve"]

        /// Pages of a PDF; more get 413.
        #[schemars(range(min = 1))]
        upload_max_pages: usize = 5000,
        /// Bytes of memory of the process that reads a file; more get 413.
        #[schemars(with = "ByteCount")]
        upload_max_memory: usize = 4096 * MEBIBYTE,
        /// Seconds in which a file must be read; then 504.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        upload_timeout: Duration = Duration::from_secs(60),
        /// Processes that read files at the same time.
        #[schemars(range(min = 1))]
        upload_processes: usize = 4,

        ["fetched pages" for "serve highlight"]

        /// Fetch pages that /contents names by URL; otherwise it has stored documents only.
        #[schemars(extend("x-commands" = "serve", "x-docs" = "security.md#fetching"))]
        fetch: bool = false,
        /// Private network to fetch from, such as 10.1.0.0/16; repeatable.
        #[schemars(extend("x-metavar" = "NETWORK"))]
        fetch_allow: Vec<String> = Vec::new(),
        /// Maximum bytes of a page, decompressed.
        ///
        /// On a server, a larger page has a status instead, as has one with more redirects or a late one.
        #[schemars(range(min = 1))]
        #[schemars(with = "ByteCount")]
        fetch_max_bytes: usize = 5 * MEBIBYTE,
        /// Maximum redirects of a page.
        fetch_redirects: usize = 5,
        /// Seconds for a page, and on a server for all pages of a request.
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
        fetch_timeout: Duration = Duration::from_secs(10),
        /// URL of the search service for /search, such as `https://api.exa.ai`; this server adds highlights.
        #[schemars(extend("x-commands" = "serve", "x-metavar" = "URL"))]
        upstream: Option<String> = None,
        /// Key of that service.
        #[schemars(extend(
            "format" = "password", "x-commands" = "serve", "x-metavar" = "KEY", "x-env" = "PULLQUOTE_UPSTREAM_KEY",
            "x-default" = "the client's key, if this server needs none"
        ))]
        upstream_key: Option<String> = None,

        ["access" for "serve"]

        /// Valid key; repeatable. Without keys, every client has access. Other users of the machine cannot see the environment
        /// variable.
        #[schemars(extend("format" = "password", "x-metavar" = "KEY", "x-env" = "PULLQUOTE_API_KEY"))]
        api_key: Vec<String> = Vec::new(),
        /// File with a key in each line, read again when it changes.
        #[schemars(extend("x-metavar" = "PATH"))]
        api_keys_file: Option<PathBuf> = None,
        /// Require a key for /docs, /openapi.json, /live, /health, /v1/health, /ping and /metrics too. Only the page for
        /// browsers, which asks for the key, is open.
        protect_all: bool = false,
        /// Origin whose pages may call this server, or *; repeatable.
        #[schemars(extend("x-metavar" = "ORIGIN"))]
        cors_origin: Vec<String> = Vec::new(),
        /// Host name for requests, or *; repeatable. On a loopback address without keys, other names than localhost get 421, so
        /// that no website can reach this server through a visitor's browser.
        #[schemars(extend("x-metavar" = "HOST", "x-docs" = "security.md#host-names"))]
        allowed_host: Vec<String> = Vec::new(),

        ["logs and traces" for "serve"]

        /// Minimum level of log lines on standard error.
        #[schemars(extend("enum" = ["off", "error", "warn", "info", "debug", "trace"]))]
        log_level: String = "info".to_owned(),
        /// Format of log lines.
        log_format: LogFormat = LogFormat::Text,
        /// OpenTelemetry collector for a span of each request, such as `http://localhost:4318` (OTLP over HTTP).
        #[schemars(extend("x-metavar" = "URL"))]
        otlp_endpoint: Option<String> = None,

        ["" for ""]

        /// Directory of the model that is served.
        model_directory: PathBuf = PathBuf::new(),
        /// Values of its vectors, as the encoder was loaded.
        truncate_dim: Option<usize> = None,
        /// The program that reads uploaded files, and its arguments.
        document_parser: Vec<String> = Vec::new(),
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Permissions as `chmod` takes them.
mod octal {
    use super::Deserialize;
    use serde::de::{Deserializer, Error};
    use serde::ser::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
    pub(super) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{mode:o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let mode = u32::from_str_radix(&digits, 8).ok().filter(|mode| *mode <= 0o777);
        mode.ok_or_else(|| D::Error::custom("three octal digits like 660"))
    }
}
