//! Settings: everything that can be told to a server.
//!
//! `python/pullquote/_cli/serve_command.py` names each as an option of `pullquote serve`, gives its default and says what it does:
//! only there.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use pullquote_core::engine::options::seconds;
use pullquote_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer};

use crate::serde_messages::in_words;

/// What was asked for on the command line. Not `Debug`: keys are in it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub uds: Option<PathBuf>,
    #[serde(deserialize_with = "mode")]
    pub uds_mode: u32,
    pub model_name: String,
    pub served_model_name: Vec<String>,
    pub url_prefix: String,
    pub model_directory: PathBuf,
    /// As the encoder was loaded.
    pub truncate_dim: Option<usize>,
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub header_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub body_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub write_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub shutdown_timeout: Duration,
    pub max_connections: usize,
    pub max_header_bytes: usize,
    pub max_body_bytes: usize,
    pub max_concurrent: usize,
    pub max_queue: usize,
    pub max_queue_bytes: usize,
    pub max_documents: usize,
    pub max_document_bytes: usize,
    pub max_queries: usize,
    pub max_inputs: usize,
    pub store: Option<PathBuf>,
    pub store_documents: usize,
    pub store_bytes: usize,
    /// The program that reads uploaded files, and its arguments.
    pub document_parser: Vec<String>,
    pub upload_max_pages: usize,
    pub upload_max_memory: usize,
    #[serde(deserialize_with = "duration")]
    pub upload_timeout: Duration,
    pub upload_processes: usize,
    pub fetch: bool,
    #[serde(deserialize_with = "networks")]
    pub fetch_allow: Vec<IpNet>,
    pub fetch_max_bytes: usize,
    pub fetch_redirects: usize,
    #[serde(deserialize_with = "duration")]
    pub fetch_timeout: Duration,
    pub upstream: Option<String>,
    pub upstream_key: Option<String>,
    pub api_key: Vec<String>,
    pub api_keys_file: Option<PathBuf>,
    pub protect_all: bool,
    pub cors_origin: Vec<String>,
    pub allowed_host: Vec<String>,
    pub log_level: String,
    pub otlp_endpoint: Option<String>,
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Settings {
    /// Reads what the command line says.
    pub fn read(json: &str) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let settings: Self = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(json))
            .map_err(|error| invalid(explain(&error.path().to_string(), &in_words(error.inner()))))?;
        let at_least = [
            ("max_connections", settings.max_connections, 1),
            ("max_concurrent", settings.max_concurrent, 1),
            // Less than hyper reads at once.
            ("max_header_bytes", settings.max_header_bytes, 8192),
            ("max_body_bytes", settings.max_body_bytes, 1024),
            ("max_documents", settings.max_documents, 1),
            ("max_document_bytes", settings.max_document_bytes, 1),
            ("max_queries", settings.max_queries, 1),
            ("max_inputs", settings.max_inputs, 1),
            ("fetch_max_bytes", settings.fetch_max_bytes, 1),
            ("upload_max_pages", settings.upload_max_pages, 1),
            ("upload_processes", settings.upload_processes, 1),
        ];
        for (name, value, least) in at_least {
            if value < least {
                return Err(invalid(format!("{name} must be at least {least}, not {value}")));
            }
        }
        if settings.max_queue_bytes < settings.max_body_bytes {
            return Err(invalid(format!(
                "max_queue_bytes must be at least max_body_bytes, {}, not {}: else the largest body never fits",
                settings.max_body_bytes, settings.max_queue_bytes
            )));
        }
        let path = settings.url_prefix.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
        let is_path = path.starts_with('/') && !path.contains("//") && path.bytes().all(is_plain);
        if !matches!(path, "" | "/v1") && (!is_path || path.starts_with("/v1/") || path.starts_with("/v2")) {
            return Err(invalid(format!(
                "url_prefix must be a path such as /api, and not under /v1 or /v2, not {:?}",
                settings.url_prefix
            )));
        }
        Ok(settings)
    }
}

