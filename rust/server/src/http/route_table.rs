//! What is known of a path before its route runs: the format of its errors, and whether it needs a key.

use std::collections::{HashMap, HashSet};

use axum::http::Method;

use crate::http::failure::ErrorFormat;

#[derive(Default)]
pub(crate) struct RouteTable {
    formats: HashMap<&'static str, ErrorFormat>,
    /// Paths that `GET` and `HEAD` read without a key.
    open: HashSet<&'static str>,
}

impl RouteTable {
    pub(crate) fn insert(&mut self, path: &'static str, errors: ErrorFormat, is_open: bool) {
        self.formats.entry(path).or_insert(errors);
        if is_open {
            self.open.insert(path);
        }
    }

    pub(crate) fn error_format(&self, path: &str) -> ErrorFormat {
        // `routes::exa` explains the two slashes.
        let path = if path.starts_with("//") { &path[1..] } else { path };
        let of_other = if path.starts_with("/v1/") { ErrorFormat::OpenAi } else { ErrorFormat::Native };
        self.formats.get(path).copied().unwrap_or(of_other)
    }

    pub(crate) fn is_open(&self, method: &Method, path: &str) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && self.open.contains(path)
    }
}
