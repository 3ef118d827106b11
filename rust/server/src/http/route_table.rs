//! What is known of a path before its route runs: the shape of its errors, and whether it needs a key.

use std::collections::HashMap;

use axum::http::Method;

use crate::http::failure::ErrorShape;

/// Which routes need a key, where the server has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Keyed,
    /// Needs a key with `--protect-all` only.
    Open,
    /// Needs none: the page at `/`, on which the key is entered.
    Public,
}

pub(crate) struct RouteTable {
    pub(crate) errors: HashMap<&'static str, &'static ErrorShape>,
    /// The shape for paths that have parameters or no route.
    pub(crate) other_errors: fn(&str) -> &'static ErrorShape,
    /// Paths that `GET` and `HEAD` may read without a key.
    pub(crate) open: HashMap<&'static str, Access>,
}

impl RouteTable {
    pub(crate) fn errors(&self, path: &str) -> &'static ErrorShape {
        self.errors.get(path).copied().unwrap_or_else(|| (self.other_errors)(path))
    }

    pub(crate) fn is_open(&self, method: &Method, path: &str, protect_all: bool) -> bool {
        let access = self.open.get(path).copied().unwrap_or(Access::Keyed);
        matches!(*method, Method::GET | Method::HEAD) && access.needs_no_key(protect_all)
    }
}

impl Access {
    pub(crate) fn needs_no_key(self, protect_all: bool) -> bool {
        self == Self::Public || (self == Self::Open && !protect_all)
    }
}
