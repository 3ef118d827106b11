//! The application: state that all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pullquote_core::encoder::model::{Model, ModelOptions};
use pullquote_core::engine::Engine;
use pullquote_core::error::Result;

use crate::fetch::upstream::Upstream;
use crate::fetch::{FetchLimits, Fetcher};
use crate::http::admission::Admission;
use crate::http::auth::Keys;
use crate::http::health::Health;
use crate::http::host_check::Hosts;
use crate::http::metrics::Metrics;
use crate::http::otel::Exporter;
use crate::http::route_table::RouteTable;
use crate::net::listener::Address;
use crate::openapi::{self, Facts};
use crate::routes::mcp::{self, McpService};
use crate::settings::Settings;
use crate::store::Store;
use crate::uploads::parser::Parser;

/// State that all requests share. Lives until the last connection has ended.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) engine: Arc<Engine>,
    /// If it says that vectors have unit length, [`Encoding`](crate::routes::encoding::Encoding) normalizes them: the
    /// encoder was loaded without the normalization at the model's end.
    pub(crate) model: Model,
    pub(crate) admission: Admission,
    pub(crate) store: Store,
    /// `None` without `--fetch`.
    pub(crate) fetcher: Option<Fetcher>,
    pub(crate) parser: Parser,
    /// `None` if searches use the store.
    pub(crate) upstream: Option<Upstream>,
    pub(crate) mcp: McpService,
    /// Shared with the task that reloads their file.
    pub(crate) keys: Arc<Keys>,
    pub(crate) hosts: Hosts,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    /// `None` without an OTLP endpoint.
    pub(crate) exporter: Option<Exporter>,
    pub(crate) document: Bytes,
    pub(crate) routes: RouteTable,
    /// In seconds since 1970.
    pub(crate) started: u64,
    stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(settings: Settings, engine: Arc<Engine>, address: &Address) -> Result<Self> {
        let options = ModelOptions { truncate_dim: settings.truncate_dim, ..ModelOptions::default() };
        let model = Model::read_with(&settings.model_directory, &options)?;
        let keys = Arc::new(Keys::read(&settings)?);
        let facts = Facts {
            settings: &settings,
            has_keys: keys.are_required(),
            dimension: engine.spec().dimension,
            max_tokens: engine.max_tokens(),
        };
        let document = openapi::document(&facts);
        let admission = Admission::new(&settings);
        let reads_files = !settings.document_parser.is_empty();
        let fetcher = || Fetcher::new(FetchLimits::of(&settings), &admission.bodies, reads_files);
        let fetcher = settings.fetch.then(fetcher).transpose()?;
        Ok(Self {
            model,
            store: Store::open(&settings)?,
            hosts: Hosts::read(&settings, address, keys.are_required())?,
            keys,
            document: document.to_string().into(),
            routes: openapi::route_table(),
            fetcher,
            parser: Parser::new(&settings),
            admission,
            upstream: Upstream::new(&settings)?,
            mcp: mcp::service(&settings),
            health: Health::default(),
            metrics: Metrics::new(),
            exporter: Exporter::new(&settings)?,
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            settings,
            engine,
            stopping: AtomicBool::new(false),
        })
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
