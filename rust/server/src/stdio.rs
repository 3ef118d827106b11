//! `pullquote mcp`: the tools of `/mcp` over standard input and output, and files for them.
//!
//! A tool's work is that of the route `/mcp`: of a server, or of the routes in this process, which then need no socket.
//! This module adds `files`: it reads them, and sends their texts with those of the call. It ends with its input, or at
//! a signal; its log is on standard error.

mod backend;
mod files;

use std::path::PathBuf;
use std::sync::Arc;

use pullquote_core::engine::Engine;
use pullquote_core::error::{Error, ErrorKind, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::log;
use crate::net::shutdown::Signals;
use crate::router::runtime;
use crate::routes::mcp::{SOME_FAILED, Sources, ToolAnswer, server_config, tools};
use crate::settings::Settings;
use backend::Backend;
use files::{FileText, Files};

/// What agents may do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Files below these may be read; without any, the tool takes no files.
    pub folders: Vec<PathBuf>,
    /// Whether the tool takes addresses of web pages, which the server fetches.
    pub fetch: bool,
    /// The server that computes; `None` for this process.
    pub server: Option<ServerSettings>,
}

impl AgentSettings {
    /// Reads what the command line says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an unknown or missing setting, and for one of another type.
    pub fn read(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
    }
}

/// A server that computes in place of this process.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    pub url: String,
    pub api_key: Option<String>,
    /// A file with the only trusted certificate authorities, in PEM.
    pub ca_certs: Option<PathBuf>,
    /// In seconds.
    pub timeout: f64,
}

/// Serves an agent over standard input and output until the input ends, or a signal comes. `engine` computes if
/// `agents` names no server.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a folder that is missing, and for `fetch` without a server.
pub fn serve_agent(settings: Settings, engine: Option<Arc<Engine>>, agents: &AgentSettings) -> Result<()> {
    let invalid = |message: &str| Error::new(ErrorKind::InvalidArgument, message);
    if agents.fetch && agents.server.is_none() {
        return Err(invalid(
            "fetch needs a server, which must run with --fetch; its guard keeps private addresses out",
        ));
    }
    let _log = log::start(&settings)?;
    let files = Files::new(&agents.folders, &settings)?;
    let sources = Sources { files: files.is_some(), urls: agents.fetch, stored: agents.server.is_some() };
    let runtime = runtime(&settings)?;
    let backend = match (&agents.server, engine) {
        (Some(server), _) => Backend::server(server)?,
        (None, Some(engine)) => Backend::local(settings, engine)?,
        (None, None) => return Err(invalid("without a server, there must be a model")),
    };
    let agent = AgentTools { tools: tools(sources).into(), fetches: agents.fetch, files, backend };
    runtime.block_on(async {
        let failed = |error: std::io::Error| Error::new(ErrorKind::Internal, format!("no signals: {error}"));
        let mut signals = Signals::listen().map_err(failed)?;
        let served = async {
            match agent.serve(stdio_pipes()).await {
                Ok(running) => drop(running.waiting().await),
                Err(error) => tracing::warn!(%error, "the agent did not begin"),
            }
        };
        tokio::select! {
            () = served => {}
            () = signals.next() => {}
        }
        Ok(())
    })?;
    // A read of standard input may still wait.
    runtime.shutdown_background();
    Ok(())
}

/// The tools, as the SDK calls them.
struct AgentTools {
    tools: Arc<[Tool]>,
    fetches: bool,
    /// `None` without folders.
    files: Option<Files>,
    backend: Backend,
}

impl ServerHandler for AgentTools {
    fn get_info(&self) -> ServerConfig {
        server_config()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = call.arguments.unwrap_or_default();
        let work = async {
            match call.name.as_ref() {
                "highlights" => self.highlights(arguments).await,
                name if self.get_tool(name).is_some() => self.backend.call(name, arguments).await,
                name => Err(format!("Unknown tool: {name}")),
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the agent cancelled the call", None)),
        };
        Ok(done.unwrap_or_else(|message| CallToolResult::error(vec![ContentBlock::text(message)])).into())
    }
}

impl AgentTools {
    /// The passages of the call's sources. The texts of its files come after its own texts.
    async fn highlights(&self, mut arguments: JsonObject) -> Result<CallToolResult, String> {
        let Self { fetches, files, .. } = self;
        for (name, is_taken, advice) in [
            ("urls", *fetches, "no pages are fetched here; pullquote mcp --server URL --fetch lets the server do it"),
            (
                "files",
                files.is_some(),
                "no files are read here; pass their texts, or let the agent run: pullquote mcp --folder DIR",
            ),
        ] {
            // An agent that knows the server's tool would take a source that is left out for one without an answer.
            if !is_taken && arguments.remove(name).is_some_and(|value| !(value.is_null() || value == json!([]))) {
                return Err(format!("{name}: {advice}"));
            }
        }
        let names = arguments.remove("files").unwrap_or_default();
        let names: Option<Vec<String>> =
            serde_json::from_value(names).map_err(|error| format!("files: it must be a list of paths: {error}"))?;
        let (Some(files), Some(names)) = (files, names.filter(|names| !names.is_empty())) else {
            return self.backend.call("highlights", arguments).await;
        };
        let (read, failed) = files.read(&names).await?;
        let texts = arguments.entry("texts").or_insert(Value::Null);
        if texts.is_null() {
            *texts = json!([]);
        }
        let mut first = 0;
        // A value that is no list is the caller's mistake, which the backend names.
        if let Value::Array(texts) = texts {
            first = texts.len();
            texts.extend(read.iter().map(|file| file.document.text.as_str().into()));
            let has_urls = arguments.get("urls").and_then(Value::as_array).is_some_and(|urls| !urls.is_empty());
            if first + read.len() == 0 && !has_urls && !failed.is_empty() {
                return Ok(CallToolResult::structured(json!(ToolAnswer::unread(failed))));
            }
        }
        let found = self.backend.call("highlights", arguments).await?;
        let Some(Value::Object(mut answer)) = found.structured_content else { return Ok(found) };
        for passage in answer.get_mut("passages").and_then(Value::as_array_mut).into_iter().flatten() {
            name_file(passage, first, &read);
        }
        if let Some(Value::String(note)) = answer.get_mut("note")
            && !(note.is_empty() || failed.is_empty() || note.ends_with(SOME_FAILED))
        {
            note.push_str(SOME_FAILED);
        }
        let of_backend = answer.remove("failed").unwrap_or_default();
        let all = failed.iter().map(|file| json!(file)).chain(of_backend.as_array().into_iter().flatten().cloned());
        answer.insert("failed".to_owned(), all.collect());
        Ok(CallToolResult::structured(answer.into()))
    }
}

/// Gives a passage the name and the page of its file, in place of the number of a text from `first` on.
fn name_file(passage: &mut Value, first: usize, files: &[FileText]) {
    let number =
        passage["source"].as_str().and_then(|name| name.strip_prefix("texts[")?.strip_suffix(']')?.parse().ok());
    let Some(file) = number.and_then(|number: usize| files.get(number.checked_sub(first)?)) else { return };
    let start = passage["start"].as_u64().and_then(|start| usize::try_from(start).ok());
    passage["page"] = json!(start.and_then(|start| file.document.page_number(start)));
    passage["source"] = json!(file.name);
}
