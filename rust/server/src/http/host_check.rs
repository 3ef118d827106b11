//! Hosts: the names a server answers to.
//!
//! A page of any site can have its own name point to 127.0.0.1 ("DNS rebinding") and then read what a server there answers,
//! because for the browser it is the same site. It cannot choose the `Host` that the browser sends: that is the page's
//! own name. So a server that only listens to its own machine and asks for no key answers to addresses, to `localhost`, and
//! to the names it was told; any other server does so where it was told names.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use pullquote_core::error::{Error, ErrorKind, Result};

use crate::net::listener::Address;
use crate::settings::Settings;

/// The names a server answers to, in lower case; none where it answers to all.
pub(crate) struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Which they are for a server that listens there.
    pub(crate) fn read(settings: &Settings, address: &Address, has_keys: bool) -> Result<Self> {
        let told = &settings.allowed_host;
        if told.iter().any(|host| host == "*") {
            return Ok(Self(None));
        }
        let names = told.iter().map(|host| name(host)).collect::<Result<Vec<String>>>()?;
        // No browser asks at a Unix socket.
        let is_loopback = matches!(address, Address::Tcp(address) if address.ip().to_canonical().is_loopback());
        let is_open = is_loopback && !has_keys;
        Ok(Self((is_open || !names.is_empty()).then_some(names)))
    }

    /// Whether a request is for this server. One without any host is no browser's.
    pub(crate) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(names) = &self.0 else { return true };
        let of_headers = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok());
        let mut asked = uri.authority().map(|authority| Some(authority.as_str())).into_iter().chain(of_headers);
        asked.all(|host| host.is_some_and(|host| knows(names, host)))
    }
}

fn knows(names: &[String], host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    host == "localhost" || address.parse::<IpAddr>().is_ok() || names.contains(&host)
}

fn name(told: &str) -> Result<String> {
    let is_name =
        |host: &Authority| host.port().is_none() && !host.as_str().contains('@') && told.len() == host.host().len();
    match told.parse::<Authority>() {
        Ok(host) if is_name(&host) => Ok(host.host().trim_end_matches('.').to_ascii_lowercase()),
        _ => {
            let message = format!("allowed_host must be * or a name like example.com, without a port, not {told:?}");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(names: &[&str], host: &str) -> bool {
        let hosts = Hosts(Some(names.iter().map(|told| name(told).unwrap()).collect()));
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
        for told in ["", "example.com:80", "https://example.com", "a@b", "a b"] {
            let error = name(told).unwrap_err();
            assert!(error.message().contains("allowed_host") && error.message().contains(told), "{error}");
        }
    }
}
