//! What is known of a path before its route runs: the shape of its errors, and whether it needs a key.

use std::collections::{HashMap, HashSet};

use axum::http::Method;

use crate::http::failure::ErrorShape;

pub(crate) struct RouteTable {
    pub(crate) errors: HashMap<&'static str, &'static ErrorShape>,
    /// The shape for paths that have parameters or no route.
    pub(crate) other_errors: fn(&str) -> &'static ErrorShape,
    /// Paths that `GET` and `HEAD` read without a key.
    pub(crate) open: HashSet<&'static str>,
}

impl RouteTable {
    pub(crate) fn errors(&self, path: &str) -> &'static ErrorShape {
        self.errors.get(path).copied().unwrap_or_else(|| (self.other_errors)(path))
    }

    pub(crate) fn is_open(&self, method: &Method, path: &str) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && self.open.contains(path)
    }
}
