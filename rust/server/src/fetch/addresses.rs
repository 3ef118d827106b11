//! Addresses: which are public, and which are in the server's own network.
//!
//! The tables are IANA's registries of special-purpose addresses (RFC 6890 and what followed it). The standard library
//! has this as `IpAddr::is_global`, which is not stable.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks of version 4 that are not public.
const V4: [Ipv4Net; 16] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    // A carrier's NAT.
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    // Azure's metadata service, although the address looks public.
    v4([168, 63, 129, 16], 32),
    // Link-local; other clouds' metadata services.
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    // Multicast.
    v4([224, 0, 0, 0], 4),
    // Reserved, and the broadcast.
    v4([240, 0, 0, 0], 4),
];

/// The one network of version 6 that is public.
const V6_PUBLIC: Ipv6Net = v6([0x2000, 0, 0], 3);

/// Networks in it that are not.
const V6: [Ipv6Net; 4] = [
    // Protocols: tunnels (Teredo), benchmarks, ORCHID.
    v6([0x2001, 0, 0], 23),
    v6([0x2001, 0xdb8, 0], 32),
    // 6to4: a tunnel to any address of version 4.
    v6([0x2002, 0, 0], 16),
    v6([0x3fff, 0, 0], 20),
];

/// A translator's prefix, which an address of version 4 follows.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6([a, b, c]: [u16; 3], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// The addresses that fetches may reach.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// In addition to all public ones.
    allowed: Vec<IpNet>,
}

/// A name has an address that must not be reached.
#[derive(Debug)]
pub(super) struct PrivateAddress;

impl Guard {
    pub(super) const fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    pub(super) fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.allowed.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has an address that is not public")
    }
}

impl std::error::Error for PrivateAddress {}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => V6_PUBLIC.contains(&address) && !V6.iter().any(|network| network.contains(&address)),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !V4.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_not_public() {
        let inside = "
            0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
            168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.168.0.1 198.18.0.1
            198.19.255.255 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1
            ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1
            2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1
        ";
        for address in inside.split_whitespace() {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn other_addresses_are_public() {
        let outside = "
            1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
            168.63.129.17 169.253.255.255 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 223.255.255.255
            ::ffff:8.8.8.8 64:ff9b::808:808 2001:4860:4860::8888 2606:4700::1111 2a00:1450:4001::1
        ";
        for address in outside.split_whitespace() {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn fetch_allow_permits_only_its_networks() {
        let guard = Guard::new(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/64".parse().unwrap()]);
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "8.8.8.8"] {
            assert!(guard.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.2.0.1", "::ffff:10.2.0.1", "fd00:0:0:1::1", "127.0.0.1", "169.254.169.254"] {
            assert!(!guard.allows(address.parse().unwrap()), "{address}");
        }
    }
}
