//! The application: state that the routes share.

use std::sync::Arc;

use bytes::Bytes;
use pullquote_core::encoder::model::{Model, ModelOptions};
use pullquote_core::engine::Engine;
use pullquote_core::error::Result;

use crate::fetch::upstream::Upstream;
use crate::fetch::{FetchLimits, Fetcher};
use crate::http::admission::{Admission, Admits};
use crate::http::health::Health;
use crate::http::metrics::Metrics;
use crate::http::otel::Exporter;
use crate::http::unix_time;
use crate::settings::Settings;
use crate::store::Store;
use crate::uploads::parser::Parser;

/// State that the routes share. Lives until the last connection has ended.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) engine: Arc<Engine>,
    /// If it says that vectors have unit length, `routes::vector_stream` normalizes them: the encoder was loaded without the
    /// normalization at the model's end.
    pub(crate) model: Model,
    pub(crate) admission: Admission,
    pub(crate) store: Store,
    /// `None` without `--fetch`.
    pub(crate) fetcher: Option<Fetcher>,
    pub(crate) parser: Parser,
    /// `None` if searches use the store.
    pub(crate) upstream: Option<Upstream>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` without an OTLP endpoint.
    pub(crate) exporter: Option<Arc<Exporter>>,
    /// The `OpenAPI` document.
    pub(crate) document: Bytes,
    /// In seconds since 1970.
    pub(crate) started: u64,
}

impl App {
    /// `has_keys` is whether requests need a key.
    pub(crate) fn new(settings: Settings, engine: Arc<Engine>, has_keys: bool, document: Bytes) -> Result<Self> {
        let options = ModelOptions { truncate_dim: settings.truncate_dim, ..ModelOptions::default() };
        let health = Health::new(Arc::clone(&engine));
        let exporter = Exporter::new(&settings)?.map(Arc::new);
        let admission = Admission::new(&settings, Arc::clone(&health), exporter.clone());
        let bodies = &admission.bodies.memory;
        let fetcher = || Fetcher::new(FetchLimits::of(&settings)?, bodies);
        Ok(Self {
            model: Model::read_with(&settings.model_directory, &options)?,
            store: Store::open(&settings)?,
            fetcher: settings.fetch.then(fetcher).transpose()?,
            parser: Parser::new(&settings),
            upstream: Upstream::new(&settings, has_keys, bodies)?,
            admission,
            health,
            metrics: Arc::new(Metrics::new()),
            exporter,
            document,
            started: unix_time().as_secs(),
            settings,
            engine,
        })
    }
}

impl App {
    /// See [`Engine::model_id`]; `None` for files that cannot be read any more, too.
    pub(crate) async fn model_id(&self) -> Option<String> {
        self.read_id(Engine::model_id).await
    }

    /// See [`Engine::pruner_id`].
    pub(crate) async fn pruner_id(&self) -> Option<String> {
        self.read_id(Engine::pruner_id).await
    }

    /// See [`Engine::reranker_id`].
    pub(crate) async fn reranker_id(&self) -> Option<String> {
        self.read_id(Engine::reranker_id).await
    }

    async fn read_id(&self, id: fn(&Engine) -> Result<Option<&str>>) -> Option<String> {
        let engine = Arc::clone(&self.engine);
        let id = move || id(&engine).ok().flatten().map(str::to_owned);
        tokio::task::spawn_blocking(id).await.ok().flatten()
    }
}

impl Admits for App {
    fn admission(&self) -> &Admission {
        &self.admission
    }
}
