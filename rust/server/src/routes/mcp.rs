//! `POST /mcp`: the Model Context Protocol over streamable HTTP, by its official SDK, for agents.
//!
//! `highlights` reads the texts and addresses of its call, `locate` checks a quote of a text, `cite` the
//! sentences of an answer; `search` and `fetch` are
//! over this server's stored documents. Every request stands alone: there are no sessions, and each answer is one JSON
//! document. `crate::stdio` has the same tools over standard input and output.
//!
//! The SDK reads the protocol only. As on other routes, the server admits the request and reads its body first. A
//! tool's work waits for its permit: the SDK carries the request's [`Exchange`] to the tool and back.

mod cite;
pub(super) mod failure;
mod highlights;
mod locate;
mod stored;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Collected, Full};
use pullquote_core::engine::Work;
use pullquote_core::engine::option_values::similar;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::sync::lock;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use self::cite::{CiteArguments, Sentences};
use self::failure::MCP;
pub(crate) use self::highlights::{FailedSource, SOME_FAILED, ToolAnswer};
use self::highlights::{HighlightsArguments, highlights};
use self::locate::{LocateArguments, Places};
use self::stored::{FetchArguments, Page, SearchArguments, SearchResults, fetch, search};
use crate::app::App;
use crate::http::admission::Admitted;
use crate::http::body::{check_content_type, parse_value};
use crate::http::failure::{Cause, Failure, internal, refused};
use crate::http::host_check::check_origin;
use crate::http::input::Input;
use crate::http::reply::Reply;
use crate::routes::item_limits;
use crate::routes::route::{Api, Route};

const INSTRUCTIONS: &str = "Long texts, files and web pages need not be read in full: `highlights` returns the passages that \
    answer a question, word for word, with their places. Ask whole questions, and pass everything that may have the answer in \
    one call.";

/// What the SDK requires of `Accept`, although every answer here is JSON.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

type McpService = StreamableHttpService<Tools, NeverSessionManager>;

const API: Api = Api { tag: "mcp", errors: &MCP };

/// `fetches` is whether tools take addresses of web pages.
pub(super) fn routes(fetches: bool) -> Vec<Route> {
    let sdk = service(fetches);
    let exchange = async move |State(app): State<Arc<App>>, request: Request| exchange(&app, &sdk, request).await;
    let message = |description| json!({"type": "object", "description": description});
    let example = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "highlights",
            "arguments": {"query": "How is bread made?", "texts": ["The moon is white. Bread is baked from flour."]},
        },
    });
    vec![
        API.post("/mcp", exchange, "mcp", "Answer an agent")
            .described(
                "Streamable HTTP without sessions. The tools are `highlights`, `locate`, `cite`, and `search` and `fetch` over the stored \
                 documents; `tools/list` describes them. What an agent can correct is a result with `isError`.",
            )
            .reads(message("A JSON-RPC request or notification."), example)
            .writes_json("The JSON-RPC response.", message("A JSON-RPC response."))
            .writes(202, "The notification is accepted.", Vec::new())
            .fails(&[403, 404]),
    ]
}

/// The SDK's side.
fn service(fetches: bool) -> McpService {
    let tools = Tools(tools(Sources { files: false, urls: fetches, stored: true }).into());
    // The middleware checks hosts, the route checks origins, and the body is within its limit before the SDK sees it.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(usize::MAX);
    StreamableHttpService::new(move || Ok(tools.clone()), Arc::default(), config)
}

/// What the tools read besides texts.
#[derive(Clone, Copy)]
pub(crate) struct Sources {
    pub(crate) files: bool,
    /// Web pages.
    pub(crate) urls: bool,
    pub(crate) stored: bool,
}

pub(crate) fn tools(sources: Sources) -> Vec<Tool> {
    let tool = |name, title, description, open| {
        let annotations = ToolAnnotations::new().read_only(true).open_world(open);
        Tool::new(name, description, Arc::default()).with_title(title).with_annotations(annotations)
    };
    let description = "Find the passages that answer a question, word for word, in texts, files and web pages: much less to read \
                       than all.";
    let mut find = tool("highlights", "Find passages", description, sources.urls)
        .with_input_schema::<HighlightsArguments>()
        .with_output_schema::<ToolAnswer>();
    // Agents do not try what they do not see.
    if let Some(Value::Object(properties)) = Arc::make_mut(&mut find.input_schema).get_mut("properties") {
        properties.retain(|name, _| (name != "urls" || sources.urls) && (name != "files" || sources.files));
    }
    let description = "Check a quote: whether it stands in a text word for word, where, and what differs.";
    let locate = tool("locate", "Check a quote", description, false)
        .with_input_schema::<LocateArguments>()
        .with_output_schema::<Places>();
    let description = "Check a written answer against texts: for each sentence the passages that support it or that none does, and \
                       its numbers, dates and names that no passage has.";
    let cite = tool("cite", "Check an answer", description, false)
        .with_input_schema::<CiteArguments>()
        .with_output_schema::<Sentences>();
    if !sources.stored {
        return vec![find, locate, cite];
    }
    let description =
        "Search the stored documents; `fetch` reads one of the results, and `highlights` finds passages in texts.";
    let search = tool("search", "Search stored documents", description, false)
        .with_input_schema::<SearchArguments>()
        .with_output_schema::<SearchResults>();
    let fetch = tool("fetch", "Read a stored document", "Read a whole stored document.", false)
        .with_input_schema::<FetchArguments>()
        .with_output_schema::<Page>();
    vec![find, locate, cite, search, fetch]
}

