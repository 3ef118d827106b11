//! Endpoints: the servers of a client. Each request goes to the least busy one; a circuit breaker excludes a server
//! that fails.
//!
//! After a delay, one request probes the server. A request that fails on a server is retried on another one. If all are
//! excluded, it goes to the one whose delay ends first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pullquote_core::error::Result;
use pullquote_core::runtime::sync::lock;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Proxy};
use url::Url;

use crate::settings::{Settings, invalid};

/// How long the circuit stays open after a first failure; it doubles with each.
const INITIAL_OPEN_TIME: Duration = Duration::from_millis(500);
const MAX_OPEN_TIME: Duration = Duration::from_secs(30);

pub(crate) struct Endpoints(Vec<Endpoint>);

pub(crate) struct Endpoint {
    /// For messages: its address, which holds no secret.
    pub(crate) name: String,
    pub(crate) http: Client,
    /// Paths are appended to it; it has no slash at its end.
    pub(crate) base: String,
    in_flight: AtomicUsize,
    breaker: Mutex<CircuitBreaker>,
}

#[derive(Default)]
struct CircuitBreaker {
    /// Since the last success.
    failures: u32,
    open_until: Option<Instant>,
}

pub(crate) struct InFlightRequest<'endpoints> {
    pub(crate) endpoint: &'endpoints Endpoint,
    pub(crate) index: usize,
}

impl Endpoints {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        if settings.url.is_empty() {
            return Err(invalid("url is an empty list; name at least one server, like \"http://127.0.0.1:8080\""));
        }
        settings.url.iter().map(|url| Endpoint::new(url, settings)).collect::<Result<_>>().map(Self)
    }

    /// Whether all addresses end like `OpenAI`'s.
    pub(crate) fn are_openai(&self) -> bool {
        self.0.iter().all(|endpoint| endpoint.base.ends_with("/v1"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }

    /// The least busy server; not `avoided`, if there is another.
    pub(crate) fn pick(&self, avoided: Option<usize>) -> InFlightRequest<'_> {
        let now = Instant::now();
        // A random one among equals.
        let first = fastrand::usize(..self.0.len());
        let order = (0..self.0.len()).map(|place| (first + place) % self.0.len());
        let rank = |index: &usize| {
            let endpoint = &self.0[*index];
            let delay = endpoint.open_time_left(now);
            (delay, Some(*index) == avoided, endpoint.in_flight.load(Ordering::Relaxed))
        };
        let index = order.min_by_key(rank).unwrap_or_default();
        let endpoint = &self.0[index];
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint.half_open(now);
        InFlightRequest { endpoint, index }
    }
}

impl Endpoint {
    fn new(address: &str, settings: &Settings) -> Result<Self> {
        // It fails if it was done before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let connect_timeout = settings.connect_timeout;
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .referer(false)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_proxy()
            .connect_timeout(connect_timeout)
            .pool_max_idle_per_host(settings.max_in_flight);
        let mut name = address.trim_end_matches('/').to_owned();
        let mut base = name.clone();
        let mut is_secure = false;
        if let Some(path) = address.strip_prefix("unix:") {
            "http://localhost".clone_into(&mut base);
            builder = over_socket(builder, path)?;
        } else {
            let wrong = || {
                invalid(format!(
                    "url must be like \"http://host:8080\" or \"unix:/run/pullquote.sock\", not {address:?}"
                ))
            };
            let url = Url::parse(address).map_err(|_| wrong())?;
            if !url.username().is_empty() || url.password().is_some() {
                return Err(invalid("a url must not contain a name or password; pass the key as api_key, or headers"));
            }
            if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
                return Err(wrong());
            }
            is_secure = url.scheme() == "https";
            url.as_str().trim_end_matches('/').clone_into(&mut base);
            name.clone_from(&base);
        }
        if let Some(proxy) = &settings.proxy {
            let wrong =
                |_| invalid("proxy must be like \"http://host:3128\", perhaps with user:password@ before the host");
            builder = builder.proxy(Proxy::all(proxy).map_err(wrong)?);
            is_secure |= proxy.starts_with("https:");
        }
        if let Some(pem) = &settings.ca_certs {
            let roots = Certificate::from_pem_bundle(pem.as_bytes());
            let wrong = |_| invalid("ca_certs must name a file of certificates in PEM");
            let roots = roots.map_err(wrong)?;
            if roots.is_empty() {
                return Err(invalid("ca_certs names a file without a certificate in PEM"));
            }
            builder = builder.tls_certs_only(roots);
        } else if !is_secure {
            // Without TLS, the system's certificates are not read: a small container has none.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            use std::error::Error;
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            invalid(format!("cannot connect to {name}: {cause}"))
        })?;
        Ok(Self { name, http, base, in_flight: AtomicUsize::new(0), breaker: Mutex::default() })
    }

    fn open_time_left(&self, now: Instant) -> Duration {
        self.breaker().open_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Lets one request through an open circuit; it stays open for others until that one succeeds.
    fn half_open(&self, now: Instant) {
        let mut breaker = self.breaker();
        if breaker.open_until.is_some() {
            breaker.open_until = Some(now + open_time(breaker.failures));
        }
    }

    pub(crate) fn record_success(&self) {
        let mut breaker = self.breaker();
        if breaker.failures > 0 {
            *breaker = CircuitBreaker::default();
        }
    }

    pub(crate) fn record_failure(&self) {
        let mut breaker = self.breaker();
        breaker.failures = breaker.failures.saturating_add(1);
        breaker.open_until = Some(Instant::now() + open_time(breaker.failures));
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock(&self.breaker)
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open_time(failures: u32) -> Duration {
    INITIAL_OPEN_TIME.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_OPEN_TIME)
}

#[cfg(unix)]
fn over_socket(builder: reqwest::ClientBuilder, path: &str) -> Result<reqwest::ClientBuilder> {
    let path = if path.starts_with("///") { &path[2..] } else { path };
    if !path.starts_with('/') {
        return Err(invalid(format!(
            "a Unix socket is named by its whole path, like \"unix:/run/pullquote.sock\", not {path:?}"
        )));
    }
    Ok(builder.unix_socket(path))
}

#[cfg(not(unix))]
fn over_socket(_: reqwest::ClientBuilder, _: &str) -> Result<reqwest::ClientBuilder> {
    Err(invalid("this system has no Unix sockets; name the server like \"http://host:8080\""))
}
