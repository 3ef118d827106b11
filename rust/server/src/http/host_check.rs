//! The `Host` names that a server accepts, and the origins where a browser would not ask first.
//!
//! A page can point its own name to 127.0.0.1 ("DNS rebinding"); the browser then lets it read the answers of a server
//! there. The page cannot change the `Host` header, which has its own name. So a loopback server without keys answers
//! to addresses, `localhost` and `--allowed-host` only. Other servers check the header if `--allowed-host` is given.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::http::failure::{Cause, Failure};
use crate::net::listener::Address;
use crate::settings::Settings;

/// The allowed names in lower case; `None` allows all.
pub(crate) struct Hosts(Option<Vec<String>>);

impl Hosts {
    pub(crate) fn read(settings: &Settings, address: &Address, has_keys: bool) -> Result<Self> {
        let given = &settings.allowed_host;
        if given.iter().any(|host| host == "*") {
            return Ok(Self(None));
        }
        let names = given.iter().map(|host| name(host)).collect::<Result<Vec<String>>>()?;
        // Browsers do not reach Unix sockets.
        let is_loopback = matches!(address, Address::Tcp(address) if address.ip().to_canonical().is_loopback());
        let is_open = is_loopback && !has_keys;
        Ok(Self((is_open || !names.is_empty()).then_some(names)))
    }

    /// Whether a request is for this server. Requests without a host are not from browsers.
    pub(crate) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(names) = &self.0 else { return true };
        let of_headers = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok());
        let mut hosts = uri.authority().map(|authority| Some(authority.as_str())).into_iter().chain(of_headers);
        hosts.all(|host| host.is_some_and(|host| knows(names, host)))
    }
}

fn knows(names: &[String], host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    host == "localhost" || address.parse::<IpAddr>().is_ok() || names.contains(&host)
}

/// Refuses requests of pages of other sites, except those of `--cors-origin`. For routes that a browser calls without
/// asking the server first (CORS), and for `/mcp`, whose specification demands it.
pub(crate) fn check_origin(headers: &HeaderMap, allowed: &[String]) -> Result<(), Failure> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN.as_str()) else { return Ok(()) };
    let is_own = match text("sec-fetch-site") {
        Some(site) => matches!(site, "same-origin" | "none"),
        None => origin.split_once("://").is_some_and(|(_, host)| Some(host) == text(header::HOST.as_str())),
    };
    if is_own || allowed.iter().any(|known| known == "*" || known.trim_end_matches('/') == origin) {
        return Ok(());
    }
    let message = format!("this route is closed to other sites; --cors-origin {origin} opens it to this one");
    Err(Failure::new(Cause::WrongOrigin, message))
}

fn name(given: &str) -> Result<String> {
    let is_name =
        |host: &Authority| host.port().is_none() && !host.as_str().contains('@') && given.len() == host.host().len();
    match given.parse::<Authority>() {
        Ok(host) if is_name(&host) => Ok(host.host().trim_end_matches('.').to_ascii_lowercase()),
        _ => {
            let message = format!("allowed_host must be * or a name like example.com, without a port, not {given:?}");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(names: &[&str], host: &str) -> bool {
        let hosts = Hosts(Some(names.iter().map(|given| name(given).unwrap()).collect()));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        hosts.allow(&Uri::from_static("/live"), &headers)
    }

    #[test]
    fn addresses_localhost_and_allowed_hosts_are_accepted() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "192.168.0.1", "localhost:80", "LocalHost."]
        {
            assert!(allow(&[], host), "{host}");
        }
        assert!(allow(&["Example.com"], "example.COM:8080"));
        for host in
            ["example.com", "localhost.example.com", "127.0.0.1.example.com", "a b", "", "localhost@evil.example"]
        {
            assert!(!allow(&["www.example.com"], host), "{host}");
        }
    }

    #[test]
    fn every_named_host_must_be_allowed() {
        let hosts = Hosts(Some(Vec::new()));
        let mut headers = HeaderMap::new();
        assert!(hosts.allow(&Uri::from_static("/live"), &headers));
        assert!(!hosts.allow(&Uri::from_static("http://example.com/live"), &headers));
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert!(hosts.allow(&Uri::from_static("/live"), &headers));
        headers.append(header::HOST, "example.com".parse().unwrap());
        assert!(!hosts.allow(&Uri::from_static("/live"), &headers));
        assert!(Hosts(None).allow(&Uri::from_static("/live"), &headers));
    }

    #[test]
    fn invalid_allowed_host_is_refused() {
        for given in ["", "example.com:80", "https://example.com", "a@b", "a b"] {
            let error = name(given).unwrap_err();
            assert!(error.message().contains("allowed_host") && error.message().contains(given), "{error}");
        }
    }

    #[test]
    fn other_origins_are_refused() {
        let check = |headers: &[(&'static str, &str)], allowed: &[String]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
            check_origin(&headers, allowed).is_ok()
        };
        assert!(check(&[], &[]));
        let own = [("origin", "http://localhost:8080"), ("host", "localhost:8080")];
        let other = [("origin", "https://evil.example"), ("host", "localhost:8080")];
        assert!(check(&own, &[]));
        assert!(!check(&other, &[]));
        assert!(check(&other, &["https://evil.example/".to_owned()]));
        assert!(check(&[("origin", "https://behind.proxy"), ("sec-fetch-site", "same-origin")], &[]));
        assert!(!check(&[own[0], own[1], ("sec-fetch-site", "same-site")], &[]));
    }
}
