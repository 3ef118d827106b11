//! Errors before the SDK reads a request, as errors of JSON-RPC.

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::failure::{Cause, ErrorShape, Failure, error_body};

pub(crate) static MCP: ErrorShape = ErrorShape {
    name: "Mcp",
    status: Failure::status_without_422,
    body: |failure, _| {
        let row = failure.cause.row();
        let data = McpErrorData { kind: &row.name, retryable: row.retryable };
        let (code, message) = (json_rpc_code(failure.cause), failure.message_with_field());
        let error = McpError { code, message: &message, data: Some(data) };
        error_body(&McpFailure { jsonrpc: "2.0", id: None, error })
    },
    schema: |_, generator| generator.subschema_for::<McpFailure>(),
};

#[derive(Serialize, JsonSchema)]
struct McpFailure<'failure> {
    #[schemars(extend("const" = "2.0"))]
    jsonrpc: &'static str,
    /// Of the request; null or absent if the server refuses the request before it reads its id.
    #[schemars(extend("type" = ["string", "integer", "null"]))]
    #[serde(default)]
    id: Option<&'static str>,
    error: McpError<'failure>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct McpError<'failure> {
    code: i32,
    /// What failed, on which value, and what would work.
    message: &'failure str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<McpErrorData<'failure>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct McpErrorData<'failure> {
    /// For programs to compare.
    #[schemars(extend("enum" = Cause::names()))]
    kind: &'failure str,
    /// Whether the same request may succeed later.
    retryable: bool,
}

/// JSON-RPC's codes: parse error, internal error, invalid request.
fn json_rpc_code(cause: Cause) -> i32 {
    match cause {
        Cause::Malformed => -32_700,
        _ if cause.row().status.is_server_error() => -32_603,
        _ => -32_600,
    }
}
