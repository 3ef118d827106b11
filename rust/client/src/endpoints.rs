//! Endpoints: the servers that are asked, by how much each has to do; one that does not answer is left alone for a while.
//!
//! Nobody knocks at a server that is out: when its time is over, one request is its trial, and what fails there is tried
//! elsewhere. Where all are out, the one that has been out the longest is asked, because somebody has to be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::error::Result;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Proxy};
use url::Url;

use crate::direct::Direct;
use crate::settings::{Settings, invalid};

/// How long a server is left alone after its first failure; it doubles with each.
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// All servers.
pub(crate) struct Endpoints(Vec<Endpoint>);

/// A server.
pub(crate) struct Endpoint {
    /// What it is called in messages: its address, which holds no secret.
    pub(crate) name: String,
    pub(crate) http: Client,
    /// The way of raw vectors, where nothing stands between the socket and HTTP.
    pub(crate) direct: Option<Direct>,
    /// What paths are appended to, without a slash at its end.
    pub(crate) base: String,
    /// Requests that are on their way there.
    outstanding: AtomicUsize,
    health: Mutex<Health>,
}

#[derive(Default)]
struct Health {
    /// Since it last answered.
    failures: u32,
    /// Until when it is left alone.
    out_until: Option<Instant>,
}

/// A request that is on its way to a server.
pub(crate) struct InFlight<'endpoints> {
    pub(crate) endpoint: &'endpoints Endpoint,
    pub(crate) index: usize,
}

impl Endpoints {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        settings.urls.iter().map(|url| Endpoint::new(url, settings)).collect::<Result<_>>().map(Self)
    }

    /// Whether all addresses end where `OpenAI`'s do.
    pub(crate) fn are_openai(&self) -> bool {
        self.0.iter().all(|endpoint| endpoint.base.ends_with("/v1"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }

    /// The server that has the least to do; not `avoided`, if there is another.
    pub(crate) fn turn(&self, avoided: Option<usize>) -> InFlight<'_> {
        let now = Instant::now();
        // Of equals, another one each time.
        let first = fastrand::usize(..self.0.len());
        let order = (0..self.0.len()).map(|place| (first + place) % self.0.len());
        let rank = |index: &usize| {
            let endpoint = &self.0[*index];
            let rest = endpoint.rest(now);
            (rest, Some(*index) == avoided, endpoint.outstanding.load(Ordering::Relaxed))
        };
        let index = order.min_by_key(rank).unwrap_or_default();
        let endpoint = &self.0[index];
        endpoint.outstanding.fetch_add(1, Ordering::Relaxed);
        endpoint.begin_trial(now);
        InFlight { endpoint, index }
    }
}

impl Endpoint {
    fn new(address: &str, settings: &Settings) -> Result<Self> {
        // An error says that there is one already, which is this one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let connect_timeout = pullquote_core::engine::options::seconds(settings.connect_timeout)?;
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
        let mut direct = None;
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
                return Err(invalid(
                    "a url must have no name and no password in it; pass the key as api_key, or headers",
                ));
            }
            if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
                return Err(wrong());
            }
            is_secure = url.scheme() == "https";
            if !is_secure && settings.proxy.is_none() {
                direct = Direct::new(&url, connect_timeout, settings.max_in_flight);
            }
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
            // The system's certificates are read only where one is looked at: a small container has none.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            use std::error::Error;
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            invalid(format!("cannot ask {name}: {cause}"))
        })?;
        Ok(Self { name, http, direct, base, outstanding: AtomicUsize::new(0), health: Mutex::default() })
    }

    /// Closes connections that nobody uses.
    pub(crate) fn close(&self) {
        self.direct.iter().for_each(Direct::close);
    }

    /// How long it is still left alone.
    fn rest(&self, now: Instant) -> Duration {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.out_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// One request tries a server whose time is over; until it is answered, the others stay away.
    fn begin_trial(&self, now: Instant) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if health.out_until.is_some() {
            health.out_until = Some(now + rest_after(health.failures));
        }
    }

    pub(crate) fn answered(&self) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if health.failures > 0 {
            *health = Health::default();
        }
    }

    pub(crate) fn failed(&self) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.failures = health.failures.saturating_add(1);
        health.out_until = Some(Instant::now() + rest_after(health.failures));
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.endpoint.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

fn rest_after(failures: u32) -> Duration {
    FIRST_REST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_REST)
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