/// What is wrong with a setting: its name, what it must be, and its value.
fn explain(name: &str, message: &str) -> String {
    if let Some(rest) = message.strip_prefix("timeout must ").or_else(|| message.strip_prefix("must ")) {
        return format!("{name} must {rest}");
    }
    let parts = ["invalid value: ", "invalid type: "].iter().find_map(|start| message.strip_prefix(start));
    match parts.and_then(|parts| parts.split_once(", expected ")) {
        // As "integer `99999`".
        Some((value, expected)) => {
            format!("{name} must be {expected}, not {}", value.split('`').nth(1).unwrap_or(value))
        }
        None => format!("{name}: {message}"),
    }
}

/// The longest time: some of them are added to the clock, which must be able to hold that.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    seconds(f64::deserialize(deserializer)?).map(|time| time.min(LONGEST)).map_err(serde::de::Error::custom)
}

/// Permissions as `chmod` takes them, in octal digits.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let digits = String::deserialize(deserializer)?;
    let mode = u32::from_str_radix(&digits, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| serde::de::Error::custom(format!("must be three octal digits like 660, not {digits:?}")))
}

/// Networks in the notation of `10.1.0.0/16`.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let read = |text: String| {
        let wrong = || serde::de::Error::custom(format!("must be a network like 10.1.0.0/16, not {text:?}"));
        text.parse().map_err(|_| wrong())
    };
    Vec::<String>::deserialize(deserializer)?.into_iter().map(read).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Settings that can be, with a change.
    pub(crate) fn settings(change: &Value) -> Result<Settings> {
        let mut settings = json!({
            "host": "127.0.0.1", "port": 0, "uds": null, "uds_mode": "600", "model_name": "m", "served_model_name": [], "url_prefix": "", "model_directory": "m",
            "timeout": 60, "header_timeout": 30, "body_timeout": 1e300, "write_timeout": 30, "shutdown_timeout": 75,
            "max_connections": 1, "max_header_bytes": 8192, "max_body_bytes": 1024, "max_concurrent": 1, "max_queue": 0,
            "max_queue_bytes": 1024, "max_documents": 1, "max_document_bytes": 1, "max_queries": 1, "max_inputs": 1,
            "store": null, "store_documents": 1, "store_bytes": 1, "fetch": false, "fetch_allow": [],
            "fetch_max_bytes": 1, "fetch_redirects": 0, "fetch_timeout": 10, "upstream": null, "upstream_key": null,
            "api_key": [], "api_keys_file": null, "protect_all": false, "cors_origin": [], "allowed_host": [],
            "otlp_endpoint": null, "log_level": "info", "log_format": "json",
        });
        let uploads = json!({
            "document_parser": [], "upload_max_pages": 1, "upload_max_memory": 1, "upload_timeout": 10, "upload_processes": 1,
        });
        for (name, value) in uploads.as_object().unwrap().iter().chain(change.as_object().unwrap()) {
            settings[name] = value.clone();
        }
        Settings::read(&settings.to_string())
    }

    #[test]
    fn invalid_setting_is_named() {
        assert!(settings(&json!({})).is_ok());
        for (change, names) in [
            (json!({"max_concurrent": 0}), &["max_concurrent", "0"][..]),
            (json!({"max_header_bytes": 100}), &["max_header_bytes", "8192", "100"]),
            (json!({"max_queue_bytes": 5}), &["max_queue_bytes", "max_body_bytes"]),
            (json!({"header_timeout": 0}), &["header_timeout", "0 seconds"]),
            (json!({"uds_mode": "rw"}), &["uds_mode", "660", "rw"]),
            (json!({"port": 70_000}), &["port", "65535", "70000"]),
            (json!({"max_body_bytes": -1}), &["max_body_bytes", "-1", "whole number"]),
            (json!({"fetch_allow": ["10.0.0.0/33"]}), &["fetch_allow", "10.0.0.0/33"]),
            (json!({"log_format": "xml"}), &["log_format", "xml"]),
            (json!({"url_prefix": "api"}), &["url_prefix", "api"]),
            (json!({"url_prefix": "/v2/x"}), &["url_prefix", "/v2/x"]),
        ] {
            let error = settings(&change).err().expect("a setting is invalid");
            assert!(names.iter().all(|name| error.message().contains(name)), "{error}");
            assert!(!error.message().contains(" at line "), "{error}");
        }
    }
}
