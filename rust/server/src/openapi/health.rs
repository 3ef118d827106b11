//! `/live`, `/health`, `/metrics`, and the routes that show this document.

use serde_json::{Value, json};

use super::{Answer, Facts, Operation, count, exact, json_answer, schema};
use crate::http::metrics::CONTENT_TYPE;
use crate::routes::page::{FILES, File, HTML};

pub(super) fn operations(_: &Facts) -> Vec<Operation> {
    let operation = |path, id, summary, answers| Operation::new("get", path, id, "server", summary, answers);
    let text =
        |description, kind| Answer { status: 200, description, content: vec![(kind, json!({"type": "string"}))] };
    let page = |file: &File, (id, summary)| {
        let known = Answer { status: 304, description: "The client has it (`if-none-match`).", content: Vec::new() };
        operation(file.path, id, summary, vec![text("For a browser.", file.content_type), known])
    };
    let names = [
        ("page", "A page to try it"),
        ("pageStyle", "Its style"),
        ("pageScript", "Its script"),
        ("pageIcon", "Its icon"),
    ];
    let mut operations = vec![
        operation("/live", "live", "Whether the process answers at all", json_answer("It does.", schema("Live"))),
        Operation {
            description: "Proven by a request that encoded something in the last two seconds, or else by a probe."
                .to_owned(),
            ..operation(
                "/health",
                "health",
                "Whether texts are being encoded",
                json_answer("They are.", schema("Health")),
            )
        },
        Operation {
            failures: &[500],
            ..operation("/metrics", "metrics", "What the server counts", vec![text("For Prometheus.", CONTENT_TYPE)])
        },
        operation(
            "/openapi.json",
            "openapi",
            "This document",
            json_answer("OpenAPI 3.1, with this server's own limits.", json!({"type": "object"})),
        ),
        operation("/docs", "docs", "This document, to be read", vec![text("A page.", HTML)]),
    ];
    operations.extend(FILES.iter().zip(names).map(|(file, name)| page(file, name)));
    operations
}

pub(super) fn schemas(_: &Facts) -> Vec<(&'static str, Value)> {
    let yes = json!({"const": true});
    let device = json!({
        "name": {"type": "string"},
        "working": {"type": "boolean", "description": "False while it rests because it failed; the others do its work."},
        "failures": count("Batches that failed there; the others did them again."),
    });
    let devices = json!({"type": "array", "items": schema("Device")});
    vec![
        ("Device", exact(&device)),
        ("Live", exact(&json!({"live": yes}))),
        ("Health", exact(&json!({"healthy": yes, "devices": devices}))),
    ]
}