pub(crate) fn server_config() -> ServerConfig {
    ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        .with_server_info(Implementation::new("pullquote", env!("CARGO_PKG_VERSION")))
        .with_instructions(INSTRUCTIONS)
}

/// A request while the SDK has it. The tool takes it, and returns it with the result.
#[derive(Clone)]
struct Exchange {
    app: Arc<App>,
    state: Arc<Mutex<ExchangeState>>,
}

struct ExchangeState {
    /// `None` while a tool works.
    admitted: Option<Admitted<App>>,
    /// For parsing the body; a tool takes memory of its own.
    parsing: Option<OwnedSemaphorePermit>,
    work: Work,
    /// Of the server itself, for its log; all others are results that the agent reads.
    failure: Option<Failure>,
}

impl Exchange {
    fn new(app: &Arc<App>, admitted: Admitted<App>) -> Result<Self, Failure> {
        let parsing = admitted.try_acquire_parsing()?;
        let state = ExchangeState { admitted: Some(admitted), parsing, work: Work::default(), failure: None };
        Ok(Self { app: Arc::clone(app), state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> MutexGuard<'_, ExchangeState> {
        lock(&self.state)
    }
}

async fn exchange(app: &Arc<App>, sdk: &McpService, request: Request) -> Result<Response, Failure> {
    check_origin(request.headers(), &app.settings.cors_origin)?;
    check_content_type(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let admitted = Admitted::admit(app, Request::from_parts(parts.clone(), body)).await?;
    let body = Full::new(admitted.body());
    let exchange = Exchange::new(app, admitted)?;
    parts.headers.insert(header::ACCEPT, ACCEPTED);
    parts.extensions.insert(exchange.clone());
    let mut handled = pin!(sdk.handle(Request::from_parts(parts, body)));
    // The SDK parses the body and writes the answer in here, which takes long for large ones.
    let response = poll_fn(|context| tokio::task::block_in_place(|| handled.as_mut().poll(context))).await;
    let (admitted, work, failure) = {
        let mut state = exchange.state();
        (state.admitted.take(), state.work, state.failure.take())
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    let (head, body) = response.into_parts();
    if !head.status.is_success() && !head.headers.contains_key(header::CONTENT_TYPE) {
        return Err(refused_by_sdk(head.status, body).await);
    }
    let admitted = admitted.ok_or_else(|| internal("the tool did not return its request"))?;
    Ok(admitted.respond(Reply { status: head.status, ..Reply::new("application/json", Body::new(body), work) }))
}

/// The arguments of a call of a tool, all of which it must know.
fn parse_arguments<T: DeserializeOwned + JsonSchema>(arguments: Value) -> Result<T, Failure> {
    let schema = schema_for!(T);
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let known: Vec<&str> = properties.map(|(name, _)| name.as_str()).collect();
    let given = arguments.as_object().into_iter().flatten();
    if let Some((name, _)) = given.into_iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let advice = similar(name, &known).map_or_else(
            || format!("the arguments are {}", known.join(", ")),
            |meant| format!("did you mean {meant:?}?"),
        );
        return refused(name.as_str(), format!("there is no argument {name:?}; {advice}"));
    }
    parse_value(arguments)
}

/// What the SDK refuses in plain text: a body that is not a message, or an unknown version of the protocol.
async fn refused_by_sdk(status: StatusCode, body: impl hyper::body::Body<Data = Bytes>) -> Failure {
    let text = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let cause = if status.is_server_error() { Cause::Core(ErrorKind::Internal) } else { Cause::Malformed };
    Failure::new(cause, format!("this is not a request of the Model Context Protocol: {text}"))
}

/// The tools, as the SDK calls them.
#[derive(Clone)]
struct Tools(Arc<[Tool]>);

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        server_config()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.to_vec()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || ErrorData::internal_error("the request is not the server's", None);
        let parts = context.extensions.get::<Parts>().ok_or_else(unknown)?;
        let exchange = parts.extensions.get::<Exchange>().cloned().ok_or_else(unknown)?;
        let mut admitted = {
            let mut state = exchange.state();
            state.parsing = None;
            state.admitted.take().ok_or_else(unknown)?
        };
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let work = async {
            let app = &exchange.app;
            match call.name.as_ref() {
                "highlights" => highlights(app, &mut admitted, arguments).await,
                "locate" => locate::find(&mut admitted, arguments).await,
                "cite" => cite::check(&mut admitted, arguments).await,
                "search" => search(&mut admitted, arguments).await,
                "fetch" => fetch(&mut admitted, arguments).await,
                name => Err(Failure::new(Cause::Core(ErrorKind::NotFound), format!("Unknown tool: {name}"))),
            }
        };
        let done = tokio::select! {
            done = work => done,
            // The client disconnected. Without its request, the work stops.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the client disconnected", None)),
        };
        let mut state = exchange.state();
        state.admitted = Some(admitted);
        let result = match done {
            Ok((result, work)) => {
                state.work = work;
                CallToolResult::structured(result)
            }
            Err(failure) if failure.is_internal() => {
                state.failure = Some(failure);
                return Err(ErrorData::internal_error("the server failed", None));
            }
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.message_with_field())]),
        };
        Ok(result.into())
    }
}

/// A tool's result as the SDK takes it, which writes it without a limit.
fn result(input: &Input, result: &impl serde::Serialize) -> Result<Value, Failure> {
    input.answer().json(result)?;
    serde_json::to_value(result).map_err(|error| crate::http::body::not_json(&error).into())
}

fn check_query(app: &App, query: &str) -> Result<(), Failure> {
    if query.trim().is_empty() {
        return refused("query", "it is empty; ask a whole question");
    }
    item_limits::check_query(query, "query", app.settings.max_query_bytes)
}
