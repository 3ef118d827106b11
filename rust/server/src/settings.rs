//! The settings of a server, which `pullquote_wire::server` documents, and what they must be together.

use ipnet::IpNet;
use pullquote_core::error::{Error, ErrorKind, Result};
pub use pullquote_wire::server::{LogFormat, ServerSettings as Settings};

/// Checks what the type and the range of each field cannot say.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    if settings.max_queue_bytes < settings.max_body_bytes {
        return Err(invalid(format!(
            "max_queue_bytes must be at least max_body_bytes, {}, not {}: else the largest body never fits",
            settings.max_body_bytes, settings.max_queue_bytes
        )));
    }
    if settings.max_key_requests.is_some() && settings.api_key.is_empty() && settings.api_keys_file.is_none() {
        return Err(invalid(
            "max_key_requests counts the requests of each key, and needs api_key or api_keys_file".to_owned(),
        ));
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
    networks(&settings.fetch_allow).map(drop)
}

/// Networks in the notation of `10.1.0.0/16`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for another notation.
pub(crate) fn networks(texts: &[String]) -> Result<Vec<IpNet>> {
    let wrong = |text| invalid(format!("fetch_allow must be a network like 10.1.0.0/16, not {text:?}"));
    texts.iter().map(|text| text.parse().map_err(|_| wrong(text))).collect()
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
pub(crate) mod tests {
    use pullquote_core::engine::option_values::read_settings;
    use serde_json::{Value, json};

    use super::*;

    /// Settings that a server can have, with a change.
    pub(crate) fn settings(change: &Value) -> Result<Settings> {
        let change = change.as_object().expect("an object").clone();
        let settings = read_settings(change.into_iter().map(|(name, value)| (name, value.into())));
        let settings = settings.map_err(pullquote_core::engine::option_values::OptionError::into_error)?;
        check(&settings)?;
        Ok(settings)
    }

    #[test]
    fn invalid_setting_is_named() {
        assert!(settings(&json!({"body_timeout": 1e300})).is_ok());
        for (change, names) in [
            (json!({"max_concurrent": 0}), &["max_concurrent", "0"][..]),
            (json!({"max_header_bytes": 100}), &["max_header_bytes", "8192", "100"]),
            (json!({"max_queue_bytes": 5}), &["max_queue_bytes", "max_body_bytes"]),
            (json!({"api_key": ["a", " "]}), &["api_key", "empty"]),
            (json!({"upstream_key": ""}), &["upstream_key", "empty"]),
            (json!({"max_key_requests": 5}), &["max_key_requests", "api_key"]),
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
        }
    }
}
