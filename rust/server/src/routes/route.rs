//! A route: its path, its handler, the shape of its errors, the limit of its body, and its operation in the `OpenAPI`
//! document. Each API lists its routes in one table, from which the router, the document and the middleware read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::app::App;
use crate::http::admission::admit_and_run;
use crate::http::failure::{ErrorShape, Failure, refused};
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::http::route_table::Access;

pub(crate) const JSON: &str = "application/json";

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Another path, which the document does not have.
    pub(crate) alias: Option<&'static str>,
    pub(crate) handler: MethodRouter<Arc<App>>,
    pub(crate) errors: &'static ErrorShape,
    /// The most bytes of its body, if that is less than `--max-body-bytes`.
    pub(crate) body_limit: Option<usize>,
    pub(crate) access: Access,
    /// The operation's name in generated clients.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: String,
    /// Its parameters in the path and after it.
    pub(crate) parameters: Vec<Value>,
    /// The schema of the body, and an example.
    pub(crate) body: Option<(Value, Value)>,
    /// The schema of the form that it reads.
    pub(crate) form: Option<Value>,
    pub(crate) answers: Vec<SuccessAnswer>,
    pub(crate) work: Handling,
    /// Whether its answers have the headers of Text Embeddings Inference.
    pub(crate) has_tei_headers: bool,
    /// Statuses of failures besides those of `work`.
    pub(crate) failures: &'static [u16],
}

/// A successful answer.
pub(crate) struct SuccessAnswer {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    /// Schemas by content type; none without a body.
    pub(crate) content: Vec<(&'static str, Value)>,
}

/// How a route handles a request, which decides how it can fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handling {
    /// Answers without a permit.
    Immediate,
    /// Waits for a permit.
    Compute,
    /// Parses a body and waits for a permit.
    Parse,
}

impl Handling {
    pub(crate) const fn failures(self) -> &'static [u16] {
        match self {
            Self::Immediate => &[400, 401, 421, 503],
            Self::Compute => &[400, 401, 408, 413, 415, 421, 429, 500, 503, 504],
            Self::Parse => &[400, 401, 408, 413, 415, 421, 422, 429, 500, 503, 504],
        }
    }
}

/// What the routes of an API share.
#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) tag: &'static str,
    pub(super) errors: &'static ErrorShape,
}

impl Api {
    /// A `POST` route whose work runs on a blocking thread.
    pub(super) fn compute(
        self,
        path: &'static str,
        work: fn(&App, &Input) -> Result<Reply, Failure>,
        id: &'static str,
        summary: &'static str,
    ) -> Route {
        let handler =
            async move |State(app): State<Arc<App>>, request: Request| admit_and_run(&app, request, work).await;
        self.post(path, handler, id, summary)
    }

    /// `compute` for our own API: parameters after the path, which would have no effect, are refused. Clients of other
    /// servers send some.
    pub(super) fn compute_body(
        self,
        path: &'static str,
        work: fn(&App, &Input) -> Result<Reply, Failure>,
        id: &'static str,
        summary: &'static str,
    ) -> Route {
        let handler = async move |State(app): State<Arc<App>>, request: Request| {
            let [] = read_query(&request, [])?;
            admit_and_run(&app, request, work).await
        };
        self.post(path, handler, id, summary)
    }

    pub(super) fn get<T: 'static>(
        self,
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        id: &'static str,
        summary: &'static str,
    ) -> Route {
        self.route(Method::GET, path, on(MethodFilter::GET, handler), id, summary)
    }

    pub(super) fn post<T: 'static>(
        self,
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        id: &'static str,
        summary: &'static str,
    ) -> Route {
        self.route(Method::POST, path, on(MethodFilter::POST, handler), id, summary)
    }

    /// A route of any method.
    pub(super) fn route(
        self,
        method: Method,
        path: &'static str,
        handler: MethodRouter<Arc<App>>,
        id: &'static str,
        summary: &'static str,
    ) -> Route {
        Route {
            method,
            path,
            alias: None,
            handler,
            errors: self.errors,
            body_limit: None,
            access: Access::Keyed,
            id,
            tag: self.tag,
            summary,
            description: String::new(),
            parameters: Vec::new(),
            body: None,
            form: None,
            answers: Vec::new(),
            work: Handling::Immediate,
            has_tei_headers: false,
            failures: &[],
        }
    }
}

impl Route {
    pub(super) fn described(self, description: impl Into<String>) -> Self {
        Self { description: description.into(), ..self }
    }

    pub(super) fn reads(self, schema: Value, example: Value) -> Self {
        Self { body: Some((schema, example)), work: Handling::Parse, ..self }
    }

    pub(super) fn reads_form(self, request: &Value, files: &Value) -> Self {
        let form = json!({
            "type": "object",
            "required": ["file"],
            "properties": {
                "request": request,
                "file": files,
                "password": {"type": "string", "description": "Of encrypted PDFs."},
            },
            "additionalProperties": false,
        });
        Self { form: Some(form), work: Handling::Parse, ..self }
    }

    pub(super) fn writes(
        mut self,
        status: u16,
        description: &'static str,
        content: Vec<(&'static str, Value)>,
    ) -> Self {
        self.answers.push(SuccessAnswer { status, description, content });
        self
    }

    pub(super) fn writes_json(self, description: &'static str, schema: Value) -> Self {
        self.writes(200, description, vec![(JSON, schema)])
    }

    pub(super) fn with_tei_headers(self) -> Self {
        Self { has_tei_headers: true, ..self }
    }

    pub(super) fn fails(self, failures: &'static [u16]) -> Self {
        Self { failures, ..self }
    }
}

/// The values of the parameters after a path, each at most once. A route without any refuses them: an option there would have no effect.
pub(super) fn read_query<const N: usize>(request: &Request, names: [&str; N]) -> Result<[Option<String>; N], Failure> {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
        let Some(index) = names.iter().position(|known| *known == name) else {
            let known = match names.join(", ") {
                none if none.is_empty() => "options are fields of the body".to_owned(),
                names => format!("the parameters are {names}"),
            };
            let message = format!("there is no parameter {name:?}; {known}");
            return refused(name, message);
        };
        if values[index].replace(value.into_owned()).is_some() {
            return refused(name, "pass it once");
        }
    }
    Ok(values)
}
